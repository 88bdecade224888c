package itembank_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var withdrawCases = []testCase{
	{"items-in-each-place", withdrawItemsInEachPlace},
	{"repeated-lines", withdrawRepeatedLines},
	{"all-items", withdrawAll},
	{"invalid-input-changes-nothing", withdrawInvalid},
	{"held-items-end-with-their-claims", withdrawHeld},
	{"items-that-keep-moving", withdrawMoving},
}

// withdrawn withdraws items, and compares the report.
func (f *fixture) withdrawn(want itembank.WithdrawReport, items ...string) {
	f.Helper()
	if got, err := f.bank().Withdraw(f.ctx, f.name, itembank.Items(items...)); err != nil || got != want {
		f.Errorf("withdraw: want %+v, got %+v, %v", want, got, err)
	}
}

func withdrawItemsInEachPlace(f *fixture) {
	c, items := f.stocked(70, itembank.Settings{OnEnd: itembank.Return})
	f.Take(c, "ann", items[0])
	f.Close(enginerows.BurnOf(c, f.Take(c, "bob", items[1])))
	all := append(slices.Clone(items), "not-loaded", "not-loaded too")
	f.withdrawn(itembank.WithdrawReport{Withdrawn: 68, Already: 1, Held: 1, Unknown: 2}, all...)
	n := itembank.Counts{Loaded: 70, Claimed: 1, Ended: 69}
	f.wantCounts(engine.Counts(n))
	f.WantWhere("withdrawn", c, items[69])
	f.WantWhere("held by ann", c, items[0], "ann")
	f.withdrawn(itembank.WithdrawReport{Already: 69, Held: 1, Unknown: 2}, all...)
	f.wantTally(itembank.Tally{Rows: 70, Known: 70}, items...) // withdrawn for good
	f.refused(f.bank(), "cid", itembank.ErrSoldOut)
	f.wantCounts(engine.Counts(n))

	f.released(f.bank(), *f.Held(c, "ann"), itembank.Released{Ended: "withdrawn"})
	f.withdrawn(itembank.WithdrawReport{Already: 1}, items[0])
	f.wantCounts(engine.Counts{Loaded: 70, Ended: 70})
}

// withdrawRepeatedLines: a repeated line is counted by the result of the first one, whether it is in the same
// transaction or in another one.
func withdrawRepeatedLines(f *fixture) {
	c, items := f.stocked(102, itembank.Settings{})
	f.Take(c, "ann", items[0])
	lines := slices.Concat(items, []string{items[101], items[0], items[1], "not-loaded", "not-loaded"})
	f.withdrawn(itembank.WithdrawReport{Withdrawn: 101, Already: 2, Held: 2, Unknown: 2}, lines...)
	f.wantCounts(engine.Counts{Loaded: 102, Claimed: 1, Ended: 101})
}

func withdrawAll(f *fixture) {
	c, items := f.stocked(120, itembank.Settings{Shards: 2, ItemLife: time.Hour})
	f.Take(c, "ann", items[0])
	clock := itembankfault.NewClock()
	clock.Advance(2 * time.Hour) // ended items are withdrawn too
	b := f.bank(itembank.WithClock(clock))
	for _, want := range []itembank.WithdrawReport{{Withdrawn: 119}, {}} {
		reported := f.progress(func(p itembank.Progress) {
			if got, err := b.WithdrawAll(f.ctx, f.name, p); err != nil || got != want {
				f.Errorf("withdraw all: want %+v, got %+v, %v", want, got, err)
			}
		})
		if last := append([]int64{0}, reported...)[len(reported)]; last != want.Withdrawn || want.Withdrawn > 0 && len(reported) < 3 {
			f.Errorf("withdraw all: %d are done, and the progress was %v", want.Withdrawn, reported)
		}
		f.wantCounts(engine.Counts{Loaded: 120, Claimed: 1, Ended: 119})
	}
}

func withdrawInvalid(f *fixture) {
	c, items := f.stocked(60, itembank.Settings{})
	_, err := f.bank().Withdraw(f.ctx, f.name, itembank.Items(append(slices.Clone(items), "")...))
	var line *itembank.LineError
	if !errors.Is(err, itembank.ErrInvalid) || !errors.As(err, &line) || line.Line != 61 {
		f.Errorf("want invalid line 61, got %v", err)
	}
	if _, err := f.bank().Withdraw(f.ctx, f.name, itembank.Items()); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("no items: want invalid input, got %v", err)
	}
	f.wantCounts(engine.Counts{Loaded: 60, Free: 60})
	f.dropItemRow(c, items[5])
	got, err := f.bank().Withdraw(f.ctx, f.name, itembank.Items(items...))
	if !errors.Is(err, &itembank.InconsistentError{Kind: "free-not-loaded"}) || !strings.Contains(err.Error(), items[5]) || got.Withdrawn != engine.MaxAddItems-1 {
		f.Errorf("an item without a row: want %v and what was done, got %v and %+v", &itembank.InconsistentError{Kind: "free-not-loaded"}, err, got)
	}
	f.WantWhere("free, not loaded", c, items[5])
	f.putState(c, items[55], engine.Burned)
	got, err = f.bank().Withdraw(f.ctx, f.name, itembank.Items(items[50:]...))
	if !errors.Is(err, &itembank.InconsistentError{Kind: "free-and-ended"}) || !strings.Contains(err.Error(), items[55]) || got.Withdrawn != 9 {
		f.Errorf("an item that ended: want %v and what was done, got %v and %+v", &itembank.InconsistentError{Kind: "free-and-ended"}, err, got)
	}
	f.WantWhere("free, burned", c, items[55])
}

