package logfault

import (
	"cmp"
	"math"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
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
	for n := range more {
		needed += w.needed(n, begin.Add(least).UnixMilli(), more[n])
	}
	return int64(needed) <= c.process.Memory
}

// rowsOf returns the number of rows of an item.
func rowsOf(data []byte) int { return (len(data) - logledger.HeaderSize) / logledger.RowSize }

// needed returns the largest number of bytes that a lane needs for the entries that count for an arrival, and for
// more new ones. An epoch counts as a whole.
func (w *world) needed(lane int, arrival int64, more int) int {
	rows, items, ever := more, 1+more, more // index 0 holds no item
	of := logledger.LaneID{Scope: scope, Lane: lane}
	chain, _ := w.log.Ever().Epochs(whole, of, math.MaxInt, math.MaxInt)
	for n, e := range chain { // the latest first
		appended, _, _ := w.log.Ever().Read(whole, logledger.Place{LaneID: of, Epoch: e.Number}, math.MaxInt, true)
		for _, i := range appended {
			if memlog.IsSeal(i.Data) {
				continue
			}
			ever += rowsOf(i.Data)
			if e.Until > arrival || n == 0 {
				rows += rowsOf(i.Data)
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
