package itembank_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var expiryCases = []testCase{
	{"settings-are-fixed", settingsAreFixed},
	{"invalid-input", invalidEnds},
	{"claim-lives-until-it-is-closed", claimLivesUntilClosed},
	{"ended-claim-is-closed-when-met", endedClaimClosedWhenMet},
	{"claim-that-got-a-later-end-is-not-closed", laterEnd},
	{"last-item-of-an-ended-claim", lastItemOfEndedClaim},
	{"claimant-gets-the-item-that-comes-back", getsItemThatComesBack},
	{"bank-knows-what-comes-back", bankKnowsWhatComesBack},
	{"item-comes-back-while-the-bank-is-read", comesBackWhileRead},
	{"claim-ends-by-the-rules-of-its-own-campaign", claimEndsByItsOwnCampaign},
	{"items-end", itemsEnd},
	{"item-ends-while-the-server-time-steps-back", itemEndsAsTimeStepsBack},
	{"pages-of-ended-items", pagesOfEndedItems},
	{"page-of-ended-items-in-one-half", pageOfEndedItemsInOneHalf},
	{"items-end-on-the-page", itemsEndOnThePage},
	{"sold-out-of-ended-items", soldOutOfEndedItems},
	{"many-ended-items", manyEndedItems},
	{"bounded-work-for-10000-ended-items", boundedWorkForEndedItems},
	{"too-many-ended-items", tooManyEndedItems},
	{"ended-items-and-lost-races", endedItemsAndLostRaces},
	{"ended-item-in-two-places", endedItemInTwoPlaces},
	{"to-end-items-does-not-wait", endingDoesNotWait},
}

// settingsAreFixed: the ends of claims and items are fixed when a campaign is created.
func settingsAreFixed(f *fixture) {
	s := itembank.Settings{ItemLife: time.Hour, ClaimLife: time.Minute, OnEnd: itembank.Return}
	c := f.create(s)
	first, err := f.bank().Campaign(f.ctx, f.name)
	f.Must(err)
	again, created, err := f.bank().CreateCampaign(f.ctx, f.name, s)
	if err != nil || created || again != first {
		f.Errorf("again: want %+v, got %+v, created %t, %v", first, again, created, err)
	}
	for _, other := range []itembank.Settings{
		{ItemLife: time.Minute, ClaimLife: time.Minute, OnEnd: itembank.Return},
		{ItemLife: time.Hour, OnEnd: itembank.Return},
		{ItemLife: time.Hour, ClaimLife: time.Minute},
	} {
		if _, _, err := f.bank().CreateCampaign(f.ctx, f.name, other); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("with %+v: want it refused, got %v", other, err)
		}
	}
	if got, err := f.Store.Campaign(f.ctx, f.name); err != nil || *got != c {
		f.Errorf("want %+v, got %+v, %v", c, got, err)
	}
}

func invalidEnds(f *fixture) {
	f.stocked(1, itembank.Settings{})
	b := f.bank()
	for _, test := range []struct {
		campaign, claimant string
		want               error
	}{
		{f.name, "", itembank.ErrInvalid},
		{"No-Such", "ann", itembank.ErrInvalid},
		{f.name + "-other", "ann", itembank.ErrNoCampaign},
	} {
		if _, err := b.Release(f.ctx, test.campaign, test.claimant, "id"); !errors.Is(err, test.want) {
			f.Errorf("release(%q, %q): want %v, got %v", test.campaign, test.claimant, test.want, err)
		}
	}
	for name, want := range map[string]error{"No-Such": itembank.ErrInvalid, f.name + "-other": itembank.ErrNoCampaign} {
		_, sweep := b.Sweep(f.ctx, name, nil)
		_, withdraw := b.Withdraw(f.ctx, name, itembank.Items("a"))
		_, withdrawAll := b.WithdrawAll(f.ctx, name, nil)
		_, reconcile := b.Reconcile(f.ctx, name)
		_, repair := b.Repair(f.ctx, name, itembank.RepairOptions{})
		_, replay := b.Replay(f.ctx, name, replayOf())
		for method, err := range map[string]error{
			"Sweep": sweep, "Withdraw": withdraw, "WithdrawAll": withdrawAll, "Reconcile": reconcile, "Repair": repair,
			"Replay": replay,
		} {
			if !errors.Is(err, want) {
				f.Errorf("%s of %q: want %v, got %v", method, name, want, err)
			}
		}
	}
}

