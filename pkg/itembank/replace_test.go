package itembank_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var replaceCases = []testCase{
	{"another-item", replaceItem},
	{"sold-out-keeps-the-claim", replaceSoldOut},
	{"repeated-with-the-same-id", replaceRepeated},
	{"refusals", replaceRefused},
	{"claim-that-ends", replaceEnding},
	{"meets-other-requests", replaceMeetsOthers},
	{"rows-that-contradict", replaceContradictions},
}

// replaced replaces a claim, which must succeed, and returns the claim that the claimant has now.
func (f *fixture) replaced(b *itembank.Operator, claim itembank.Claim, replayed bool) itembank.Claim {
	f.Helper()
	grant, err := b.Replace(f.ctx, claim.Campaign, claim.Claimant, claim.ID, itembank.InSlot(claim.Slot))
	if err != nil || grant.Replayed != replayed || !strings.HasPrefix(grant.Claim.ID, claim.ID+".") {
		f.Fatalf("replace %+v: want replayed %t, got %+v, %v", claim, replayed, grant, err)
	}
	return grant.Claim
}

// notReplaced tries to replace a claim of ann's, and expects the refusal.
func (f *fixture) notReplaced(b *itembank.Operator, id string, want error, options ...itembank.ClaimOption) {
	f.Helper()
	if grant, err := b.Replace(f.ctx, f.name, "ann", id, options...); !errors.Is(err, want) {
		f.Errorf("replace %q for ann: want %v, got %+v, %v", id, want, grant, err)
	}
}

// replaceItem: the claimant has another item, with the same end. The old item has ended, also where items return and
// where it was withdrawn before, and no claimant gets it.
func replaceItem(f *fixture) {
	for _, s := range []itembank.Settings{
		{Shards: 1, Columns: true}, {Shards: 2, OnEnd: itembank.Return, ClaimLife: time.Hour, PerClaimant: 2}, holds,
	} {
		one := f.named(string(s.OnEnd) + s.Hold.String())
		c := one.create(s)
		items := codes("code", 3)
		one.load(items...)
		counted := one.counted()
		clock := itembankfault.NewClock()
		b := itembank.NewOperator(counted, itembank.WithClock(clock))
		grant, err := b.Claim(f.ctx, one.name, "ann", itembank.InSlot(max(s.PerClaimant, 1)))
		f.Must(err)
		old := grant.Claim
		_, err = b.Withdraw(f.ctx, one.name, itembank.Items(old.Items[0]))
		f.Must(err)
		clock.Advance(time.Second)
		counted.Calls()
		now := one.replaced(b, old, false)
		if !s.Columns {
			one.wantCalls("replace", counted, "HeldClaim", "ItemRow", "CloseClaim")
		}
		if now.Items[0] == old.Items[0] || !now.EndsAt.Equal(old.EndsAt) || !now.ClaimedAt.Equal(old.ClaimedAt.Add(time.Second)) || now.Slot != old.Slot {
			f.Errorf("%+v was replaced by %+v", old, now)
		}
		if held, err := b.HeldClaim(f.ctx, one.name, "ann", itembank.InSlot(old.Slot)); err != nil || !reflect.DeepEqual(held, now) {
			f.Errorf("want %+v, got %+v, %v", now, held, err)
		}
		one.lookedUp(b, old.Items[0], itembank.PlaceReplaced, "")
		one.wantCounts(engine.Counts{Loaded: 3, Free: 1, Claimed: 1, Ended: 1})
		if done, err := b.Release(f.ctx, one.name, "ann", old.ID, itembank.InSlot(old.Slot)); err != nil || !done.Already {
			f.Errorf("a release of the old claim: got %+v, %v", done, err)
		}
		if s.Hold > 0 {
			one.notConfirmed(b, old.ID, itembank.ErrClaimEnded)
		}
		one.claim(b, "bob")
		one.refused(b, "cid", itembank.ErrSoldOut)
		one.WantWhere("replaced", c, old.Items[0], "ann", "bob", "cid")
	}
}

