package logledger

import (
	"context"
	"fmt"
	"time"
)

// Problem is an error in a log.
type Problem struct {
	Place Place  `json:"place"` // of the wrong item; of a chain row: its epoch, with the index 0
	What  string `json:"what"`
}

// Verified has the counts of a Verify.
type Verified struct {
	Lanes  int   `json:"lanes"` // 0: the scope has no log
	Epochs int   `json:"epochs"`
	Purged int   `json:"purged"` // of the Epochs: epochs with missing items, after their purge time
	Items  int   `json:"items"`  // without seals
	Rows   int64 `json:"rows"`
	// Derived counts the Rows under the key of another record's id, because their contents differ.
	Derived int64 `json:"derived"`
	// Unknown counts the Derived rows whose other record may have been in a purged item.
	Unknown  int64 `json:"unknown"`
	Problems int   `json:"problems"`
}

// Verify checks the log of a scope, and reports each problem. Epochs and items must be complete, except where they
// are past their purge time. Nothing may follow a seal. Each row must be justified by the rows before it. Other
// processes may append meanwhile.
//
// A row does not have its arrival, but its item has the earliest and the latest one. Verify reports a row only if it is
// wrong for all arrivals between these. It does not check the purge times of items, nor whether all records have rows.
//
// Verify reads everything once, consistently, one lane after the other, each from its end. It keeps the rows in
// memory for which earlier rows may count: the rows of a window, at about 100 bytes each.
func Verify(
	ctx context.Context, storage Storage, scope string, now func() time.Time, report func(Problem),
) (Verified, error) {
	var total Verified
	lanes, err := lanesIn(ctx, storage, scope)
	if err != nil {
		return total, err
	}
	total.Lanes = lanes
	for n := range lanes {
		v := verifier{
			scan: scan{LaneID{scope, n}, storage}, total: &total, lanes: lanes, now: now, report: report,
			later: map[rowKey]*laterRow{},
		}
		if err := v.lane(ctx); err != nil {
			return total, err
		}
	}
	return total, nil
}

// verifier verifies a lane, from its end to its beginning.
type verifier struct {
	scan
	total  *Verified
	lanes  int
	now    func() time.Time
	report func(Problem)
	// later has the rows that were already read, as long as an earlier row may count for them.
	later map[rowKey]*laterRow
}

// laterRow is a row that follows the rows that are being read.
type laterRow struct {
	epoch, index int
	arrivals
	content
	tag
	derived   bool
	justified bool // it is not derived, or a row was found from which it can be derived
	unknown   bool // the row from which it is derived may be purged
	next      *laterRow
}

func (v *verifier) problem(epoch, index int, format string, args ...any) {
	v.total.Problems++
	v.report(Problem{Place{v.LaneID, epoch, index}, fmt.Sprintf(format, args...)})
}

func (v *verifier) lane(ctx context.Context) error {
	var after *Epoch
	for e, err := range v.epochs(ctx) {
		if err != nil {
			return err
		}
		v.chainRow(e, after)
		v.forgetFrom(e.Until)
		if err := v.epoch(ctx, e, after); err != nil {
			return err
		}
		after = &e
	}
	if after != nil && after.Number != 0 {
		v.problem(after.Number, 0, "the chain row before is missing")
	}
	v.forgetFrom(beginning)
	return nil
}

// chainRow checks a chain row, and whether the chain row after it follows it.
func (v *verifier) chainRow(e Epoch, after *Epoch) {
	v.total.Epochs++
	window := e.Window.Milliseconds()
	switch {
	case e.Lanes != v.lanes:
		v.problem(e.Number, 0, "the chain row says that there are %d lanes, and the first one of lane 0 says %d", e.Lanes,
			v.lanes)
	case window <= 0 || e.Horizon < 0 || e.Start >= e.Ends || e.Until < e.Ends+window:
		v.problem(e.Number, 0, "the chain row is wrong in itself: %+v", e)
	case e.Number == 0 && e.Until != e.Ends+window:
		v.problem(0, 0, "the first chain row does not end with its own window: %+v", e)
	}
	if after == nil {
		return
	}
	switch {
	case after.Number != e.Number+1:
		v.problem(after.Number, 0, "the chain row before is missing")
	case after.Start != e.Ends || after.Until != max(e.Until, after.Ends+after.Window.Milliseconds()):
		v.problem(after.Number, 0, "the chain row does not follow the one before: %+v after %+v", *after, e)
	}
}

// epoch checks the items of an epoch, and then its rows, from the last one back.
func (v *verifier) epoch(ctx context.Context, e Epoch, after *Epoch) error {
	var items []placed
	for i, err := range v.items(ctx, e.Number) {
		if err != nil {
			return err
		}
		items = append(items, i)
	}
	for n := len(items) - 1; n >= 0; n-- {
		if i := items[n]; !i.seal {
			v.item(e, i)
		}
	}
	if !v.complete(e, after, items) {
		v.markUnknown(e)
	}
	return nil
}

