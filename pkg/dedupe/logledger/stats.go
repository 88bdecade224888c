package logledger

import (
	"math"
	"slices"
	"sync/atomic"
)

// Stats says what a Ledger has done and has in memory.
type Stats struct {
	Memory, MemoryLimit int64 // bytes of entries, and the most that they may take
	// Needed are the bytes that the entries take, at most, that count for the last records of each lane. The others make
	// room when room is needed, so Memory rises to MemoryLimit in time, and Needed says how far a MemoryError is.
	Needed    int64
	Appends   int64 // requests to append an item, those that failed included
	Conflicts int64 // appends that found another process's item; their records were decided again
	ItemsRead int64
	Loads     int64 // of the last epoch of a lane, or of earlier ones
	Evictions int64
	// Units are the write units of the appends, computed by the sizes of the items, and BusiestLane those of the lane that
	// has the most. A partition of DynamoDB takes 1,000 a second.
	Units, BusiestLane int64
	LaneUnits          []int64 // by lane, of all scopes
}

// Since returns what was done since an earlier one. The memory is that of s.
func (s Stats) Since(before Stats) Stats {
	s.Appends -= before.Appends
	s.Conflicts -= before.Conflicts
	s.ItemsRead -= before.ItemsRead
	s.Loads -= before.Loads
	s.Evictions -= before.Evictions
	units := slices.Clone(s.LaneUnits)
	for lane, earlier := range before.LaneUnits {
		units[lane] -= earlier
	}
	s.setUnits(units)
	return s
}

func (s *Stats) setUnits(byLane []int64) {
	s.LaneUnits, s.Units, s.BusiestLane = byLane, 0, 0
	for _, units := range byLane {
		s.Units += units
		s.BusiestLane = max(s.BusiestLane, units)
	}
}

type counts struct {
	appends, conflicts, itemsRead, loads, evictions atomic.Int64
	units                                           []atomic.Int64 // by lane, of all scopes
}

// BesidesData is the size of an item of DynamoDB without its data, in bytes: the names of its attributes, its key with a
// scope of six letters, and its purge time.
const BesidesData = 45

const unit = 1024 // bytes

func (c *counts) appended(lane, bytes int) {
	c.appends.Add(1)
	c.units[lane].Add(unitsOf(bytes))
}

// unitsOf returns the write units of an item whose data has so many bytes.
func unitsOf(bytes int) int64 { return int64(bytes+BesidesData+unit-1) / unit }

// Stats returns the counts since New.
func (l *Ledger) Stats() Stats {
	s := Stats{
		Memory: l.memory.used.Load(), MemoryLimit: l.memory.limit, Appends: l.counts.appends.Load(),
		Conflicts: l.counts.conflicts.Load(), ItemsRead: l.counts.itemsRead.Load(), Loads: l.counts.loads.Load(),
		Evictions: l.counts.evictions.Load(),
	}
	units := make([]int64, len(l.counts.units))
	for n := range units {
		units[n] = l.counts.units[n].Load()
	}
	s.setUnits(units)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lanes := range l.scopes {
		for _, lane := range lanes {
			s.Needed += lane.counting.Load()
		}
	}
	return s
}

// noteCounting notes how many bytes the entries take that count for what is wanted, with those of one more item, if
// there are any.
func (l *lane) noteCounting(more int) {
	counting := more
	for n, e := range l.epochs {
		if e.Until > l.wanted {
			counting += l.rows[n]
		}
	}
	perItem := float64(l.entries.count+more) / float64(l.items.count()+min(1, more))
	l.counting.Store(int64(math.Round(float64(counting) * (entrySize + heldSize/max(1, perItem)))))
}