// replaceSoldOut: without another item nothing changes. Where holds have ended, their items are other items.
func replaceSoldOut(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{Shards: 2})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	claim := f.claim(b, "ann").Claim
	for range 2 {
		f.notReplaced(b, claim.ID, itembank.ErrSoldOut)
		if held := f.Held(c, "ann"); held == nil || *held != rowOf(claim) {
			f.Errorf("want %+v kept, got %+v", claim, held)
		}
		f.WantWhere("held by ann", c, claim.Items[0], "ann")
	}
	f.load("another")
	clock.Advance(itembank.DefaultCampaignCache)
	if now := f.replaced(b, claim, false); now.Items[0] != "another" {
		f.Errorf("got %+v", now)
	}

	due := f.named("due")
	due.stocked(2, holds)
	over := due.claim(b, "bob").Claim
	clock.SetTo(over.EndsAt.Add(endGrace + time.Millisecond))
	if now := due.replaced(b, due.claim(b, "ann").Claim, false); now.Items[0] != over.Items[0] {
		f.Errorf("want the item of a hold that is over, got %+v", now)
	}
}

// replaceRepeated: a call that is repeated with the same id, after a lost reply or by another caller, uses up no other
// item. It has its answer also when the campaign is sold out or closed, and after the claim was replaced again.
func replaceRepeated(f *fixture) {
	c, _ := f.stocked(3, itembank.Settings{Shards: 1})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	claim := f.claim(b, "ann").Claim
	lost := f.interruptedAt(1, true, func() error { return errLost }, "CloseClaim")
	f.notReplaced(itembank.NewOperator(lost, itembank.WithClock(clock)), claim.ID, itembank.ErrTryAgain)
	second := f.replaced(b, claim, true)
	f.wantCounts(engine.Counts{Loaded: 3, Free: 1, Claimed: 1, Ended: 1})

	var third itembank.Claim // made by another caller, between the reads and the write
	meanwhile := f.interruptedAt(1, false, func() error { third = f.replaced(b, second, false); return nil }, "CloseClaim")
	if got := f.replaced(itembank.NewOperator(meanwhile, itembank.WithClock(clock)), second, true); !reflect.DeepEqual(got, third) {
		f.Errorf("want %+v, got %+v", third, got)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Claimed: 1, Ended: 2})
	for _, change := range []func() error{
		func() error { return nil }, // the campaign is sold out
		func() error { return f.bank().CloseCampaign(f.ctx, f.name) },
	} {
		f.Must(change())
		clock.Advance(itembank.DefaultCampaignCache)
		for _, earlier := range []itembank.Claim{claim, second} {
			if got := f.replaced(b, earlier, true); !reflect.DeepEqual(got, third) {
				f.Errorf("want %+v, got %+v", third, got)
			}
		}
	}
	f.notReplaced(b, third.ID, itembank.ErrClosed)
	f.WantWhere("held by ann", c, third.Items[0], "ann")
}

// replaceRefused: whatever is wrong is said, and changes nothing.
func replaceRefused(f *fixture) {
	later := itembankfault.NewClock().Now().Add(time.Hour)
	c, _ := f.stocked(6, itembank.Settings{Shards: 1, Scope: f.name + "-scope", Choice: true})
	b := f.bank()
	f.notReplaced(b, "no-such-id", itembank.ErrNoClaim)
	ann := f.choose(b, "ann", "code-00000")
	f.notReplaced(b, "no-such-id", itembank.ErrClaimEnded)
	f.notReplaced(b, ann.ID[:8], itembank.ErrClaimEnded)
	for _, id := range []string{"", strings.Repeat("x", 248)} {
		f.notReplaced(b, id, itembank.ErrInvalid)
	}
	f.notReplaced(b, ann.ID, itembank.ErrInvalid, itembank.InSlot(2))
	if _, err := b.Replace(f.ctx, f.name+"-none", "ann", ann.ID); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("no campaign: got %v", err)
	}
	f.createNamed(f.name+"-other", itembank.Settings{Scope: c.Scope, Choice: true})
	if _, err := b.Replace(f.ctx, f.name+"-other", "ann", ann.ID); !errors.Is(err, itembank.ErrClaimedElsewhere) {
		f.Errorf("a claim of another campaign: got %v", err)
	}
	several := f.choose(b, "bob", "code-00004", "code-00005")
	if _, err := b.Replace(f.ctx, f.name, "bob", several.ID); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("a claim of several items: got %v", err)
	}
	f.WantWhere("held by ann", c, ann.Items[0], "ann")
	_, err := b.Forget(f.ctx, c.Scope, "ann", itembank.ForgetOptions{})
	f.Must(err)
	f.notReplaced(b, ann.ID, itembank.ErrNotEligible)

	closed := f.named("later")
	closed.stocked(2, itembank.Settings{Shards: 1, OpensAt: later})
	claim := closed.Take(campaignRow(closed), "ann", "code-00000")
	closed.notReplaced(f.bank(itembank.WithClock(itembankfault.NewClock())), claim.ID, itembank.ErrNotOpen)
}

