package logledger

import (
	"context"
	"fmt"
	"time"
)

// Problem is something that is wrong with a log.
type Problem struct {
	Place Place  `json:"place"` // of the item that is wrong; for a chain row its epoch, with the index 0
	What  string `json:"what"`
}

// Verified counts what Verify has read.
type Verified struct {
	Lanes  int   `json:"lanes"` // 0: the scope has no log
	Epochs int   `json:"epochs"`
	Purged int   `json:"purged"` // of the Epochs: those of which items are missing, after their purge time
	Items  int   `json:"items"`  // without seals
	Rows   int64 `json:"rows"`
	// Derived are those of the Rows that are under the key of another record's id, since their contents differ.
	Derived int64 `json:"derived"`
	// Unknown are those of the Derived whose other record may have been in a purged item.
	Unknown  int64 `json:"unknown"`
	Problems int   `json:"problems"`
}

// Verify checks the log of a scope: that its epochs and items are complete up to what is past its purge time, that
// nothing stands behind a seal, and that each row is justified by the rows before it. It reports each problem. Other
// processes may append meanwhile.
//
// A row does not have its arrival, but its item has the least and the greatest one. Verify reports a row only if it is
// wrong for all arrivals between these. It does not see the purge times of items, nor which records have no rows.
//
// Verify reads everything once, consistently, one lane after the other, each from its end on. It keeps those rows in
// memory for which earlier ones may count: the rows of a window, about 100 bytes each.
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
	// later are the rows that were read already, as long as an earlier one may count for them.
	later map[rowKey]*laterRow
}

// laterRow is a row behind those that are being read.
type laterRow struct {
	epoch, index int
	arrivals
	content
	tag
	derived   bool
	justified bool // it is not derived, or a row was found from which it is
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
		v.settle(e.Until)
		if err := v.epoch(ctx, e, after); err != nil {
			return err
		}
		after = &e
	}
	if after != nil && after.Number != 0 {
		v.problem(after.Number, 0, "the chain row before is missing")
	}
	v.settle(beginning)
	return nil
}

// chainRow checks a chain row, and whether the one after it, if there is one, follows it.
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

// epoch checks the items of an epoch, and then its rows, from the last one on.
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
		v.doubt(e)
	}
	return nil
}

// complete reports whether an epoch has all of its items, its seal included, and nothing behind that. After the purge
// time that is no problem: some may be deleted, and a seal may be where an item was.
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

// gap finds the first place where the items of an epoch are not what they should be.
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
	case i.at.least > i.at.greatest || i.at.greatest-i.at.least > e.Window.Milliseconds()/spanOfAnRun:
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
			v.pair(e, row, later)
		}
		v.later[r.key] = row
	}
}

// pair checks a row by one before it under its key. The epoch is that of the first one.
func (v *verifier) pair(e Epoch, first, later *laterRow) {
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

// doubt says of the rows of an epoch that is not complete, and of those behind it, that they may be derived from one
// that is missing.
func (v *verifier) doubt(e Epoch) {
	for _, row := range v.later {
		for ; row != nil; row = row.next {
			row.unknown = row.unknown || row.least < e.Ends+e.Window.Milliseconds()
		}
	}
}

// settle forgets the rows for which nothing before an arrival counts.
func (v *verifier) settle(until int64) {
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
