package itembankfault

import (
	"context"
	"errors"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// killRepair begins a Repair that puts two missing items back, and kills it.
func killRepair(r *cutRun) {
	r.losesItems()
	r.killAdding(func(ctx context.Context, bank *itembank.Operator) error { return r.repair(ctx, bank, lostItems...) })
}

// killRepairBesideAnother does so while another Repair runs, which is not killed. That one puts only one item back.
func killRepairBesideAnother(r *cutRun) {
	r.losesItems()
	first, second := r.random.Int64N(int64(r.spread)), r.random.Int64N(int64(r.spread))
	other, over := lostItems[r.random.IntN(len(lostItems))], make(chan error, 1)
	go func() {
		time.Sleep(time.Duration(first))
		over <- r.repair(r.ctx, r.container(), other)
	}()
	r.killAdding(func(ctx context.Context, bank *itembank.Operator) error {
		time.Sleep(time.Duration(second))
		return r.repair(ctx, bank, lostItems...)
	})
	if err := <-over; !errors.Is(err, itembank.ErrTryAgain) { // rows may be busy
		r.must(err)
	}
}

// killReplay begins a ReplayStore that loads "new" from the old store, and kills it.
func killReplay(r *cutRun) {
	s := memstore.NewItems()
	r.must(CopyCampaign(r.ctx, r.engine.Store, enginetest.Engine{Store: s, Raw: s}, r.name))
	old := itembank.NewOperator(s, itembank.WithClock(r.clock))
	_, err := old.Load(r.ctx, r.name, itembank.Items("new"), nil)
	r.must(err)
	r.must(old.CloseCampaign(r.ctx, r.name))
	r.must(r.bank.CloseRestored(r.ctx, r.name))
	note(r.state.Loading, r.name, "new")
	r.killAdding(func(ctx context.Context, bank *itembank.Operator) error {
		_, err := bank.ReplayStore(ctx, r.name, old, itembank.ReplayOptions{Loads: true})
		return err
	})
}

// lostItems are items that a Repair puts back.
var lostItems = []string{"new", "newer"}

// losesItems loads items, deletes their bank rows, and closes the campaign.
func (r *cutRun) losesItems() {
	r.Load("", lostItems...)
	for _, item := range lostItems {
		r.must(r.engine.Raw.DropBankRow(r.ctx, enginerows.FreeItem(r.campaigns[""], item)))
	}
	r.SetOpen("", false)
}

// repair puts missing items back.
func (r *cutRun) repair(ctx context.Context, bank *itembank.Operator, items ...string) error {
	_, err := bank.Repair(ctx, r.name, itembank.RepairOptions{Items: itembank.Items(items...), ReturnSeenItems: true})
	return err
}

// killAdding runs a command that adds items. It kills the command at one of its calls from its load row on, most often
// when it has sent a transaction.
func (r *cutRun) killAdding(command func(context.Context, *itembank.Operator) error) {
	const startLoad, nextVersion, firstPut, secondPut, end = 3, 4, 5, 6, 7
	calls := []int{startLoad, nextVersion, firstPut, firstPut, firstPut, secondPut, secondPut, secondPut, end, end + 1}
	last, left := calls[r.random.IntN(len(calls))], time.Duration(r.random.Int64N(int64(3*halfWay)))
	ctx, kill := context.WithCancel(r.ctx)
	dead := make(chan struct{})
	call := 0
	store := &Store{Store: r.store, Before: func(method string) error {
		if call > 0 || method == "LatestLoad" {
			call++
		}
		if call == last {
			go func() {
				defer close(dead)
				time.Sleep(left)
				kill()
			}()
		}
		return nil
	}}
	go func() {
		defer close(r.killed)
		defer kill()
		_ = command(ctx, itembank.NewOperator(store, itembank.WithClock(r.clock)))
	}()
	select {
	case <-dead:
	case <-r.killed: // it had nothing to add
	}
	r.pause(r.spread / 2)
}

// openAtOnce opens the campaign, whatever was not replayed, and customers ask.
func openAtOnce(r *cutRun) {
	r.must(r.bank.OpenWithoutReplay(r.ctx, r.name))
	for _, claimant := range []string{"bob", "dan"} {
		_, _ = r.container().Claim(r.ctx, r.name, claimant) // any answer is right
		r.pause(2 * halfWay)
	}
	r.visible()
	r.ask("eve")
}

// openAndRepairAgain does so, and later closes and repairs the campaign again.
func openAndRepairAgain(r *cutRun) {
	openAtOnce(r)
	repairAgain(r)
}

// repairAgainAndOpen repairs the campaign again at once, and opens it while that waits for requests. Another operator
// may do so.
func repairAgainAndOpen(r *cutRun) {
	over := make(chan error, 1)
	go func() { over <- r.repair(r.ctx, r.container(), lostItems...) }()
	r.pause(3 * halfWay)
	openAtOnce(r)
	err := <-over
	if !errors.Is(err, itembank.ErrInvalid) && !errors.Is(err, itembank.ErrReopened) {
		r.fail("the campaign was opened during a repair: %w", err)
	}
	repairAgain(r)
}

// repairAgain closes the campaign, repairs it, and opens it again. Then no load is unfinished.
func repairAgain(r *cutRun) {
	r.SetOpen("", false)
	for {
		err := r.repair(r.ctx, r.container(), lostItems...)
		if err == nil {
			break
		}
		if !errors.Is(err, itembank.ErrTryAgain) {
			r.must(err)
		}
	}
	r.SetOpen("", true)
	if _, unfinished, err := r.engine.Store.Loads(r.ctx, r.name); len(unfinished) > 0 || err != nil {
		r.fail("repaired, and unfinished: %+v, %w", unfinished, err)
	}
}
