package logledger

import "sync/atomic"

// Stats says what a Ledger has done and has in memory.
type Stats struct {
	Memory, MemoryLimit int64 // bytes of entries, and the most that they may take
	Appends             int64 // requests to append an item, those that failed included
	Conflicts           int64 // appends that found another process's item; their records were decided again
	ItemsRead           int64
	Loads               int64 // of lanes, or of earlier epochs of a lane
	Evictions           int64
	// Units are the write units of the appends, computed by the sizes of the items, and BusiestLane those of the lane that
	// has the most. A partition of DynamoDB takes 1,000 a second.
	Units, BusiestLane int64
}

type counts struct {
	appends, conflicts, itemsRead, loads, evictions atomic.Int64
	units                                           []atomic.Int64 // by lane, of all scopes
}

// The size of an item of DynamoDB without its data: the names of its attributes, its key and its purge time. A write unit
// is 1 KB.
const (
	aboutItem = 100
	unit      = 1024
)

func (c *counts) appended(lane, bytes int) {
	c.appends.Add(1)
	c.units[lane].Add(int64(bytes+aboutItem+unit-1) / unit)
}

// Stats returns the counts since New.
func (l *Ledger) Stats() Stats {
	s := Stats{
		Memory: l.memory.used.Load(), MemoryLimit: l.memory.limit, Appends: l.counts.appends.Load(),
		Conflicts: l.counts.conflicts.Load(), ItemsRead: l.counts.itemsRead.Load(), Loads: l.counts.loads.Load(),
		Evictions: l.counts.evictions.Load(),
	}
	for n := range l.counts.units {
		units := l.counts.units[n].Load()
		s.Units += units
		s.BusiestLane = max(s.BusiestLane, units)
	}
	return s
}
