package itembankfault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// stormSpread is so short that a transaction of three rows is never partly visible in two passes of Reconcile.
const stormSpread = 600 * time.Millisecond

// shortHold and longHold are the longest times for which a client holds a seat. Reconcile starts a pass 2 s after the
// pass before: a seat that is held longer may have the same item row in both passes.
const (
	shortHold = 200 * time.Millisecond
	longHold  = 4 * time.Second
)

// reconcileInAStorm makes clients claim, release and sweep two seats without a pause. Meanwhile an operator
// reconciles the campaign, closes it and repairs it. The campaign is consistent. So a report may name items only as
// moving, and a repair may change nothing.
func reconcileInAStorm(ctx context.Context, e enginetest.Engine, seed uint64, m *Mutant) error {
	w := newWorld(ctx, e)
	run := halfRun{seed, stormSpread}
	store := run.start(w)
	operators := store
	if m != nil {
		operators = m.Wrap(enginetest.Engine{Store: store, Raw: e.Raw}, w.clock)
	}
	return w.violated(func() {
		w.Create("", itembank.Settings{Shards: 2, ClaimLife: historyClaimLife, OnEnd: itembank.Return})
		w.Load("", "seat-1", "seat-2")
		var over atomic.Bool
		var clients sync.WaitGroup
		for i, claimant := range claimants {
			clients.Go(func() {
				run.begin(i)
				random := rand.New(rand.NewPCG(^run.seed, uint64(i)))
				bank := itembank.NewOperator(store, itembank.WithClock(w.clock), itembank.WithRandom(seededBy(run.seed+uint64(i))))
				for !over.Load() {
					w.comeAndGo(bank, random, claimant)
				}
			})
		}
		found := w.operate(itembank.NewOperator(operators, itembank.WithClock(w.clock), itembank.WithRandom(seededBy(^run.seed))))
		over.Store(true)
		clients.Wait()
		w.must(found)
		note(w.state.Asked, w.name, claimants...)
		w.checkRows(true)
	})
}

// comeAndGo claims, waits, and then releases the claim or abandons it. Other tests, the histories, check the answers.
func (w *World) comeAndGo(bank *itembank.Operator, random *rand.Rand, claimant string) {
	wait := func(longest time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(longest)))) }
	grant, err := bank.Claim(w.ctx, w.name, claimant)
	wait([]time.Duration{shortHold, longHold}[random.IntN(2)])
	if err == nil && random.IntN(8) > 0 {
		_, _ = bank.Release(w.ctx, w.name, claimant, grant.Claim.ID)
		wait(shortHold)
	}
	if random.IntN(8) == 0 {
		_, _ = bank.Sweep(w.ctx, w.name, nil)
	}
}

// operate reconciles three times, and then closes and repairs the campaign.
func (w *World) operate(bank *itembank.Operator) error {
	for range 3 {
		report, err := bank.Reconcile(w.ctx, w.name)
		if err := nothingWrong("reconcile", report, err); err != nil {
			return err
		}
	}
	if err := bank.CloseCampaign(w.ctx, w.name); err != nil {
		return err
	}
	report, err := bank.Repair(w.ctx, w.name, itembank.RepairOptions{Items: itembank.Items("seat-1", "seat-2")})
	return nothingWrong("repair", report, err)
}

func nothingWrong(what string, report itembank.ReconcileReport, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	for _, i := range report.Inconsistencies {
		if !isMoving(i) || i.Repaired {
			return fmt.Errorf("%s: nothing is wrong, and the report names %+v", what, i)
		}
	}
	return nil
}
