package itembank_test

import (
	"errors"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The marks of a campaign whose store is being left, or was restored.
var movedCases = []testCase{
	{"moved-campaign-stands-still", movedStandsStill},
	{"restored-campaign-takes-confirmations", restoredTakesConfirmations},
	{"marks-stay", marksStay},
	{"marks-are-seen-in-time", marksSeenInTime},
	{"scope-of-a-restored-campaign", scopeOfRestored},
	{"ended-claim-of-a-moved-campaign", endedClaimOfMoved},
	{"sweep-that-is-overtaken", sweepOvertaken},
	{"forget-that-is-overtaken", forgetOvertaken},
	{"opened-without-a-replay", openedWithoutReplay},
}

// heldAndEnded creates a campaign with holds. Ann's hold has ended by the clock, and bob's has not.
func (f *fixture) heldAndEnded(clock *itembankfault.Clock) (c engine.Campaign, ann, bob itembank.Claim) {
	f.Helper()
	c, _ = f.stocked(3, itembank.Settings{Shards: 1, Hold: time.Minute, MaxHold: time.Hour})
	b := f.bank(itembank.WithClock(clock))
	ann = f.claim(b, "ann").Claim
	clock.Advance(time.Hour)
	return c, ann, f.claim(b, "bob").Claim
}

// standsStill checks that nobody claims, gives up a hold, sweeps, withdraws, or changes blocks.
func (f *fixture) standsStill(b *itembank.Operator, c engine.Campaign, ann, bob itembank.Claim, want error) {
	f.Helper()
	check := func(what string, err error) {
		f.Helper()
		if marked, ok := errors.AsType[*itembank.MarkedError](err); !errors.Is(err, want) || !ok || marked.Campaign != f.name {
			f.Errorf("%s: want %v, got %v", what, want, err)
		}
	}
	f.refused(b, "cid", want)
	f.refused(b, "bob", want)
	_, err := b.ReleaseHold(f.ctx, f.name, "bob", bob.ID)
	check("release by the holder", err)
	_, err = b.Prolong(f.ctx, f.name, "bob", bob.ID, bob.EndsAt)
	check("prolongation", err)
	_, err = b.Replace(f.ctx, f.name, "bob", bob.ID)
	check("replace", err)
	_, err = b.Sweep(f.ctx, f.name, nil)
	check("sweep", err)
	_, err = b.SweepDue(f.ctx, f.name, nil)
	check("sweep of due claims", err)
	_, err = b.Withdraw(f.ctx, f.name, itembank.Items(bob.Items[0]))
	check("withdraw", err)
	_, err = b.WithdrawAll(f.ctx, f.name, nil)
	check("withdraw all", err)
	_, err = b.Forget(f.ctx, c.Scope, "bob", itembank.ForgetOptions{})
	check("forget", err)
	_, err = b.Block(f.ctx, c.Scope, "cid")
	check("block", err)
	_, err = b.Unblock(f.ctx, c.Scope, "cid")
	check("unblock", err)
	f.wantState(b, itembank.Closed)
	f.WantWhere("held by ann", c, ann.Items[0], "ann")
	f.WantWhere("held by bob", c, bob.Items[0], "bob")
}

// movedStandsStill: in a campaign that is moved no claim is made, confirmed, released or swept.
func movedStandsStill(f *fixture) {
	clock := itembankfault.NewClock()
	c, ann, bob := f.heldAndEnded(clock)
	f.Must(f.bank().CloseMoved(f.ctx, f.name))
	b := f.bank(itembank.WithClock(clock))
	f.standsStill(b, c, ann, bob, itembank.ErrMoved)
	if _, err := b.Release(f.ctx, f.name, "bob", bob.ID); !errors.Is(err, itembank.ErrMoved) {
		f.Errorf("release: got %v", err)
	}
	for claimant, id := range map[string]string{"bob": bob.ID, "cid": "none"} {
		if _, err := b.Confirm(f.ctx, f.name, claimant, id); !errors.Is(err, itembank.ErrMoved) {
			f.Errorf("confirmation by %s: got %v", claimant, err)
		}
	}
	if held := f.Held(c, "bob"); held == nil || held.EndsAt.IsZero() {
		f.Errorf("got %+v", held)
	}
}

// restoredTakesConfirmations: in a campaign that is restored a payment is not refused. Of a hold that the store does not
// have, or that the old store may have closed at its end, it cannot say yet what became of it.
func restoredTakesConfirmations(f *fixture) {
	clock := itembankfault.NewClock()
	c, ann, bob := f.heldAndEnded(clock)
	f.Must(f.bank().CloseRestored(f.ctx, f.name))
	b := f.bank(itembank.WithClock(clock))
	f.standsStill(b, c, ann, bob, itembank.ErrRestored)
	for claimant, id := range map[string]string{"ann": ann.ID, "cid": "none", "bob": "another"} {
		if _, err := b.Confirm(f.ctx, f.name, claimant, id); !errors.Is(err, itembank.ErrRestored) {
			f.Errorf("confirmation by %s: got %v", claimant, err)
		}
	}
	for range 2 {
		if confirmed, err := b.Confirm(f.ctx, f.name, "bob", bob.ID); err != nil || !confirmed.EndsAt.IsZero() {
			f.Errorf("got %+v, %v", confirmed, err)
		}
	}
}

// marksStay: opening, closing and changing a campaign leave its marks.
func marksStay(f *fixture) {
	for name, mark := range map[string]struct {
		set             func(*itembank.Operator) error
		moved, restored bool
		err             error
	}{
		"moved":    {func(b *itembank.Operator) error { return b.CloseMoved(f.ctx, f.name+"-moved") }, true, false, itembank.ErrMoved},
		"restored": {func(b *itembank.Operator) error { return b.CloseRestored(f.ctx, f.name+"-restored") }, false, true, itembank.ErrRestored},
	} {
		f := f.named(name)
		f.stocked(1, itembank.Settings{Shards: 1})
		b := f.bank()
		wantMark := func(after string, mode engine.Mode) {
			f.Helper()
			row, err := f.Store.Campaign(f.ctx, f.name)
			f.Must(err)
			if row.Moved != mark.moved || row.Restored != mark.restored || row.Mode != mode {
				f.Errorf("after %s: got %+v", after, row)
			}
		}
		f.Must(b.OpenCampaign(f.ctx, f.name))
		f.Must(mark.set(b))
		first, err := f.Store.Campaign(f.ctx, f.name)
		f.Must(err)
		wantMark("the mark", first.Mode)
		if err := b.OpenCampaign(f.ctx, f.name); !errors.Is(err, mark.err) {
			f.Errorf("open: got %v", err)
		}
		_, err = b.ChangeCampaign(f.ctx, f.name, itembank.CampaignChange{ByTimes: true})
		if !errors.Is(err, mark.err) {
			f.Errorf("by times: got %v", err)
		}
		wantMark("open", first.Mode)
		f.load("more")
		f.Must(closeIt.do(f, b))
		wantMark("close", first.Mode)
		otherPageSize(f)
		wantMark("a change", first.Mode)
		f.Must(closeUntilReconciled.do(f, b))
		wantMark("close until reconciled", engine.ClosedUntilReconciled)
		f.wantState(f.bank(), itembank.Closed)
	}
	both := f.named("both")
	both.stocked(1, itembank.Settings{Shards: 1})
	marks := func(moved bool) {
		f.Helper()
		row, err := f.Store.Campaign(f.ctx, both.name)
		if f.Must(err); row.Moved != moved || !row.Restored || row.Mode != engine.ClosedUntilReconciled {
			f.Errorf("want moved %t and restored, got %+v", moved, row)
		}
	}
	f.Must(both.bank().CloseRestored(f.ctx, both.name))
	f.Must(both.bank().CloseMoved(f.ctx, both.name))
	marks(true)
	f.Must(both.bank().CloseRestored(f.ctx, both.name)) // a copy of a store that was moved
	marks(false)
}

// marksSeenInTime: a Bank that has a copy of the rules from before the mark follows it when the copy is too old, also for
// requests that need only the fixed settings.
func marksSeenInTime(f *fixture) {
	clock := itembankfault.NewClock()
	c, _, bob := f.heldAndEnded(clock)
	requests := map[string]func(*itembank.Operator) error{
		"claim":   func(b *itembank.Operator) error { _, err := b.Claim(f.ctx, f.name, "cid"); return err },
		"confirm": func(b *itembank.Operator) error { _, err := b.Confirm(f.ctx, f.name, "bob", bob.ID); return err },
		"release": func(b *itembank.Operator) error { _, err := b.Release(f.ctx, f.name, "bob", bob.ID); return err },
		"give up": func(b *itembank.Operator) error { _, err := b.ReleaseHold(f.ctx, f.name, "bob", bob.ID); return err },
	}
	stale := map[string]*itembank.Operator{}
	for name := range requests {
		stale[name] = f.bank(itembank.WithClock(clock))
		if _, err := stale[name].Claim(f.ctx, f.name, "bob"); err != nil { // so that it knows that the campaign is never deleted
			f.Fatal(err)
		}
	}
	f.Must(f.bank().CloseMoved(f.ctx, f.name))
	clock.Advance(itembank.DefaultCampaignCache)
	for name, request := range requests {
		if err := request(stale[name]); !errors.Is(err, itembank.ErrMoved) {
			f.Errorf("%s: got %v", name, err)
		}
	}
	f.WantWhere("held by bob", c, bob.Items[0], "bob")
}

// scopeOfRestored: no campaign of the scope is opened, in whatever way. A claimant whose claim in the restored campaign is
// not replayed yet could claim a second item.
func scopeOfRestored(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1, Scope: f.name})
	other := f.named("other")
	other.stocked(1, itembank.Settings{Shards: 1, Scope: f.name})
	b := f.bank()
	f.Must(b.CloseUntilReconciled(f.ctx, other.name))
	refused := func(what string, err error) {
		f.Helper()
		if marked, ok := errors.AsType[*itembank.MarkedError](err); !errors.Is(err, itembank.ErrRestored) || !ok || marked.Campaign != f.name {
			f.Errorf("%s: got %v", what, err)
		}
	}
	store := f.interruptedAt(1, false, func() error { return f.bank().CloseRestored(f.ctx, f.name) }, "ListItemRows")
	refused("open, and marked meanwhile", itembank.NewOperator(store).OpenCampaign(f.ctx, other.name))
	refused("open", b.OpenCampaign(f.ctx, other.name))
	refused("open without a replay", b.OpenWithoutReplay(f.ctx, other.name))
	f.Must(b.CloseCampaign(f.ctx, other.name))
	_, err := b.ChangeCampaign(f.ctx, other.name, itembank.CampaignChange{ByTimes: true})
	refused("by times", err)

	f.Must(b.CloseWithoutReplay(f.ctx, f.name))
	f.wantState(b, itembank.Closed)
	f.Must(b.OpenCampaign(f.ctx, other.name))
}