// campaignRow reads the row of the fixture's campaign.
func campaignRow(f *fixture) engine.Campaign {
	c, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	return *c
}

// replaceEnding: a claim is replaced until its end. The new claim ends when the old one would have ended.
func replaceEnding(f *fixture) {
	c, _ := f.stocked(3, itembank.Settings{Shards: 1, ClaimLife: time.Minute})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	claim := f.claim(b, "ann").Claim
	clock.SetTo(claim.EndsAt.Add(-time.Millisecond))
	claim = f.replaced(b, claim, false)
	clock.SetTo(claim.EndsAt)
	f.notReplaced(b, claim.ID, itembank.ErrNoClaim)
	f.WantWhere("held by ann", c, claim.Items[0], "ann")
	clock.SetTo(claim.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{Expired: 1})
}

// replaceMeetsOthers: other claimants take the item that the request has found and all others, while two more are loaded;
// the rows are busy, or the claim is released.
func replaceMeetsOthers(f *fixture) {
	c, _ := f.stocked(4, itembank.Settings{Shards: 1})
	b := f.bank()
	claim, others := f.claim(b, "ann").Claim, []string{"bob", "cid", "dan"}
	other := f.interruptedAt(1, false, func() error {
		for _, claimant := range others {
			f.claim(b, claimant)
		}
		f.load("more-1", "more-2")
		return nil
	}, "CloseClaim")
	claim = f.replaced(itembank.NewOperator(other), claim, false)
	f.WantWhere("held by ann", c, claim.Items[0], append(others, "ann")...)

	busy := &itembankfault.Store{Store: f.Store, CloseResults: []engine.CloseResult{
		{Conflict: true}, {Throttled: true}, {ItemChanged: true}, {ClaimChanged: true}, {ItemGone: true, ClaimChanged: true},
	}}
	never := &itembankfault.Store{Store: f.Store, CloseResults: slices.Repeat([]engine.CloseResult{{Throttled: true}}, 100)}
	f.notReplaced(itembank.NewOperator(never, itembank.WithClock(itembankfault.NewClock())), claim.ID, itembank.ErrTryAgain)
	claim = f.replaced(itembank.NewOperator(busy, itembank.WithClock(itembankfault.NewClock())), claim, false)
	f.wantCounts(engine.Counts{Loaded: 6, Claimed: 4, Ended: 2})

	f.load("last")
	released := f.interruptedAt(1, false, func() error {
		f.released(b, rowOf(claim), itembank.Released{Ended: "burned"})
		return nil
	}, "CloseClaim")
	f.notReplaced(itembank.NewOperator(released), claim.ID, itembank.ErrNoClaim)
	f.WantWhere("free", c, "last", "ann")
}

// replaceContradictions: a claim whose item is also free, or was never loaded, stays as it is. A claim whose item has
// ended is replaced, and the item stays as it is marked.
func replaceContradictions(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{Shards: 1})
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	claim := f.claim(b, "ann").Claim
	free := enginerows.FreeItem(c, claim.Items[0])
	f.putBankRow(free)
	f.notReplaced(b, claim.ID, &itembank.InconsistentError{Kind: "held-and-free"})
	f.dropBankRow(free)
	row := *f.ItemRow(c, claim.Items[0])
	f.dropItemRow(c, claim.Items[0])
	f.load("another")
	b = f.bank()
	f.notReplaced(b, claim.ID, &itembank.InconsistentError{Kind: "held-not-loaded"})
	f.Must(f.raw.PutItemRow(f.ctx, c.Name, engine.ListedItem{Hash: free.Hash, ItemRow: row}))
	f.putState(c, claim.Items[0], engine.Lost)
	f.replaced(b, claim, false)
	f.WantWhere("lost", c, claim.Items[0], "ann")
	f.WantWhere("held by ann", c, "another", "ann")
}