// claimLivesUntilClosed: until the grace after the end of a claim is over, its holder gets the same claim, and no other
// claimant gets the item. After that the claim lives until a request closes it.
func claimLivesUntilClosed(f *fixture) {
	c, _ := f.stocked(3, itembank.Settings{Shards: 1, OnEnd: itembank.Return, ClaimLife: time.Minute})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	first := f.claim(b, "ann").Claim
	if want := first.ClaimedAt.Add(time.Minute); !first.EndsAt.Equal(want) {
		f.Fatalf("want a claim that ends at %s, got %+v", want, first)
	}
	for _, after := range []time.Duration{-time.Millisecond, 0, time.Second, endGrace} {
		clock.SetTo(first.EndsAt.Add(after))
		if again := f.claim(b, "ann"); !reflect.DeepEqual(again.Claim, first) || !again.Replayed {
			f.Errorf("%s after the end: want %+v again, got %+v", after, first, again)
		}
		f.swept(b, itembank.SweepReport{})
	}
	clock.SetTo(first.EndsAt.Add(time.Hour))
	f.claim(b, "bob")
	f.claim(b, "cid")
	f.wantState(b, itembank.SoldOut) // a read closes nothing
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, first) {
		f.Errorf("a claim that was not closed: want %+v, got %+v, %v", first, held, err)
	}
	f.WantWhere("held by ann", c, first.Items[0], "ann", "bob")
	f.wantCounts(engine.Counts{Loaded: 3, Claimed: 3})
}

// endedClaimClosedWhenMet: after the grace a request of the holder closes the claim, and makes a new one.
func endedClaimClosedWhenMet(f *fixture) {
	for onEnd, test := range map[itembank.OnEnd]struct {
		where string
		after itembank.Counts
	}{
		itembank.Burn:   {"expired", itembank.Counts{Loaded: 9, Free: 7, Claimed: 1, Ended: 1}},
		itembank.Return: {"free", itembank.Counts{Loaded: 9, Free: 8, Claimed: 1}},
	} {
		one := f.named(string(onEnd))
		c, _ := one.stocked(9, itembank.Settings{Shards: 1, OnEnd: onEnd, ClaimLife: time.Minute})
		clock := itembankfault.NewClock()
		counted := f.counted()
		b := itembank.NewOperator(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
		first := one.claim(b, "ann").Claim
		clock.SetTo(first.EndsAt.Add(endGrace - time.Millisecond))
		if again := one.claim(b, "ann"); !reflect.DeepEqual(again.Claim, first) { // and the Bank has a new page
			f.Errorf("%s: within the grace: want %+v again, got %+v", onEnd, first, again)
		}
		clock.Advance(2 * time.Millisecond)
		counted.Calls()
		second := one.claim(b, "ann")
		if second.Replayed || second.Claim.ID == first.ID || second.Claim.Items[0] == first.Items[0] || !second.Claim.EndsAt.After(first.EndsAt) {
			f.Errorf("%s: want a new claim after %+v, got %+v", onEnd, first, second)
		}
		f.wantCalls("an ended claim that is met", counted, "Take", "ItemRow", "CloseClaim", "Take")
		one.WantWhere(test.where, c, first.Items[0], "ann")
		one.wantCounts(engine.Counts(test.after))

		one.Must(b.CloseCampaign(f.ctx, one.name)) // a request of a closed campaign also closes an ended claim
		clock.SetTo(second.Claim.EndsAt.Add(endGrace + time.Millisecond))
		one.refused(b, "ann", itembank.ErrClosed)
		one.WantWhere(test.where, c, second.Claim.Items[0], "ann")
	}
}

// laterEnd: a claim has ended when it is read, but gets a later end before it is closed. So it stays, and is the
// answer.
func laterEnd(f *fixture) {
	c, _ := f.stocked(3, itembank.Settings{OnEnd: itembank.Return, ClaimLife: time.Minute})
	clock := itembankfault.NewClock()
	first := f.claim(f.bank(itembank.WithClock(clock)), "ann").Claim
	clock.SetTo(first.EndsAt.Add(endGrace + time.Second))
	longer := first
	longer.EndsAt = first.EndsAt.Add(endGrace / 2)
	lengthened := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
		if method == "CloseClaim" {
			return f.raw.PutClaim(f.ctx, rowOf(longer))
		}
		return nil
	}}
	if again := f.claim(itembank.NewOperator(lengthened, itembank.WithClock(clock)), "ann"); !reflect.DeepEqual(again.Claim, longer) || !again.Replayed {
		f.Errorf("want %+v, got %+v", longer, again)
	}
	f.WantWhere("held by ann", c, first.Items[0], "ann")
}

