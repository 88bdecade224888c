package itembank_test

import (
	"errors"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var sweepCases = []testCase{
	{"sweep", sweep},
	{"sweep-goes-on-after-inconsistencies", sweepGoesOnAfterInconsistencies},
	{"sweep-that-is-cut-after-inconsistencies", sweepCutAfterInconsistencies},
}

// swept sweeps, and compares the report.
func (f *fixture) swept(b *itembank.Operator, want itembank.SweepReport) {
	f.Helper()
	if got, err := b.Sweep(f.ctx, f.name, nil); err != nil || got != want {
		f.Errorf("sweep: want %+v, got %+v, %v", want, got, err)
	}
}

// sweepable creates a campaign in which 3 claims and 4 free items have ended. One claim and
// one free item have not.
func (f *fixture) sweepable(onEnd itembank.OnEnd) (c engine.Campaign, clock *itembankfault.Clock) {
	f.Helper()
	clock = itembankfault.NewClock()
	c = f.create(itembank.Settings{Scope: f.name + "-scope", Shards: 1, OnEnd: onEnd, ItemLife: time.Hour, ClaimLife: time.Minute})
	f.loadAt(clock, codes("old", 4)...)
	clock.Advance(time.Minute)
	f.loadAt(clock, codes("new", 5)...)
	end := clock.Now().UTC().Truncate(time.Millisecond)
	for _, item := range codes("new", 3) {
		f.TakeUntil(c, item, item, end)
	}
	f.TakeUntil(c, "new-00003", "new-00003", end.Add(time.Hour))
	clock.Advance(time.Hour - time.Minute)
	return c, clock
}

func sweep(f *fixture) {
	for onEnd, test := range map[itembank.OnEnd]struct {
		report itembank.SweepReport
		after  itembank.Counts
	}{
		itembank.Burn:   {itembank.SweepReport{Expired: 7}, itembank.Counts{Loaded: 9, Free: 1, Claimed: 1, Ended: 7}},
		itembank.Return: {itembank.SweepReport{Returned: 3, Expired: 4}, itembank.Counts{Loaded: 9, Free: 4, Claimed: 1, Ended: 4}},
	} {
		one := f.named(string(onEnd))
		c, clock := one.sweepable(onEnd)
		other := one.createNamed(one.name+"-other", itembank.Settings{Scope: c.Scope})
		f.loadInto(other.Name, "x")
		one.TakeUntil(other, "zoe", "x", clock.Now().UTC().Truncate(time.Millisecond).Add(-time.Hour))
		b := f.bank(itembank.WithClock(clock))
		reported := f.progress(func(p itembank.Progress) {
			if got, err := b.Sweep(f.ctx, one.name, p); err != nil || got != test.report {
				f.Errorf("%s: want %+v, got %+v, %v", onEnd, test.report, got, err)
			}
		})
		// The rows are the five claims of the scope, and the rows that are in the bank after these are closed.
		if rows := 5 + 5 + test.report.Returned; len(reported) < 6 || reported[len(reported)-1] != rows {
			f.Errorf("%s: want a progress of %d rows, got %v", onEnd, rows, reported)
		}
		one.wantCounts(engine.Counts(test.after))
		one.swept(b, itembank.SweepReport{})
		one.WantWhere("held by zoe", other, "x", "zoe") // only a sweep of its own campaign ends it
		one.WantWhere("held by new-00003", c, "new-00003", "new-00003")
		one.WantWhere("free", c, "new-00004")
	}
}

// withInconsistencies creates a campaign with 12 ended claims. Six of them are inconsistent with other rows, two in
// each of three ways. wrong has the errors of these six by the ids of the claims.
func (f *fixture) withInconsistencies() (c engine.Campaign, clock *itembankfault.Clock, wrong map[string]error) {
	f.Helper()
	const n, each = 12, 2
	clock = itembankfault.NewClock()
	c = f.create(itembank.Settings{Shards: 1, OnEnd: itembank.Return, ItemLife: 2 * time.Hour, ClaimLife: time.Minute})
	f.loadAt(clock, codes("old", 3)...)
	clock.Advance(time.Hour)
	items := codes("held", n)
	f.loadAt(clock, items...)
	end := clock.Now().UTC().Truncate(time.Millisecond).Add(time.Minute)
	wrong = map[string]error{}
	for i, item := range items {
		claim := f.TakeUntil(c, item, item, end)
		switch i / each {
		case 0:
			f.putBankRow(enginerows.FreeItem(c, item))
			wrong[claim.ID] = &itembank.InconsistentError{Kind: "held-and-free"}
		case 1:
			f.putState(c, item, engine.Withdrawn)
			wrong[claim.ID] = &itembank.InconsistentError{Kind: "held-and-ended"}
		case 2:
			f.dropItemRow(c, item)
			wrong[claim.ID] = &itembank.InconsistentError{Kind: "held-not-loaded"}
		}
	}
	clock.Advance(time.Hour)
	return c, clock, wrong
}

// sweepGoesOnAfterInconsistencies: an inconsistent claim stays as it is, and all others are swept. The error counts the
// inconsistent claims, and names the first five.
func sweepGoesOnAfterInconsistencies(f *fixture) {
	c, clock, wrong := f.withInconsistencies()
	for _, want := range []itembank.SweepReport{{Returned: 6, Expired: 3}, {}} {
		report, err := f.bank(itembank.WithClock(clock)).Sweep(f.ctx, f.name, nil)
		if report != want || !errors.Is(err, itembank.ErrInconsistent) {
			f.Fatalf("want %+v and inconsistencies, got %+v, %v", want, report, err)
		}
		named := 0
		for id, inconsistency := range wrong {
			if !strings.Contains(err.Error(), id) {
				continue
			}
			if named++; !errors.Is(err, inconsistency) {
				f.Errorf("want an error that is also %v, got %v", inconsistency, err)
			}
		}
		if named != 5 || !strings.Contains(err.Error(), ": 6\n") || !strings.Contains(err.Error(), "and 1 more") {
			f.Errorf("want 6 claims counted and 5 named, got %d:\n%v", named, err)
		}
	}
	for i, item := range codes("held", 12) {
		where := "free"
		switch i / 2 {
		case 0:
			where = "free, held by " + item
		case 1:
			where = "held by " + item + ", withdrawn"
		case 2:
			where = "held by " + item + ", not loaded"
		}
		f.WantWhere(where, c, item, item)
	}
	f.WantWhere("expired", c, "old-00000")
}

// sweepCutAfterInconsistencies: the error of a failed sweep says that it is to be repeated, and also names the
// inconsistent claims.
func sweepCutAfterInconsistencies(f *fixture) {
	_, clock, wrong := f.withInconsistencies()
	failing := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
		if method == "FreeItems" { // after all claims
			return errLost
		}
		return nil
	}}
	report, err := itembank.NewOperator(failing, itembank.WithClock(clock)).Sweep(f.ctx, f.name, nil)
	if !errors.Is(err, errLost) || errors.Is(err, itembank.ErrInconsistent) || report != (itembank.SweepReport{Returned: 6}) {
		f.Errorf("want %v alone, got %+v, %v", errLost, report, err)
	}
	named := 0
	for id := range wrong {
		if strings.Contains(err.Error(), id) {
			named++
		}
	}
	if named != 5 || !strings.Contains(err.Error(), "and 1 more") {
		f.Errorf("want 5 of 6 named, got %v", err)
	}
}
