package logledger

import (
	"math"
	"slices"
	"sync/atomic"
)

// Stats has the work of a Ledger, and its memory.
type Stats struct {
	Memory, MemoryLimit int64 // bytes of entries, and the most that they may take
	// Needed is how many bytes are needed at most by the entries that count for the last records of each lane. Other
	// entries are dropped only when room is needed. So Memory rises to MemoryLimit over time, and Needed shows how
	// close a MemoryError is.
	Needed    int64
	Appends   int64 // requests to append an item, including those that failed
	Conflicts int64 // appends that found an item of another process; their records were decided again
	ItemsRead int64
	Loads     int64 // of the last epoch of a lane, or of earlier ones
	Evictions int64
	// Units is the write units of the appends, computed from the sizes of the items. BusiestLane is the write units
	// of the lane that has the most. A partition of DynamoDB takes 1,000 a second.
	Units, BusiestLane int64
	LaneUnits          []int64 // by lane, for all scopes
}

// Since returns the work since an earlier Stats. The memory is taken from s.
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
	units                                           []atomic.Int64 // by lane, for all scopes
}

// BesidesData is the size of a DynamoDB item without its data, in bytes: the names of its attributes, its key with a
// scope of six letters, and its purge time.
const BesidesData = 45

const unit = 1024 // bytes

func (c *counts) appended(lane, bytes int) {
	c.appends.Add(1)
	c.units[lane].Add(unitsOf(bytes))
}

// unitsOf returns the write units of an item from the size of its data in bytes.
func unitsOf(bytes int) int64 { return int64(bytes+BesidesData+unit-1) / unit }

// Stats returns the work since New, and the present memory.
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

// noteCounting records how many bytes the entries take that count for the wanted arrivals. more is the number of
// entries of one more item; 0: there is none.
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