// lastItemOfEndedClaim: a request sees the bank empty, closes the ended claim of its claimant, and gets the item that
// this returns to the bank.
func lastItemOfEndedClaim(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1, OnEnd: itembank.Return, ClaimLife: time.Minute})
	clock, counted := itembankfault.NewClock(), f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	first := f.claim(b, "ann").Claim
	clock.SetTo(first.EndsAt.Add(endGrace + time.Millisecond))
	counted.Calls()
	second := f.claim(b, "ann")
	if second.Replayed || second.Claim.ID == first.ID || second.Claim.Items[0] != first.Items[0] {
		f.Errorf("want the item with a new claim after %+v, got %+v", first, second)
	}
	calls := counted.Calls() // the second read of the bank and the read of the claim run at the same time
	want := []string{"CloseClaim", "DueClaims", "FreeItems", "FreeItems", "HeldClaim", "HeldClaimEventuallyConsistent", "ItemRow", "Take"}
	if slices.Sort(calls); !slices.Equal(calls, want) {
		f.Errorf("the last item, of an ended claim: want calls %v, got %v", want, calls)
	}
}

// getsItemThatComesBack: the ended claim of a claimant is closed, by the same Bank or another. The claimant gets the
// item if it comes back, and is refused if it does not.
func getsItemThatComesBack(f *fixture) {
	for _, other := range []bool{false, true} { // another Bank closes the claim
		for _, onEnd := range []itembank.OnEnd{itembank.Return, itembank.Burn} {
			one := f.named(fmt.Sprintf("%s-%t", onEnd, other))
			one.stocked(1, itembank.Settings{Shards: 3, OnEnd: onEnd, ClaimLife: time.Minute})
			clock := itembankfault.NewClock()
			interrupted := f.counted()
			b := itembank.NewOperator(interrupted, itembank.WithClock(clock))
			first := one.claim(b, "ann").Claim
			clock.SetTo(first.EndsAt.Add(endGrace + time.Millisecond))
			one.wantState(b, itembank.SoldOut) // so that the Bank has seen the bank empty
			interrupted.Before = func(method string) error {
				if method == "CloseClaim" && other {
					_, err := f.bank(itembank.WithClock(clock)).Sweep(f.ctx, one.name, nil)
					return err
				}
				return nil
			}
			if onEnd == itembank.Burn {
				one.refused(b, "ann", itembank.ErrSoldOut)
			} else if again := one.claim(b, "ann"); again.Replayed || again.Claim.Items[0] != first.Items[0] || again.Claim.ID == first.ID {
				f.Errorf("closed by another Bank: %t: want the item again, got %+v", other, again)
			}
		}
	}
}