// endedClaimOfMoved: a request in another campaign of the scope does not close a claim that has ended in a campaign that
// was moved. It was perhaps confirmed in the other store.
func endedClaimOfMoved(f *fixture) {
	clock := itembankfault.NewClock()
	c, ann, _ := f.heldAndEnded(clock)
	other := f.named("other")
	other.stocked(1, itembank.Settings{Shards: 1, Hold: time.Minute, Scope: f.name})
	f.Must(f.bank().CloseMoved(f.ctx, f.name))
	b := f.bank(itembank.WithClock(clock))
	other.refused(b, "ann", itembank.ErrMoved)
	f.WantWhere("held by ann", c, ann.Items[0], "ann")
}

// sweepOvertaken: a campaign is moved while it is swept. The sweep stops within the time for which it may use its copy
// of the rules.
func sweepOvertaken(f *fixture) {
	for name, sweep := range map[string]func(*fixture, *itembank.Operator) error{
		"all": func(f *fixture, b *itembank.Operator) error { _, err := b.Sweep(f.ctx, f.name, nil); return err },
		"due": func(f *fixture, b *itembank.Operator) error { _, err := b.SweepDue(f.ctx, f.name, nil); return err },
	} {
		f := f.named(name)
		clock := itembankfault.NewClock()
		c, _ := f.stocked(2, itembank.Settings{Shards: 1, Hold: time.Minute})
		for _, claimant := range []string{"ann", "bob"} {
			f.claim(f.bank(itembank.WithClock(clock)), claimant)
		}
		clock.Advance(time.Hour)
		store := f.interruptedAt(1, true, func() error {
			f.Must(f.bank().CloseMoved(f.ctx, f.name))
			clock.Advance(itembank.DefaultCampaignCache)
			return nil
		}, "CloseClaim")
		b := itembank.NewOperator(store, itembank.WithClock(clock), itembank.WithSweepLanes(1)) // one close after the other
		if err := sweep(f, b); !errors.Is(err, itembank.ErrMoved) {
			f.Errorf("%s: got %v", name, err)
		}
		if ann, bob := f.Held(c, "ann"), f.Held(c, "bob"); (ann == nil) == (bob == nil) {
			f.Errorf("%s: want one claim closed, got %+v and %+v", name, ann, bob)
		}
	}
}

