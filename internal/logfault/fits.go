package logfault

import (
	"cmp"
	"math"
	"time"
)

// The memory of a lane consists of pages of entries and pages of items: see table.go and held.go of package
// logledger.
const (
	pageEntries = 1024 // the number of places in a page
	entryBytes  = 24
	slackAtEnd  = 64   // the smallest number of places at the end that no entry asks for
	maxLoad     = 0.86 // the share of the other places that may be taken
	pageItems   = 256
	itemBytes   = 88
)

// fits reports whether the memory of a call's process is large enough. It must hold all entries that count for the
// records of the call, and the entries that the call may add. Other lanes keep the entries that count for the
// earliest arrival.
func (w *world) fits(c *call) bool {
	if c.process.Memory == 0 {
		return true
	}
	least, needed := time.Duration(math.MaxInt64), 0
	var more [mostLanes]int
	for _, n := range c.Records {
		if r := w.Records[n]; !r.Poison {
			least = min(least, r.Arrival)
			more[laneOf(ids[r.Key], cmp.Or(w.lanesOfScope(), w.Lanes))]++
		}
	}
	for n := range w.lanes {
		needed += w.lanes[n].needed(begin.Add(least).UnixMilli(), more[n])
	}
	return int64(needed) <= c.process.Memory
}

// needed returns the largest number of bytes that a lane needs for the entries that count for an arrival, and for
// more new ones. An epoch counts as a whole.
func (l *laneStore) needed(arrival int64, more int) int {
	rows, items, ever := more, 1+more, more // index 0 holds no item
	for n, e := range l.chain {
		if !e.exists || n >= len(l.epochs) {
			continue
		}
		for _, c := range l.epochs[n] {
			if !c.exists || isSeal(c.data) {
				continue
			}
			ever += rowsOf(c.data)
			if e.Until > arrival || n == len(l.chain)-1 {
				rows += rowsOf(c.data)
				items++
			}
		}
	}
	if rows == 0 {
		return 0
	}
	slack, pages := slackAtEnd, 1
	for slack < ever { // all entries may ask for the last place
		slack *= 2
		pages += 1 + slack/pageEntries
	}
	pages += (int(float64(rows)/maxLoad) + slack) / pageEntries
	pages += pages / 10 // the table grows by such a step
	return pages*pageEntries*entryBytes + (items+pageItems-1)/pageItems*pageItems*itemBytes
}
