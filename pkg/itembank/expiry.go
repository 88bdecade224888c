package itembank

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Items that have ended stay in the bank until somebody takes them out. A request
// that meets nothing else goes past them, in large reads, and takes a few out: to
// read an item costs a hundredth of what it costs to end it. Sweep takes out all.
const (
	// maxPassed is how many ended items a request goes past before it gives up with
	// ErrTryAgain; it cannot say sold out, since live ones may be behind them. It makes
	// at most 20 reads beyond four a shard, which is about what proves a bank empty
	// anyway, and at some 120 bytes a row takes 600 read units. The next request begins
	// at another place.
	maxPassed = 20 * listPage

	// maxExpired is how many of them it takes out: one transaction. A sale should not
	// wait for the cleaning.
	maxExpired = engine.MaxAddItems
)

var errTooManyEnded = fmt.Errorf("%w: the bank is full of ended items; sweep it", ErrTryAgain)

// search is one request's search for a live item.
type search struct {
	start   time.Time         // of the request
	passed  int               // ended items that it has gone past
	ended   []engine.FreeItem // some of them, to be taken out
	expired bool              // that was done
}

// partition parts items that can be handed out from those that have ended.
func partition(items []engine.FreeItem, now time.Time) (live, past []engine.FreeItem) {
	for _, i := range items {
		if ended(i, now) {
			past = append(past, i)
		} else {
			live = append(live, i)
		}
	}
	return live, past
}

// passEnded goes on with a walk, whose latest page is items, until it brings live
// items or is over. What is left of it is not known to be empty if there is an error.
func (b *Bank) passEnded(ctx context.Context, w *walk, items []engine.FreeItem, now time.Time, q *search) (live []engine.FreeItem, err error) {
	for {
		live, ended := partition(items, now)
		if len(live) > 0 {
			return live, b.expire(ctx, q)
		}
		q.pass(ended)
		if w.over() {
			return nil, nil
		}
		if q.passed >= maxPassed {
			if err := b.expire(ctx, q); err != nil {
				return nil, err
			}
			return nil, errTooManyEnded
		}
		if items, err = b.read(ctx, w, listPage); err != nil {
			return nil, err
		}
	}
}

// pass counts ended items and keeps some. An item may be met twice, and a transaction
// names it once.
func (q *search) pass(ended []engine.FreeItem) {
	q.passed += max(len(ended), 1) // a page may be empty and not the last
	for _, i := range ended {
		if len(q.ended) == maxExpired {
			return
		}
		if !slices.ContainsFunc(q.ended, func(o engine.FreeItem) bool { return o.Hash == i.Hash }) {
			q.ended = append(q.ended, i)
		}
	}
}

// expire takes the ended items that a search kept out of the bank, once. That
// somebody else was faster, or that an item row is missing, is no matter of the
// request that met them; nor does it wait for rows that others are busy with.
func (b *Bank) expire(ctx context.Context, q *search) error {
	if q.expired {
		return nil
	}
	for open := endings(q.ended, engine.Expired, b.now()); len(open) > 0; {
		q.expired = true
		answers, err := b.store.EndItems(ctx, open)
		if err != nil {
			return err
		}
		var rest []engine.EndRequest
		for i, a := range answers {
			if a == engine.EndUnsettled { // for its company, which has its answers now
				rest = append(rest, open[i])
			}
		}
		if len(rest) == len(open) {
			return nil
		}
		open = rest
	}
	return nil
}

func endings(items []engine.FreeItem, state engine.ItemState, endedBy time.Time) []engine.EndRequest {
	all := make([]engine.EndRequest, len(items))
	for i, item := range items {
		all[i] = engine.EndRequest{Item: item, EndedBy: endedBy, State: state}
	}
	return all
}