// bankKnowsWhatComesBack: a Bank that returns an item forgets that the shard was empty, for claims and for the state.
// If it burns the item, nothing changes.
func bankKnowsWhatComesBack(f *fixture) {
	for onEnd, after := range map[itembank.OnEnd]itembank.State{itembank.Return: itembank.Open, itembank.Burn: itembank.SoldOut} {
		one := f.named(string(onEnd))
		one.stocked(3, itembank.Settings{Shards: 4, OnEnd: onEnd, ClaimLife: time.Minute})
		clock, counted := itembankfault.NewClock(), f.counted()
		b := itembank.NewOperator(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
		ann, bob := one.claim(b, "ann").Claim, one.claim(b, "bob").Claim
		clock.SetTo(ann.EndsAt.Add(endGrace + time.Millisecond))
		one.claim(b, "cid")
		expect := func(when string, want itembank.State) {
			f.Helper()
			if _, got, err := b.State(f.ctx, one.name); got != want || err != nil {
				f.Errorf("%s, %s: want %s, got %s, %v", onEnd, when, want, got, err)
			}
		}
		expect("all held", itembank.SoldOut)
		if _, err := b.Release(f.ctx, one.name, "ann", ann.ID); err != nil {
			f.Error(err)
		}
		counted.Calls()
		expect("after the release", after)
		if calls := counted.Calls(); onEnd == itembank.Burn && len(calls) > 0 {
			f.Errorf("nothing came back: want no calls, got %v", calls)
		}
		if onEnd == itembank.Return {
			if grant := one.claim(b, "dan"); grant.Claim.Items[0] != ann.Items[0] {
				f.Errorf("want %s, got %+v", ann.Items[0], grant)
			}
		}
		expect("after the next claim", itembank.SoldOut)
		if _, err := b.Sweep(f.ctx, one.name, nil); err != nil {
			f.Error(err)
		}
		expect("after the sweep", after)
		if onEnd == itembank.Return {
			if grant := one.claim(b, "eve"); grant.Claim.Items[0] != bob.Items[0] {
				f.Errorf("want %s, got %+v", bob.Items[0], grant)
			}
		}
	}
}

// comesBackWhileRead: an item comes back through a Bank while that Bank reads the shard. The read may miss the item,
// so it does not prove that the shard is empty.
func comesBackWhileRead(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1, OnEnd: itembank.Return})
	interrupted := f.counted()
	b := itembank.NewOperator(interrupted, itembank.WithClock(itembankfault.NewClock()))
	claim := f.claim(b, "ann").Claim
	for _, ask := range []func(){
		func() { f.wantState(b, itembank.Open) },
		func() {
			if grant := f.claim(b, "bob"); grant.Claim.Items[0] != claim.Items[0] {
				f.Errorf("want %s, got %+v", claim.Items[0], grant)
			}
		},
	} {
		returned := false
		interrupted.After = func(method string) error {
			if method == "FreeItems" && !returned {
				returned = true
				f.released(b, rowOf(claim), itembank.Released{Returned: true})
			}
			return nil
		}
		ask()
		if !returned {
			f.Fatal("it did not read the bank")
		}
		interrupted.After = nil
		claim = f.claim(b, "bob").Claim
	}
}

// claimEndsByItsOwnCampaign: a request of another campaign in the scope closes an ended claim by the rules of the
// claim's own campaign, and then claims.
func claimEndsByItsOwnCampaign(f *fixture) {
	scope := f.name + "-term"
	returns, _ := f.stocked(1, itembank.Settings{Scope: scope, OnEnd: itembank.Return, ClaimLife: time.Minute, Shards: 3})
	burns := f.createNamed(f.name+"-burns", itembank.Settings{Scope: scope, ClaimLife: time.Hour})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	f.loadInto(burns.Name, "x", "y")
	first := f.claim(b, "ann").Claim
	clock.SetTo(first.EndsAt.Add(endGrace))
	f.refused(b, "bob", itembank.ErrSoldOut)
	if _, err := b.Claim(f.ctx, burns.Name, "ann"); !errors.Is(err, itembank.ErrClaimedElsewhere) {
		f.Errorf("within the grace: want %v, got %v", itembank.ErrClaimedElsewhere, err)
	}
	clock.Advance(time.Millisecond)
	second, err := b.Claim(f.ctx, burns.Name, "ann")
	if err != nil || second.Replayed {
		f.Fatalf("want a claim of the other campaign, got %+v, %v", second, err)
	}
	f.WantWhere("free", returns, first.Items[0], "ann")
	f.wantState(b, itembank.Open) // the bank of the claim's campaign has the item again
	clock.SetTo(second.Claim.EndsAt.Add(endGrace + time.Millisecond))
	if grant := f.claim(b, "ann"); grant.Claim.Items[0] != first.Items[0] {
		f.Errorf("want the item that came back, got %+v", grant)
	}
	f.WantWhere("expired", burns, second.Claim.Items[0], "ann")
}