// openedWithoutReplay: a person opens a campaign whose old store is gone, and hears before which claims the store knows.
// Rows that contradict each other still keep it closed.
func openedWithoutReplay(f *fixture) {
	c, items := f.stocked(2, itembank.Settings{Shards: 1, Scope: f.name})
	other := f.named("other")
	other.stocked(1, itembank.Settings{Shards: 1, Scope: f.name})
	clock := itembankfault.NewClock()
	newest := f.claim(f.bank(itembank.WithClock(clock)), "ann").Claim
	clock.Advance(time.Hour)
	other.claim(f.bank(itembank.WithClock(clock)), "bob") // of another campaign
	f.Must(f.bank().CloseRestored(f.ctx, f.name))
	f.Must(f.bank().CloseMoved(f.ctx, f.name))
	free := items[0]
	if free == newest.Items[0] {
		free = items[1]
	}
	f.putState(c, free, engine.Burned)
	b := f.bank()
	given, err := b.Unreplayed(f.ctx, f.name)
	f.Must(err)
	if want := (itembank.Unreplayed{Moved: true, Restored: true, Newest: newest.ClaimedAt}); given != want {
		f.Errorf("want %+v, got %+v", want, given)
	}
	if err := b.OpenWithoutReplay(f.ctx, f.name); !errors.Is(err, itembank.ErrNotReconciled) {
		f.Errorf("got %v", err)
	}
	f.putState(c, free, "")
	for range 2 {
		f.Must(b.OpenWithoutReplay(f.ctx, f.name))
	}
	f.claim(f.bank(), "cid")
}