// complete reports whether an epoch has all of its items, including its seal, and no item after the seal. After the
// purge time an incomplete epoch is no problem: items may be deleted, and a seal may have the index of a deleted
// item.
func (v *verifier) complete(e Epoch, after *Epoch, items []placed) bool {
	index, wrong := gap(after, items)
	switch {
	case wrong == "":
		return true
	case v.now().Unix() < e.PurgeAt():
		v.problem(e.Number, index, "%s; the purge time of the epoch is %s", wrong,
			time.Unix(e.PurgeAt(), 0).UTC().Format(time.RFC3339))
	default:
		v.total.Purged++
	}
	return false
}

// gap finds the first index at which the items of an epoch are wrong.
func gap(after *Epoch, items []placed) (index int, wrong string) {
	next, sealed := 0, false
	for _, i := range items {
		switch {
		case sealed:
			return i.index, "the item stands behind the seal"
		case i.index != next:
			return next, "the item is missing"
		case after != nil && i.seal != (i.index == after.Sealed):
			return i.index, fmt.Sprintf("the next chain row says that the seal has the index %d", after.Sealed)
		}
		next, sealed = i.index+1, i.seal
	}
	if after != nil && !sealed {
		return next, "the item is missing"
	}
	return 0, ""
}

// item checks an item and its rows.
func (v *verifier) item(e Epoch, i placed) {
	v.total.Items++
	v.total.Rows += int64(len(i.rows))
	v.total.Derived += int64(len(i.rows) - i.plain)
	switch {
	case len(i.rows) == 0:
		v.problem(e.Number, i.index, "the item has no rows")
	case i.at.least > i.at.greatest || i.at.greatest-i.at.least > e.Window.Milliseconds()/runsInWindow:
		v.problem(e.Number, i.index, "the arrivals of the item are from %s to %s: too far apart", when(i.at.least),
			when(i.at.greatest))
	case i.at.greatest >= e.Ends:
		v.problem(e.Number, i.index, "an arrival of the item is %s, and the epoch has ended at %s", when(i.at.greatest),
			when(e.Ends))
	}
	for n := len(i.rows) - 1; n >= 0; n-- {
		r := i.rows[n]
		row := &laterRow{
			epoch: e.Number, index: i.index, arrivals: i.at, content: r.content, tag: r.tag,
			derived: n >= i.plain, justified: n < i.plain, next: v.later[r.key],
		}
		for later := row.next; later != nil; later = later.next {
			v.comparePair(e, row, later)
		}
		v.later[r.key] = row
	}
}

// comparePair checks a row by an earlier row under the same key. e is the epoch of the earlier row.
func (v *verifier) comparePair(e Epoch, first, later *laterRow) {
	window := e.Window.Milliseconds()
	since, until := first.least-window, first.greatest+window
	together := first.epoch == later.epoch && first.index == later.index
	mayCount := together || since <= later.greatest && later.least <= until
	counts := together || since <= later.least && later.greatest <= until
	wrong := ""
	switch {
	case first.tag == later.tag:
		wrong = "the record has two rows"
	case first.content == later.content:
		wrong = "a copy has a row of its own"
	case !later.derived:
		wrong = "two contents have one id: the second row is not derived"
	default:
		later.justified = later.justified || mayCount
		return
	}
	if counts {
		v.problem(later.epoch, later.index, "%s (content %x, tag %x); the first row is in epoch %d, item %d", wrong,
			later.content, later.tag, first.epoch, first.index)
	}
}

// markUnknown marks the later rows that may be derived from a missing row of an incomplete epoch.
func (v *verifier) markUnknown(e Epoch) {
	for _, row := range v.later {
		for ; row != nil; row = row.next {
			row.unknown = row.unknown || row.least < e.Ends+e.Window.Milliseconds()
		}
	}
}

// forgetFrom forgets the rows for which no earlier row counts, because their arrivals are at or after until. It reports
// derived rows that no row justifies.
func (v *verifier) forgetFrom(until int64) {
	for key, row := range v.later {
		var kept *laterRow
		for row != nil {
			next := row.next
			switch {
			case row.least < until:
				row.next, kept = kept, row
			case row.justified:
			case row.unknown:
				v.total.Unknown++
			default:
				v.problem(row.epoch, row.index, "a derived row (content %x, tag %x) has no row before it with another content",
					row.content, row.tag)
			}
			row = next
		}
		if v.later[key] = kept; kept == nil {
			delete(v.later, key)
		}
	}
}

func when(arrival int64) string { return time.UnixMilli(arrival).UTC().Format(time.RFC3339Nano) }
