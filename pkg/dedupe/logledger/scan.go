package logledger

import (
	"context"
	"fmt"
	"iter"
	"math"
)

// scan reads the log of a lane, from its end to its beginning, without a Ledger.
type scan struct {
	LaneID
	storage Storage
}

// lanesIn returns how many lanes a scope has, or 0 if it has no log. Lane 0 is the first lane to get a chain row.
func lanesIn(ctx context.Context, storage Storage, scope string) (int, error) {
	page, err := storage.Epochs(ctx, LaneID{scope, 0}, 1, 1)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	return page[0].Lanes, nil
}

// epochs returns the chain rows, the latest first. A chain row of another layout is an error.
func (s scan) epochs(ctx context.Context) iter.Seq2[Epoch, error] {
	return func(yield func(Epoch, error) bool) {
		for below := math.MaxInt32; ; {
			page, err := s.storage.Epochs(ctx, s.LaneID, below, chainPage)
			if err != nil {
				yield(Epoch{}, err)
				return
			}
			for _, e := range page {
				if e.Layout != layout {
					yield(e, errLayout)
					return
				}
				if below = e.Number; !yield(e, nil) {
					return
				}
			}
			if len(page) < chainPage {
				return
			}
		}
	}
}

// placed is an item with its index.
type placed struct {
	index int
	item
}

// items returns the items of an epoch, in order. Some may be missing.
func (s scan) items(ctx context.Context, epoch int) iter.Seq2[placed, error] {
	return func(yield func(placed, error) bool) {
		for next, more := 0, true; more; {
			var page []Item
			var err error
			if page, more, err = s.storage.Read(ctx, Place{s.LaneID, epoch, next}, 0, true); err != nil {
				yield(placed{}, err)
				return
			}
			for _, i := range page {
				it, err := decode(i.Data)
				if err != nil {
					err = fmt.Errorf("lane %d of the scope %q, epoch %d, item %d: %w", s.Lane, s.Scope, epoch, i.Index, err)
				}
				if next = i.Index + 1; !yield(placed{i.Index, it}, err) || err != nil {
					return
				}
			}
			more = more && len(page) > 0
		}
	}
}
