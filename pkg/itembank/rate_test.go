package itembank_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestRate: each operation on many rows takes as long as its rows need at the rate. The clock of the test moves only
// while the Bank sleeps.
func TestRate(t *testing.T) {
	t.Parallel()
	const rate = 100
	f := inMemory(t)
	f.create(itembank.Settings{Shards: 2, OnEnd: itembank.Return, ClaimLife: time.Hour / 2})
	clock := itembankfault.NewClock()
	free := itembank.NewOperator(f.Store, itembank.WithClock(clock), itembank.WithRate(rate), itembank.WithRate(0))
	b := itembank.NewOperator(f.Store, itembank.WithClock(clock), itembank.WithRate(rate))
	items := codes("code", 1000)
	claims := func() error {
		for _, claimant := range codes("claimant", 300) {
			if _, err := b.Claim(f.ctx, f.name, claimant); err != nil {
				return err
			}
		}
		return nil
	}
	load := func(b *itembank.Operator) func() error {
		return func() error { _, err := b.Load(f.ctx, f.name, itembank.Items(items...), nil); return err }
	}
	replay := func() error {
		var lines []itembank.Claim
		for _, claimant := range codes("claimant", 100) {
			lines = append(lines, claimOf(claimant, "code"))
		}
		f.Must(f.bank().CloseCampaign(f.ctx, f.name))
		_, err := b.ReplayDryRun(f.ctx, f.name, replayOf(lines...))
		return err
	}
	seats := f.named("seats")
	seats.stocked(300, itembank.Settings{Columns: true})
	freeItems := func(campaign string) func() error {
		return func() error {
			for page, cursor := (itembank.ItemPage{}), ""; ; cursor = page.Next {
				var err error
				if page, err = b.FreeItems(f.ctx, campaign, cursor, itembank.MaxItemPage); err != nil || page.Next == "" {
					return err
				}
			}
		}
	}
	for _, test := range []struct {
		name string
		rows int
		do   func() error
	}{
		{"load of new items", 1000 + 50, load(b)}, // the first chunk is looked up
		{"load of known items", 1000, load(b)},
		{"without a rate", 0, load(free)},
		{"dry run", 1000, func() error { _, err := b.DryRun(f.ctx, f.name, itembank.Items(items...)); return err }},
		{"claims", 0, claims},
		{"free items", 700, freeItems(f.name)},
		{"free items with columns", 2 * 300, freeItems(seats.name)},
		{"counts", 0, func() error { _, err := b.Counts(f.ctx, f.name); return err }},
		{"reconcile", 1000 + 1000, func() error { _, err := b.Reconcile(f.ctx, f.name); return err }},
		{"sweep of due claims", 300, func() error { _, err := b.SweepDue(f.ctx, f.name, nil); return err }},
		{"sweep", 1000, func() error { _, err := b.Sweep(f.ctx, f.name, nil); return err }},
		{"withdraw all", 1000 + 1000, func() error { _, err := b.WithdrawAll(f.ctx, f.name, nil); return err }},
		{"replay", 1000 + 100, replay},
	} {
		clock.Advance(time.Hour / 4) // the Bank may begin with a transaction at once
		start := clock.Now()
		f.Must(test.do())
		least, most := time.Duration(max(test.rows-50, 0))*time.Second/rate, time.Duration(test.rows)*time.Second/rate
		if took := clock.Now().Sub(start); took < least || took > most {
			f.Errorf("%s: want %v to %v for %d rows, got %v", test.name, least, most, test.rows, took)
		}
	}
}

// TestRateEndsWithTheContext: an operation that waits for its rate stops when its context ends.
func TestRateEndsWithTheContext(t *testing.T) {
	t.Parallel()
	f := inMemory(t)
	f.stocked(200, itembank.Settings{})
	ctx, cancel := context.WithCancel(f.ctx)
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := f.bank(itembank.WithRate(1)).Reconcile(ctx, f.name); !errors.Is(err, context.Canceled) {
		f.Errorf("want %v, got %v", context.Canceled, err)
	}
}
