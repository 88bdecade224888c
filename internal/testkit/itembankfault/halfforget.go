package itembankfault

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// forgetWhileClaiming makes a claimant with a seat claim again and again, while an operator forgets the claimant and
// another claimant waits for the seat. The claimant gets the first claim until the first refusal, and nothing after it.
// The claimant also gets nothing after the other claimant got the seat.
func forgetWhileClaiming(ctx context.Context, e enginetest.Engine, seed uint64, m *Mutant) error {
	w := newWorld(ctx, e)
	run := halfRun{seed, halfSpreads[seed%uint64(len(halfSpreads))]}
	store := run.start(w)
	operators := store
	if m != nil {
		operators = m.Wrap(enginetest.Engine{Store: store, Raw: e.Raw}, w.clock)
	}
	newBank := func(n uint64) *itembank.Operator {
		return itembank.NewOperator(store, itembank.WithClock(w.clock), itembank.WithRandom(seededBy(run.seed+n)))
	}
	return w.violated(func() {
		w.Create("", itembank.Settings{Shards: 1, OnEnd: itembank.Return})
		w.Load("", "seat-1", "seat-2")
		first := w.Get("", "ann")
		w.clock.Advance(2 * emptyMemory)
		var over, passedOn atomic.Bool
		var wrong error // of ann's client
		var clients sync.WaitGroup
		clients.Go(func() {
			run.begin(0)
			bank := newBank(1)
			for refused := false; !over.Load(); {
				before := passedOn.Load()
				grant, err := bank.Claim(ctx, w.name, "ann")
				switch {
				case errors.Is(err, itembank.ErrNotEligible):
					refused = true
				case errors.Is(err, itembank.ErrTryAgain):
				case err != nil:
					wrong = fmt.Errorf("ann was refused: %w", err)
					return
				case grant.Claim.ID != first.ID || refused || before:
					const form = "G2: ann was given %+v, and then %+v (after a refusal: %t, the seat was passed on: %t)"
					wrong = fmt.Errorf(form, first, grant.Claim, refused, before)
					return
				}
			}
		})
		clients.Go(func() {
			run.begin(1)
			for bank := newBank(2); !over.Load(); time.Sleep(time.Millisecond) {
				grant, err := bank.Claim(ctx, w.name, "bob")
				if err == nil && grant.Claim.Items[0] == first.Items[0] {
					passedOn.Store(true)
				}
				if err == nil {
					_, _ = bank.Release(ctx, w.name, "bob", grant.Claim.ID)
				}
			}
		})
		operator := itembank.NewOperator(operators, itembank.WithClock(w.clock), itembank.WithRandom(seededBy(^run.seed)))
		run.begin(2)
		_, err := operator.Forget(ctx, w.name, "ann", itembank.ForgetOptions{})
		for tries := 0; errors.Is(err, itembank.ErrTryAgain) && tries < mostTries; tries++ {
			_, err = operator.Forget(ctx, w.name, "ann", itembank.ForgetOptions{})
		}
		over.Store(true)
		clients.Wait()
		w.must(err)
		w.must(wrong)
		if grant, err := newBank(3).Claim(ctx, w.name, "ann"); !errors.Is(err, itembank.ErrNotEligible) {
			w.fail("ann was forgotten, and got %+v, %w", grant, err)
		}
		w.state.release(w.campaigns[""], "ann", first.ID)
		note(w.state.Asked, w.name, "ann", "bob")
		note(w.state.Blocked, w.name, "ann")
		w.checkRows(true)
	})
}