// withdrawHeld: a held item that is withdrawn stays with its claimant, and Reconcile reports nothing. It ends as
// withdrawn however its claim ends.
func withdrawHeld(f *fixture) {
	for i, test := range []struct {
		settings itembank.Settings
		end      func(one *fixture, b *itembank.Operator, claim engine.Claim, clock *itembankfault.Clock)
	}{
		{itembank.Settings{OnEnd: itembank.Return}, releasedAsWithdrawn},
		{itembank.Settings{OnEnd: itembank.Burn}, releasedAsWithdrawn},
		{itembank.Settings{OnEnd: itembank.Return, ItemLife: time.Hour}, func(one *fixture, b *itembank.Operator, claim engine.Claim, clock *itembankfault.Clock) {
			clock.Advance(2 * time.Hour) // the item's own life is over too
			releasedAsWithdrawn(one, b, claim, clock)
		}},
		{itembank.Settings{OnEnd: itembank.Return, ClaimLife: time.Hour}, func(one *fixture, b *itembank.Operator, _ engine.Claim, clock *itembankfault.Clock) {
			clock.Advance(2 * time.Hour)
			if report, err := b.Sweep(one.ctx, one.name, nil); err != nil || report != (itembank.SweepReport{Withdrawn: 1}) {
				one.Errorf("sweep: want one item withdrawn, got %+v, %v", report, err)
			}
		}},
		{itembank.Settings{OnEnd: itembank.Return, ClaimLife: time.Hour}, func(one *fixture, b *itembank.Operator, _ engine.Claim, clock *itembankfault.Clock) {
			clock.Advance(2 * time.Hour)
			one.refused(b, "ann", itembank.ErrSoldOut)
		}},
	} {
		one := f.named(fmt.Sprint(i))
		c, items := one.stocked(1, test.settings)
		clock := itembankfault.NewClock()
		b := f.bank(itembank.WithClock(clock))
		claim := one.claim(b, "ann").Claim
		for range 2 {
			one.withdrawn(itembank.WithdrawReport{Held: 1}, items...)
		}
		if again := one.claim(b, "ann"); !reflect.DeepEqual(again.Claim, claim) || !again.Replayed {
			f.Errorf("%+v: ann held %+v, and got %+v", test.settings, claim, again)
		}
		if report, err := b.Reconcile(f.ctx, one.name); err != nil || len(report.Inconsistencies) > 0 {
			f.Errorf("%+v: want no inconsistency, got %+v, %v", test.settings, report.Inconsistencies, err)
		}
		test.end(one, b, rowOf(claim), clock)
		one.WantWhere("withdrawn", c, items[0], "ann")
		one.withdrawn(itembank.WithdrawReport{Already: 1}, items...)
	}
}

func releasedAsWithdrawn(one *fixture, b *itembank.Operator, claim engine.Claim, _ *itembankfault.Clock) {
	one.released(b, claim, itembank.Released{Ended: "withdrawn"})
}

// withdrawMoving: Withdraw gives up after some tries if an item keeps moving, and reports the items up to then.
func withdrawMoving(f *fixture) {
	c, items := f.stocked(2, itembank.Settings{OnEnd: itembank.Return})
	f.Take(c, "ann", items[0])
	busy := &itembankfault.Store{Store: f.Store, Plan: func(_ int, method string) itembankfault.Fault {
		if method == "MarkWithdrawn" {
			return itembankfault.ItemConflict
		}
		return itembankfault.None
	}}
	b := itembank.NewOperator(busy, itembank.WithClock(itembankfault.NewClock()))
	got, err := b.Withdraw(f.ctx, f.name, itembank.Items(items...))
	if !errors.Is(err, itembank.ErrTryAgain) || got != (itembank.WithdrawReport{Withdrawn: 1}) {
		f.Errorf("want %v and one item withdrawn, got %v and %+v", itembank.ErrTryAgain, err, got)
	}
	f.withdrawn(itembank.WithdrawReport{Already: 1, Held: 1}, items...)
}