// forgetOvertaken: a campaign is moved while a claimant with two slots is forgotten. The second slot stays, because the
// replay may have read it.
func forgetOvertaken(f *fixture) {
	clock := itembankfault.NewClock()
	c, _ := f.stocked(2, itembank.Settings{Shards: 1, PerClaimant: 2})
	b := f.bank(itembank.WithClock(clock))
	for slot := 1; slot <= 2; slot++ {
		_, err := b.Claim(f.ctx, f.name, "ann", itembank.InSlot(slot))
		f.Must(err)
	}
	for name, change := range map[string]func(*itembank.Operator) error{
		"forget": func(b *itembank.Operator) error {
			_, err := b.Forget(f.ctx, c.Scope, "ann", itembank.ForgetOptions{})
			return err
		},
		"block": func(b *itembank.Operator) error { _, err := b.Block(f.ctx, c.Scope, "bob"); return err },
	} {
		store := f.interruptedAt(1, true, func() error {
			clock.Advance(itembank.DefaultCampaignCache)
			return f.bank().CloseMoved(f.ctx, f.name)
		}, "HeldClaim")
		if err := change(itembank.NewOperator(store, itembank.WithClock(clock))); !errors.Is(err, itembank.ErrMoved) {
			f.Errorf("%s: got %v", name, err)
		}
		f.Must(f.bank().CloseWithoutReplay(f.ctx, f.name))
	}
}
