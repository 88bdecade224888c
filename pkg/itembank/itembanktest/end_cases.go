package itembanktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// endCases pin how claims and items end, over the engine.
var endCases = []testCase{
	{"ends/settings-are-fixed", settingsAreFixed},
	{"ends/release", release},
	{"ends/release-of-an-older-claim", releaseOfOlderClaim},
	{"ends/release-of-an-item-that-ended", releaseOfEndedItem},
	{"ends/release-in-a-shared-scope", releaseInSharedScope},
	{"ends/release-when-closed", releaseWhenClosed},
	{"ends/release-with-a-lost-reply", releaseLostReply},
	{"ends/release-meets-others", releaseMeetsOthers},
	{"ends/release-finds-a-difference", releaseFindsInconsistency},
	{"ends/release-of-what-has-ended", releaseOfWhatHasEnded},
	{"ends/released-items-have-one-holder", releasedItemsHaveOneHolder},
	{"ends/invalid-input", invalidEnds},
	{"ends/claim-lives-until-it-is-closed", claimLivesUntilClosed},
	{"ends/claim-closed-when-met", claimClosedWhenMet},
	{"ends/claim-lengthened-when-met", claimLengthenedWhenMet},
	{"ends/last-item-of-an-ended-claim", lastItemOfEndedClaim},
	{"ends/claimant-gets-the-item-that-comes-back", getsItemThatComesBack},
	{"ends/same-bank-knows-what-comes-back", bankKnowsWhatComesBack},
	{"ends/comes-back-while-the-bank-is-read", comesBackWhileRead},
	{"ends/claim-ends-by-its-own-campaign", claimEndsByItsOwnCampaign},
	{"ends/clocks-apart", clocksApart},
	{"ends/items-end", itemsEnd},
	{"ends/pages-of-ended-items", pagesOfEndedItems},
	{"ends/page-of-ended-items-in-one-half", pageOfEndedItemsInOneHalf},
	{"ends/page-outlives-its-items", pageOutlivesItems},
	{"ends/sold-out-of-ended-items", soldOutOfEndedItems},
	{"ends/ended-claim-of-an-ended-item", endedClaimOfEndedItem},
	{"ends/many-ended-items", manyEndedItems},
	{"ends/crowds-of-ended-items", crowdsOfEndedItems},
	{"ends/too-many-ended-items", tooManyEndedItems},
	{"ends/ended-items-and-lost-races", endedItemsAndLostRaces},
	{"ends/ended-item-in-two-places", endedItemInTwoPlaces},
	{"ends/expiring-does-not-wait", expiringDoesNotWait},
	{"ends/sweep", sweep},
	{"ends/sweep-goes-on-past-differences", sweepPastInconsistencies},
	{"ends/sweep-cut-past-differences", sweepCutPastInconsistencies},
	{"ends/sweeps-at-once", sweepsAtOnce},
	{"ends/sweep-cut-at-every-change", sweepCut},
	{"ends/claim-read-first", claimReadFirst},
	{"ends/claim-read-first-where-items-return", claimReadFirstReturn},
	{"ends/stale-peek", stalePeek},
	{"ends/stale-peek-elsewhere", stalePeekElsewhere},
}

// settingsAreFixed: how claims and items end is said when a campaign is created.
func settingsAreFixed(f *fixture) {
	s := itembank.Settings{ItemLife: time.Hour, ClaimLife: time.Minute, OnEnd: itembank.Return}
	c := f.create(s)
	first, err := f.bank().Campaign(f.ctx, f.name)
	f.must(err)
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

// released releases a claim and compares what became of it.
func (f *fixture) released(b *itembank.Bank, claim engine.Claim, want itembank.Released) {
	f.Helper()
	got, err := b.Release(f.ctx, claim.Campaign, claim.Claimant, claim.ID)
	if err != nil || got != want {
		f.Errorf("release of %s by %s: want %+v, got %+v, %v", claim.Item, claim.Claimant, want, got, err)
	}
}

// release: by default the item is burned, since its holder has seen it.
func release(f *fixture) {
	for _, test := range []struct {
		onEnd  itembank.OnEnd
		want   itembank.Released
		where  string
		counts itembank.Counts
	}{
		{"", itembank.Released{Ended: "burned"}, "burned", itembank.Counts{Loaded: 2, Claimed: 1, Ended: 1}},
		{itembank.Burn, itembank.Released{Ended: "burned"}, "burned", itembank.Counts{Loaded: 2, Claimed: 1, Ended: 1}},
		{itembank.Return, itembank.Released{Returned: true}, "free", itembank.Counts{Loaded: 2, Free: 1, Claimed: 1}},
	} {
		one := *f
		one.name += "-" + string(test.onEnd) + "-"
		one.release(test.onEnd, test.want, test.where, test.counts)
	}
}

func (f *fixture) release(onEnd itembank.OnEnd, want itembank.Released, where string, counts itembank.Counts) {
	f.Helper()
	c, items := f.stocked(2, itembank.Settings{OnEnd: onEnd})
	b := f.bank()
	first := f.claim(b, "ann").Claim
	f.released(b, rowOf(first), want)
	f.wantWhere(where, c, first.Item, "ann")
	f.released(b, rowOf(first), itembank.Released{Already: true})
	if _, err := b.HeldClaim(f.ctx, f.name, "ann"); !errors.Is(err, itembank.ErrNoClaim) {
		f.Errorf("after its release: want %v, got %v", itembank.ErrNoClaim, err)
	}
	second := f.claim(b, "ann")
	if second.Replayed || second.Claim.ID == first.ID || onEnd != itembank.Return && second.Claim.Item == first.Item {
		f.Errorf("want a new claim after %+v, got %+v", first, second)
	}
	f.released(b, rowOf(first), itembank.Released{Already: true}) // and leaves the new claim alone
	if again := f.claim(b, "ann"); again.Claim != second.Claim {
		f.Errorf("want %+v, got %+v", second.Claim, again.Claim)
	}
	f.wantCounts(engine.Counts(counts))
	f.wantTally(itembank.Tally{Rows: 2, Known: 2}, items...)
	f.wantCounts(engine.Counts(counts))
}

func releaseOfOlderClaim(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{OnEnd: itembank.Return})
	b := f.bank()
	first := f.claim(b, "ann").Claim
	f.released(b, rowOf(first), itembank.Released{Returned: true})
	second := f.claim(f.bank(), "ann").Claim
	for _, other := range []string{first.ID, "", "no-such-id"} {
		claim := second
		claim.ID = other
		f.released(b, rowOf(claim), itembank.Released{Already: true})
	}
	f.wantWhere("held by ann", c, second.Item, "ann")
	claim := second
	claim.Claimant = "bob"
	f.released(b, rowOf(claim), itembank.Released{Already: true})
	f.wantWhere("held by ann", c, second.Item, "ann")
}

// releaseOfEndedItem: an item whose own life has ended is expired, neither returned
// nor burned.
func releaseOfEndedItem(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := *f
		one.name += "-" + string(onEnd)
		c, _ := one.stocked(1, itembank.Settings{OnEnd: onEnd, ItemLife: time.Hour})
		clock := NewClock()
		b := f.bank(itembank.WithClock(clock))
		claim := one.claim(b, "ann").Claim
		clock.Advance(time.Hour)
		one.released(b, rowOf(claim), itembank.Released{Ended: "expired"})
		one.wantWhere("expired", c, claim.Item, "ann")
		one.wantCounts(engine.Counts{Loaded: 1, Ended: 1})
	}
}

// releaseInSharedScope: a claim is released through its own campaign only.
func releaseInSharedScope(f *fixture) {
	monday, _ := f.stocked(1, itembank.Settings{Scope: f.name + "-term", OnEnd: itembank.Return, Shards: 1})
	tuesday := f.createNamed(f.name+"-tuesday", itembank.Settings{Scope: monday.Scope, Shards: 37})
	b := f.bank()
	_, err := b.Load(f.ctx, tuesday.Name, itembank.Items("seat"), nil)
	f.must(err)
	claim := f.claim(b, "ann").Claim
	var elsewhere *itembank.ClaimedElsewhereError
	if _, err := b.Release(f.ctx, tuesday.Name, "ann", claim.ID); !errors.As(err, &elsewhere) || elsewhere.Campaign != monday.Name {
		f.Errorf("released through another campaign: want it said that the claim is of %s, got %v", monday.Name, err)
	}
	f.wantWhere("held by ann", monday, claim.Item, "ann")
	if _, err := b.Claim(f.ctx, tuesday.Name, "ann"); !errors.Is(err, itembank.ErrClaimedElsewhere) {
		f.Errorf("want %v, got %v", itembank.ErrClaimedElsewhere, err)
	}
	f.released(b, rowOf(claim), itembank.Released{Returned: true})
	grant, err := b.Claim(f.ctx, tuesday.Name, "ann")
	if err != nil || grant.Claim.Item != "seat" || grant.Replayed {
		f.Errorf("want the seat of the other day, got %+v, %v", grant, err)
	}
	f.wantWhere("free", monday, claim.Item, "ann")
}

func releaseWhenClosed(f *fixture) {
	c, _ := f.stocked(2, itembank.Settings{OnEnd: itembank.Return})
	b := f.bank()
	claim := f.claim(b, "ann").Claim
	f.must(b.CloseCampaign(f.ctx, f.name))
	f.released(b, rowOf(claim), itembank.Released{Returned: true})
	f.wantWhere("free", c, claim.Item, "ann")
	f.refused(b, "ann", itembank.ErrClosed)
	f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
}

func releaseLostReply(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{})
	claim := f.claim(f.bank(), "ann").Claim
	lost := false
	flaky := &Hooked{Store: f.Store, After: func(method string) error {
		if method == "CloseClaim" && !lost {
			lost = true
			return errLost
		}
		return nil
	}}
	b := itembank.New(flaky)
	if _, err := b.Release(f.ctx, f.name, "ann", claim.ID); !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("want %v, got %v", itembank.ErrTryAgain, err)
	}
	f.released(b, rowOf(claim), itembank.Released{Already: true})
	f.wantWhere("burned", c, claim.Item, "ann")
}

// closings answers closes with evidence of its own before it lets them through.
type closings struct {
	engine.Store
	evidence []engine.CloseResult
	meet     func() // what the other transaction does meanwhile
}

func (s *closings) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	if len(s.evidence) == 0 {
		return s.Store.CloseClaim(ctx, c)
	}
	next := s.evidence[0]
	s.evidence = s.evidence[1:]
	if s.meet != nil {
		s.meet()
	}
	return next, nil
}

// releaseMeetsOthers: after a conflict nothing is known of the row that had it. In
// the middle of another's close the bank row can be there already and the claim
// still busy, which is no difference; the next look says what it was.
func releaseMeetsOthers(f *fixture) {
	c, _ := f.stocked(8, itembank.Settings{OnEnd: itembank.Return})
	clock := NewClock()
	for i, once := range []engine.CloseResult{
		{Conflict: true}, {Throttled: true}, {Conflict: true, ItemFree: true}, {Conflict: true, ItemChanged: true}, {ItemChanged: true},
	} {
		claim := f.claim(f.bank(), fmt.Sprintf("claimant-%d", i)).Claim
		meeting := &closings{Store: f.Store, evidence: []engine.CloseResult{once, once}}
		f.released(itembank.New(meeting, itembank.WithClock(clock)), rowOf(claim), itembank.Released{Returned: true})
		f.wantWhere("free", c, claim.Item, claim.Claimant)
	}

	claim := f.claim(f.bank(), "ann").Claim
	other := &closings{Store: f.Store, evidence: []engine.CloseResult{{Conflict: true, ItemFree: true}}}
	other.meet = func() { f.released(f.bank(), rowOf(claim), itembank.Released{Returned: true}) }
	f.released(itembank.New(other, itembank.WithClock(clock)), rowOf(claim), itembank.Released{Already: true})

	claim = f.claim(f.bank(), "bob").Claim
	always := &closings{Store: f.Store, evidence: make([]engine.CloseResult, 100)}
	for i := range always.evidence {
		always.evidence[i].Throttled = true
	}
	begun := clock.Now()
	_, err := itembank.New(always, itembank.WithClock(clock)).Release(f.ctx, f.name, "bob", claim.ID)
	if !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("a store that stays busy: want %v, got %v", itembank.ErrTryAgain, err)
	}
	if waited := clock.Now().Sub(begun); waited == 0 || waited > 3*time.Second {
		f.Errorf("waited %s for a store that stayed busy", waited)
	}
	f.wantWhere("held by bob", c, claim.Item, "bob")
}

// releaseFindsInconsistency: rows that contradict each other stay as they are.
func releaseFindsInconsistency(f *fixture) {
	c, items := f.stocked(3, itembank.Settings{OnEnd: itembank.Return})
	for i, test := range []struct {
		name  string
		plant func(item string)
		want  error
		where string
	}{
		{"free too", func(item string) { f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, item))) }, &itembank.InconsistentError{Kind: "held-and-free"}, "free, held by ann"},
		{"never loaded", func(item string) { f.must(f.Raw.DropItemRow(f.ctx, c.Name, engine.HashItem(item))) }, &itembank.InconsistentError{Kind: "held-not-loaded"}, "held by ann, not loaded"},
	} {
		claim := f.take(c, "ann", items[i])
		test.plant(items[i])
		got, err := f.bank().Release(f.ctx, f.name, "ann", claim.ID)
		if !errors.Is(err, test.want) || !errors.Is(err, itembank.ErrInconsistent) || got != (itembank.Released{}) {
			f.Errorf("%s: want %v, got %+v, %v", test.name, test.want, got, err)
		}
		f.wantWhere(test.where, c, items[i], "ann")
		f.must(f.Raw.DropClaim(f.ctx, c.Scope, "ann"))
	}
}

// releaseOfWhatHasEnded: a claim whose item is marked as ended is settled by who
// names it, and by nobody else. The item stays as it was marked, whatever the
// campaign does with items.
func releaseOfWhatHasEnded(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := *f
		one.name += "-" + string(onEnd)
		c, items := one.stocked(1, itembank.Settings{OnEnd: onEnd})
		claim := one.take(c, "ann", items[0])
		one.putState(c, items[0], engine.Withdrawn)
		one.released(one.bank(), claim, itembank.Released{Ended: "withdrawn"})
		one.wantWhere("withdrawn", c, items[0], "ann")
		one.released(one.bank(), claim, itembank.Released{Already: true})
	}
}

// holders notes who holds what, as the holders know it, and finds items that two
// believe to hold.
type holders struct {
	f  *fixture
	mu sync.Mutex
	of map[string]string
}

func (h *holders) got(item, claimant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other := h.of[item]; other != "" && other != claimant {
		h.f.Errorf("item %s is held by %s and was given to %s", item, other, claimant)
	}
	h.of[item] = claimant
}

func (h *holders) leaves(item string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.of, item)
}

// releasedItemsHaveOneHolder: many claim and release few items, each of them
// through two containers.
func releasedItemsHaveOneHolder(f *fixture) {
	f.stocked(3, itembank.Settings{Shards: 1, OnEnd: itembank.Return, PageSize: 1})
	h := &holders{f: f, of: map[string]string{}}
	banks := []*itembank.Bank{f.bank(), f.bank()}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			claimant := fmt.Sprintf("claimant-%d", i)
			for round := range 5 * scale {
				grant, err := banks[(i+round)%2].Claim(f.ctx, f.name, claimant)
				if errors.Is(err, itembank.ErrSoldOut) {
					continue
				}
				if err != nil {
					f.Error(err)
					return
				}
				h.got(grant.Claim.Item, claimant)
				if again := f.claimOrZero(banks[(i+round+1)%2], claimant); again.Claim != grant.Claim {
					f.Errorf("%s: want %+v again, got %+v", claimant, grant.Claim, again.Claim)
				}
				h.leaves(grant.Claim.Item)
				f.released(banks[i%2], rowOf(grant.Claim), itembank.Released{Returned: true})
			}
		})
	}
	wg.Wait()
	f.wantCounts(engine.Counts{Loaded: 3, Free: 3})
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
		_, repair := b.Repair(f.ctx, name, nil)
		for method, err := range map[string]error{
			"Sweep": sweep, "Withdraw": withdraw, "WithdrawAll": withdrawAll, "Reconcile": reconcile, "Repair": repair,
		} {
			if !errors.Is(err, want) {
				f.Errorf("%s of %q: want %v, got %v", method, name, want, err)
			}
		}
	}
}

// endGrace is the documented one: a claim is closed when it ended longer ago.
const endGrace = 10 * time.Second

// setTo moves a clock to a time, as a clock on the wall shows it.
func setTo(clock *Clock, to time.Time) { clock.Advance(to.Round(0).Sub(clock.Now())) }

// claimLivesUntilClosed: its holder gets the same claim up to the grace after its
// end, and so nobody else its item. It is the row that counts: it is there until
// somebody closes it.
func claimLivesUntilClosed(f *fixture) {
	c, _ := f.stocked(2, itembank.Settings{Shards: 1, OnEnd: itembank.Return, ClaimLife: time.Minute})
	clock := NewClock()
	b := f.bank(itembank.WithClock(clock))
	first := f.claim(b, "ann").Claim
	if want := first.ClaimedAt.Add(time.Minute); !first.EndsAt.Equal(want) {
		f.Fatalf("want a claim that ends at %s, got %+v", want, first)
	}
	for _, after := range []time.Duration{-time.Millisecond, 0, time.Second, endGrace} {
		setTo(clock, first.EndsAt.Add(after))
		if again := f.claim(b, "ann"); again.Claim != first || !again.Replayed {
			f.Errorf("%s after the end: want %+v again, got %+v", after, first, again)
		}
		f.swept(b, itembank.SweepReport{})
	}
	setTo(clock, first.EndsAt.Add(time.Hour))
	f.claim(b, "bob")
	f.refused(b, "cid", itembank.ErrSoldOut)
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || held != first {
		f.Errorf("a claim that nobody closed: want %+v, got %+v, %v", first, held, err)
	}
	f.wantWhere("held by ann", c, first.Item, "ann", "bob")
	f.wantCounts(engine.Counts{Loaded: 2, Claimed: 2})
}

// swept sweeps and compares the report.
func (f *fixture) swept(b *itembank.Bank, want itembank.SweepReport) {
	f.Helper()
	if got, err := b.Sweep(f.ctx, f.name, nil); err != nil || got != want {
		f.Errorf("sweep: want %+v, got %+v, %v", want, got, err)
	}
}

// claimClosedWhenMet: after the grace the holder's next claim is a new one.
func claimClosedWhenMet(f *fixture) {
	for onEnd, test := range map[itembank.OnEnd]struct {
		where string
		after itembank.Counts
	}{
		itembank.Burn:   {"expired", itembank.Counts{Loaded: 9, Free: 7, Claimed: 1, Ended: 1}},
		itembank.Return: {"free", itembank.Counts{Loaded: 9, Free: 8, Claimed: 1}},
	} {
		one := *f
		one.name += "-" + string(onEnd)
		c, _ := one.stocked(9, itembank.Settings{Shards: 1, OnEnd: onEnd, ClaimLife: time.Minute})
		clock := NewClock()
		counted := &Hooked{Store: f.Store}
		b := itembank.New(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
		first := one.claim(b, "ann").Claim
		setTo(clock, first.EndsAt.Add(endGrace-time.Millisecond))
		if again := one.claim(b, "ann"); again.Claim != first { // and the page is fresh
			f.Errorf("%s: within the grace: want %+v again, got %+v", onEnd, first, again)
		}
		clock.Advance(2 * time.Millisecond)
		counted.Calls()
		second := one.claim(b, "ann")
		if second.Replayed || second.Claim.ID == first.ID || second.Claim.Item == first.Item || !second.Claim.EndsAt.After(first.EndsAt) {
			f.Errorf("%s: want a new claim after %+v, got %+v", onEnd, first, second)
		}
		f.wantCalls("an ended claim that is met", counted, "Take", "ItemRow", "CloseClaim", "Take")
		one.wantWhere(test.where, c, first.Item, "ann")
		one.wantCounts(engine.Counts(test.after))

		one.must(b.CloseCampaign(f.ctx, one.name)) // there too it is closed when it is met
		setTo(clock, second.Claim.EndsAt.Add(endGrace+time.Millisecond))
		one.refused(b, "ann", itembank.ErrClosed)
		one.wantWhere(test.where, c, second.Claim.Item, "ann")
	}
}

// claimLengthenedWhenMet: the claim ended longer than the grace ago when it was
// read, and no more when it is to be closed. So it stays, and is the answer.
func claimLengthenedWhenMet(f *fixture) {
	c, _ := f.stocked(3, itembank.Settings{OnEnd: itembank.Return, ClaimLife: time.Minute})
	clock := NewClock()
	first := f.claim(f.bank(itembank.WithClock(clock)), "ann").Claim
	setTo(clock, first.EndsAt.Add(endGrace+time.Second))
	longer := first
	longer.EndsAt = first.EndsAt.Add(endGrace / 2)
	meeting := &Hooked{Store: f.Store, Before: func(method string) error {
		if method == "CloseClaim" {
			return f.Raw.PutClaim(f.ctx, rowOf(longer))
		}
		return nil
	}}
	if again := f.claim(itembank.New(meeting, itembank.WithClock(clock)), "ann"); again.Claim != longer || !again.Replayed {
		f.Errorf("want %+v, got %+v", longer, again)
	}
	f.wantWhere("held by ann", c, first.Item, "ann")
}

// lastItemOfEndedClaim: the bank was seen empty, and what is in it now is the
// item of the claim that the same request closed.
func lastItemOfEndedClaim(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1, OnEnd: itembank.Return, ClaimLife: time.Minute})
	clock, counted := NewClock(), &Hooked{Store: f.Store}
	b := itembank.New(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	first := f.claim(b, "ann").Claim
	setTo(clock, first.EndsAt.Add(endGrace+time.Millisecond))
	counted.Calls()
	second := f.claim(b, "ann")
	if second.Replayed || second.Claim.ID == first.ID || second.Claim.Item != first.Item {
		f.Errorf("want the item with a new claim after %+v, got %+v", first, second)
	}
	f.wantCalls("the last item, of an ended claim", counted,
		"FreeItems", "Campaign", "HeldClaim", "ItemRow", "CloseClaim", "FreeItems", "Take")
}

// getsItemThatComesBack: whoever closes the claim, and whatever becomes of the item,
// its claimant's answer is the one that fits what is in the bank then.
func getsItemThatComesBack(f *fixture) {
	for _, other := range []bool{false, true} { // somebody else closes it first
		for _, onEnd := range []itembank.OnEnd{itembank.Return, itembank.Burn} {
			one := *f
			one.name = fmt.Sprintf("%s-%s-%t", f.name, onEnd, other)
			one.stocked(1, itembank.Settings{Shards: 3, OnEnd: onEnd, ClaimLife: time.Minute})
			clock := NewClock()
			hooked := &Hooked{Store: f.Store}
			b := itembank.New(hooked, itembank.WithClock(clock))
			first := one.claim(b, "ann").Claim
			setTo(clock, first.EndsAt.Add(endGrace+time.Millisecond))
			one.refused(b, "bob", itembank.ErrSoldOut) // the Bank has seen it empty
			hooked.Before = func(method string) error {
				if method == "CloseClaim" && other {
					_, err := f.bank(itembank.WithClock(clock)).Sweep(f.ctx, one.name, nil)
					return err
				}
				return nil
			}
			if onEnd == itembank.Burn {
				one.refused(b, "ann", itembank.ErrSoldOut)
			} else if again := one.claim(b, "ann"); again.Replayed || again.Claim.Item != first.Item || again.Claim.ID == first.ID {
				f.Errorf("closed by another first: %t: want the item again, got %+v", other, again)
			}
		}
	}
}

// bankKnowsWhatComesBack: a Bank that returns an item does not remember that its
// shard was empty, neither for claims nor for the state; what it burns changes nothing.
func bankKnowsWhatComesBack(f *fixture) {
	for onEnd, after := range map[itembank.OnEnd]itembank.State{itembank.Return: itembank.Open, itembank.Burn: itembank.SoldOut} {
		one := *f
		one.name += "-" + string(onEnd)
		one.stocked(3, itembank.Settings{Shards: 4, OnEnd: onEnd, ClaimLife: time.Minute})
		clock, counted := NewClock(), &Hooked{Store: f.Store}
		b := itembank.New(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
		ann, bob := one.claim(b, "ann").Claim, one.claim(b, "bob").Claim
		setTo(clock, ann.EndsAt.Add(endGrace+time.Millisecond))
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
			if grant := one.claim(b, "dan"); grant.Claim.Item != ann.Item {
				f.Errorf("want %s, got %+v", ann.Item, grant)
			}
		}
		expect("after that", itembank.SoldOut)
		if _, err := b.Sweep(f.ctx, one.name, nil); err != nil {
			f.Error(err)
		}
		expect("after the sweep", after)
		if onEnd == itembank.Return {
			if grant := one.claim(b, "eve"); grant.Claim.Item != bob.Item {
				f.Errorf("want %s, got %+v", bob.Item, grant)
			}
		}
	}
}

// comesBackWhileRead: a read of the shard began before its item came back, and ends
// after that. It has missed the item, and its Bank knows.
func comesBackWhileRead(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1, OnEnd: itembank.Return})
	hooked := &Hooked{Store: f.Store}
	b := itembank.New(hooked, itembank.WithClock(NewClock()))
	claim := f.claim(b, "ann").Claim
	for _, ask := range []func(){
		func() {
			if _, state, err := b.State(f.ctx, f.name); state != itembank.Open || err != nil {
				f.Errorf("want %s, got %s, %v", itembank.Open, state, err)
			}
		},
		func() {
			if grant := f.claim(b, "bob"); grant.Claim.Item != claim.Item {
				f.Errorf("want %s, got %+v", claim.Item, grant)
			}
		},
	} {
		returned := false
		hooked.After = func(method string) error {
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
		hooked.After = nil
		claim = f.claim(b, "bob").Claim
	}
}

// claimEndsByItsOwnCampaign: who meets an ended claim in a shared scope closes it
// by the rules under which it was made, and it stands in nobody's way.
func claimEndsByItsOwnCampaign(f *fixture) {
	scope := f.name + "-term"
	returns, _ := f.stocked(1, itembank.Settings{Scope: scope, OnEnd: itembank.Return, ClaimLife: time.Minute, Shards: 3})
	burns := f.createNamed(f.name+"-burns", itembank.Settings{Scope: scope, ClaimLife: time.Hour})
	clock := NewClock()
	b := f.bank(itembank.WithClock(clock))
	_, err := b.Load(f.ctx, burns.Name, itembank.Items("x", "y"), nil)
	f.must(err)
	first := f.claim(b, "ann").Claim
	setTo(clock, first.EndsAt.Add(endGrace))
	f.refused(b, "bob", itembank.ErrSoldOut)
	if _, err := b.Claim(f.ctx, burns.Name, "ann"); !errors.Is(err, itembank.ErrClaimedElsewhere) {
		f.Errorf("within the grace: want %v, got %v", itembank.ErrClaimedElsewhere, err)
	}
	clock.Advance(time.Millisecond)
	second, err := b.Claim(f.ctx, burns.Name, "ann")
	if err != nil || second.Replayed {
		f.Fatalf("want a claim of the other campaign, got %+v, %v", second, err)
	}
	f.wantWhere("free", returns, first.Item, "ann")
	if _, state, err := b.State(f.ctx, f.name); state != itembank.Open || err != nil { // its own bank has the item again
		f.Errorf("want %s, got %s, %v", itembank.Open, state, err)
	}
	setTo(clock, second.Claim.EndsAt.Add(endGrace+time.Millisecond))
	if grant := f.claim(b, "ann"); grant.Claim.Item != first.Item {
		f.Errorf("want the item that came back, got %+v", grant)
	}
	f.wantWhere("expired", burns, second.Claim.Item, "ann")
}

// clocksApart: the clock that is ahead closes a claim only when the one behind has
// seen it end as well, and until then its holder gets it everywhere.
func clocksApart(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1, OnEnd: itembank.Return, ClaimLife: time.Minute})
	const apart = endGrace - time.Millisecond
	ahead, behind := NewClock(), NewClock()
	fast, slow := f.bank(itembank.WithClock(ahead)), f.bank(itembank.WithClock(behind))
	setTo(ahead, behind.Now().Add(apart))
	first := f.claim(slow, "ann").Claim
	for _, left := range []time.Duration{time.Minute - apart, endGrace, time.Millisecond, 0} {
		setTo(behind, first.EndsAt.Add(-left))
		setTo(ahead, behind.Now().Add(apart))
		f.swept(fast, itembank.SweepReport{})
		f.refused(fast, "bob", itembank.ErrSoldOut)
		for _, b := range []*itembank.Bank{fast, slow} {
			if again := f.claim(b, "ann"); again.Claim != first {
				f.Errorf("%s before its end by the clock behind: want %+v, got %+v", left, first, again)
			}
		}
	}
	ahead.Advance(2 * time.Millisecond)
	f.swept(fast, itembank.SweepReport{Returned: 1})
	ahead.Advance(time.Second)
	f.claim(fast, "bob")
	f.refused(slow, "ann", itembank.ErrSoldOut)
}

// loadAt loads items by a clock.
func (f *fixture) loadAt(clock *Clock, items ...string) {
	f.Helper()
	_, err := f.bank(itembank.WithClock(clock)).Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.must(err)
}

func itemsEnd(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock := NewClock()
	f.loadAt(clock, "held", "free")
	end := f.bankRow(f.freeItem(c, "held")).EndsAt
	if want := clock.Now().UTC().Truncate(time.Millisecond).Add(time.Hour); !end.Equal(want) {
		f.Errorf("want items that end at %s, got %s", want, end)
	}
	f.take(c, "ann", "held")
	clock.Advance(time.Minute)
	f.loadAt(clock, "new")

	setTo(clock, end)
	b := f.bank(itembank.WithClock(clock))
	if grant := f.claim(b, "ann"); grant.Claim.Item != "held" { // what is held stays, and so it does for ever
		f.Errorf("want the item that was held, got %+v", grant)
	}
	if grant := f.claim(b, "bob"); grant.Claim.Item != "new" {
		f.Errorf("want the item that lives, got %+v", grant)
	}
	f.refused(b, "cid", itembank.ErrSoldOut)
	f.wantWhere("expired", c, "free")
	f.swept(b, itembank.SweepReport{}) // the request has expired what it met
	n := itembank.Counts{Loaded: 3, Claimed: 2, Ended: 1}
	f.wantCounts(engine.Counts(n))
	f.wantTally(itembank.Tally{Rows: 3, Known: 3}, "held", "free", "new")
	f.wantCounts(engine.Counts(n))
}

// pagesOfEndedItems: one item lives among many that have ended, on other pages.
func pagesOfEndedItems(f *fixture) {
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1, PageSize: 3})
	clock := NewClock()
	f.loadAt(clock, codes("old", 30)...)
	clock.Advance(time.Minute)
	f.loadAt(clock, "new")
	clock.Advance(time.Hour - time.Minute)
	b := f.bank(itembank.WithClock(clock))
	if grant := f.claim(b, "ann"); grant.Claim.Item != "new" {
		f.Errorf("want the item that lives, got %+v", grant)
	}
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 31, Claimed: 1, Ended: 30})
}

// sameBytes is a source of random bytes that are all the same.
type sameBytes byte

func (b sameBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// pageOfEndedItemsInOneHalf: a page is full of all that is above the place where it
// began, and all of it has ended. That says nothing about what is below.
func pageOfEndedItemsInOneHalf(f *fixture) {
	const place = 0x80
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1, PageSize: 2})
	var above []string
	below := ""
	for i := 0; len(above) < 2 || below == ""; i++ {
		item := fmt.Sprintf("code-%d", i)
		switch h := engine.HashItem(item); {
		case h[0] < place && below == "":
			below = item
		case h[0] > place && len(above) < 2:
			above = append(above, item)
		}
	}
	clock := NewClock()
	f.loadAt(clock, above...)
	clock.Advance(time.Minute)
	f.loadAt(clock, below)
	clock.Advance(time.Hour - time.Minute)
	b := f.bank(itembank.WithClock(clock), itembank.WithRandom(sameBytes(place)))
	if grant := f.claim(b, "ann"); grant.Claim.Item != below {
		f.Errorf("want %s, got %+v", below, grant)
	}
}

// pageOutlivesItems: what ended on the page is not even tried.
func pageOutlivesItems(f *fixture) {
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock, counted := NewClock(), &Hooked{Store: f.Store}
	f.loadAt(clock, codes("code", 5)...)
	clock.Advance(time.Hour - 5*time.Second)
	b := itembank.New(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	f.claim(b, "ann")
	clock.Advance(5 * time.Second)
	counted.Calls()
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.wantCalls("a page of ended items", counted, "FreeItems", "EndItems", "Campaign", "HeldClaim")
	f.wantCounts(engine.Counts{Loaded: 5, Claimed: 1, Ended: 4})
}

// soldOutOfEndedItems: items that have ended are none, for claims and for the state,
// also where one of them cannot be expired; and none of them hides a new one.
func soldOutOfEndedItems(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 4, PageSize: 2})
	clock := NewClock()
	f.loadAt(clock, codes("code", 20)...)
	f.must(f.Raw.DropItemRow(f.ctx, c.Name, engine.HashItem("code-00000")))
	clock.Advance(time.Hour)
	for _, ask := range []func(*itembank.Bank){
		func(b *itembank.Bank) {
			if _, state, err := b.State(f.ctx, f.name); state != itembank.SoldOut || err != nil {
				f.Errorf("want state %s, got %s, %v", itembank.SoldOut, state, err)
			}
		},
		func(b *itembank.Bank) { f.refused(b, "ann", itembank.ErrSoldOut) },
	} {
		ask(f.bank(itembank.WithClock(clock)))
		f.wantCounts(engine.Counts{Loaded: 19, Free: 1, Ended: 19})
	}
	f.loadAt(clock, "new")
	if grant := f.claim(f.bank(itembank.WithClock(clock)), "ann"); grant.Claim.Item != "new" {
		f.Errorf("want the new item, got %+v", grant)
	}
}

// manyEndedItems: more than the engine brings in one read have ended, and behind them
// one lives.
func manyEndedItems(f *fixture) {
	const n = 1100
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock := NewClock()
	f.loadAt(clock, codes("old", n)...)
	clock.Advance(time.Minute)
	f.loadAt(clock, "new")
	clock.Advance(time.Hour - time.Minute)
	counted := &Hooked{Store: f.Store}
	b := itembank.New(counted, itembank.WithClock(clock))
	if _, state, err := b.State(f.ctx, f.name); state != itembank.Open || err != nil {
		f.Errorf("want %s, got %s, %v", itembank.Open, state, err)
	}
	f.wantBounded("state", counted)
	if grant := f.claim(b, "ann"); grant.Claim.Item != "new" {
		f.Errorf("want the item that lives, got %+v", grant)
	}
	f.wantBounded("claim", counted)
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.wantBounded("refusal", counted)
}

// wantBounded wants of one request on a shard with a few thousand ended items that it
// does not do much about them.
func (f *fixture) wantBounded(what string, counted *Hooked) {
	f.Helper()
	calls, n := counted.Calls(), map[string]int{}
	for _, call := range calls {
		n[call]++
	}
	if n["EndItems"] > 1 || n["FreeItems"] > 6 {
		f.Errorf("%s: want at most 6 reads and one transaction of ended items, got %v", what, calls)
	}
}

// crowded is a store with many ended items more than it really has.
type crowded struct {
	engine.Store
	mu    sync.Mutex
	crowd []engine.FreeItem // by hash
	ended int               // of them, until now
}

// crowd makes a crowd of ended items in a campaign.
func (f *fixture) crowd(c engine.Campaign, n int) *crowded {
	s := &crowded{Store: f.Store}
	for i := range n {
		item := f.freeItem(c, fmt.Sprintf("crowd-%d", i))
		item.EndsAt = c.CreatedAt
		s.crowd = append(s.crowd, item)
	}
	slices.SortFunc(s.crowd, byHash)
	return s
}

func byHash(x, y engine.FreeItem) int { return slices.Compare(x.Hash[:], y.Hash[:]) }

func (s *crowded) FreeItems(ctx context.Context, shard engine.Shard, r engine.Range, limit int) (engine.FreePage, error) {
	page, err := s.Store.FreeItems(ctx, shard, r, limit)
	if err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.crowd {
		above := r.After == nil || slices.Compare(i.Hash[:], r.After[:]) > 0
		if i.Shard == shard && above && (r.Through == nil || slices.Compare(i.Hash[:], r.Through[:]) <= 0) {
			page.Items = append(page.Items, i)
		}
	}
	slices.SortFunc(page.Items, byHash)
	if len(page.Items) > limit {
		page.Items, page.More = page.Items[:limit], true
	}
	return page, nil
}

func (s *crowded) EndItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]engine.EndResult, len(endings))
	for n, e := range endings {
		before := len(s.crowd)
		s.crowd = slices.DeleteFunc(s.crowd, func(i engine.FreeItem) bool { return i == e.Item })
		if len(s.crowd) == before {
			return nil, fmt.Errorf("not of the crowd: %+v", e.Item)
		}
		answers[n] = engine.EndDone
	}
	s.ended += len(endings)
	return answers, nil
}

// crowdsOfEndedItems: 10,000 have ended and one lives, in a bank of one shard, of the
// usual number, and of the largest. It is found at once, in few reads and with few
// of the others ended; then it is sold out, which takes no more.
func crowdsOfEndedItems(f *fixture) {
	const crowd = 10_000
	for _, shards := range []int{1, 16, 256} {
		one := *f
		one.name = fmt.Sprintf("%s-%d", f.name, shards)
		c, items := one.stocked(1, itembank.Settings{Shards: shards})
		s := one.crowd(c, crowd)
		counted := &Hooked{Store: s}
		b := itembank.New(counted, itembank.WithClock(NewClock()))
		request := func(what string, ask func()) {
			f.Helper()
			counted.Calls()
			ended := s.ended
			ask()
			reads := 0
			for _, call := range counted.Calls() {
				if call == "FreeItems" {
					reads++
				}
			}
			if most := 4*shards + 20; reads > most || s.ended > ended+engine.MaxAddItems {
				f.Errorf("%d shards, %s: want at most %d reads and %d ends, got %d and %d", shards, what, most, engine.MaxAddItems, reads, s.ended-ended)
			}
		}
		request("state", func() {
			if _, state, err := b.State(f.ctx, one.name); state != itembank.Open || err != nil {
				f.Errorf("%d shards: want %s, got %s, %v", shards, itembank.Open, state, err)
			}
		})
		request("claim", func() {
			if grant := one.claim(b, "ann"); grant.Claim.Item != items[0] {
				f.Errorf("%d shards: want the item that lives, got %+v", shards, grant)
			}
		})
		request("refusal", func() { one.refused(b, "bob", itembank.ErrSoldOut) })
		if s.ended == 0 {
			f.Errorf("%d shards: nobody takes ended items out", shards)
		}
	}
}

// tooManyEndedItems: where a request cannot go past all of them it never says sold
// out. Each takes some out and begins somewhere else, so that the one that lives, near
// the end of its shard, is seen and given out after some.
func tooManyEndedItems(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	item := "code"
	for engine.HashItem(item)[0] < 0xf0 {
		item += "+"
	}
	f.load(item)
	s := f.crowd(c, 30_000)
	ask := func(what string, ask func(*itembank.Bank) (bool, error)) {
		f.Helper()
		for tries := 1; ; tries++ {
			ended := s.ended
			found, err := ask(f.bankOn(s))
			if took := s.ended - ended; took < 1 || took > engine.MaxAddItems {
				f.Errorf("%s, try %d: it took %d ended items out", what, tries, took)
			}
			if found && err == nil {
				return
			}
			if !errors.Is(err, itembank.ErrTryAgain) || !strings.Contains(err.Error(), "sweep") || tries == 50 { // a third of them fail
				f.Fatalf("%s, try %d: %t, %v", what, tries, found, err)
			}
		}
	}
	ask("state", func(b *itembank.Bank) (bool, error) {
		_, state, err := b.State(f.ctx, f.name)
		return state == itembank.Open, err
	})
	ask("claim", func(b *itembank.Bank) (bool, error) {
		grant, err := b.Claim(f.ctx, f.name, "ann")
		return grant.Claim.Item == item, err
	})
	if _, err := f.bankOn(s).Claim(f.ctx, f.name, "bob"); !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("not all was read: want %v, got %v", itembank.ErrTryAgain, err)
	}
}

// bankOn makes a Bank on a store, with a clock that stands still.
func (f *fixture) bankOn(s engine.Store) *itembank.Bank {
	return itembank.New(s, itembank.WithClock(NewClock()))
}

// endedItemsAndLostRaces: a request that goes past ended items again and again, since
// it loses the one that lives each time, is one request, with one bound.
func endedItemsAndLostRaces(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{Shards: 1})
	s := f.crowd(c, 3000)
	gone := slices.Repeat([]engine.TakeResult{{ItemGone: true}}, 100)
	counted := &Hooked{Store: &busy{Store: s, evidence: gone}}
	_, err := f.bankOn(counted).Claim(f.ctx, f.name, "ann")
	if !errors.Is(err, itembank.ErrTryAgain) || !strings.Contains(err.Error(), "sweep") {
		f.Errorf("want it to give up and say that a sweep is wanted, got %v", err)
	}
	if s.ended < 1 || s.ended > engine.MaxAddItems {
		f.Errorf("want at most %d ended items taken out, got %d", engine.MaxAddItems, s.ended)
	}
	if calls := counted.Calls(); len(calls) > 130 {
		f.Errorf("it made %d calls", len(calls))
	}
}

// endedItemInTwoPlaces: by a difference an item is in two shards, and has ended. A
// transaction cannot name it twice.
func endedItemInTwoPlaces(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 2})
	clock := NewClock()
	f.loadAt(clock, "a", "b")
	double := *f.bankRow(f.freeItem(c, "a"))
	double.Shard.Number = 1 - double.Shard.Number
	f.must(f.Raw.PutBankRow(f.ctx, double))
	clock.Advance(time.Hour)
	f.refused(f.bank(itembank.WithClock(clock)), "ann", itembank.ErrSoldOut)
	f.wantWhere("expired", c, "b")
}

// expiringDoesNotWait: the rows of ended items are busy, which is no matter of the
// claimant who met them. Those that were only in their company are ended.
func expiringDoesNotWait(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock := NewClock()
	f.loadAt(clock, "busy", "other")
	clock.Advance(time.Hour)
	s := &busyEnds{Store: f.Store, busy: engine.HashItem("busy")}
	b := itembank.New(s, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	begun := clock.Now()
	f.refused(b, "ann", itembank.ErrSoldOut)
	if waited := clock.Now().Sub(begun); waited > 0 {
		f.Errorf("it waited %s", waited)
	}
	f.wantWhere("free", c, "busy")
	f.wantWhere("expired", c, "other")
}

// busyEnds is a store on which an item is always busy.
type busyEnds struct {
	engine.Store
	busy engine.Hash
}

func (s *busyEnds) EndItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	answers := make([]engine.EndResult, len(endings))
	for i, e := range endings {
		if e.Item.Hash == s.busy {
			continue
		}
		one, err := s.Store.EndItems(ctx, endings[i:i+1])
		if err != nil {
			return nil, err
		}
		answers[i] = one[0]
	}
	return answers, nil
}

// endedClaimOfEndedItem: where items return, one whose own life has ended does not.
func endedClaimOfEndedItem(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, ClaimLife: time.Minute, OnEnd: itembank.Return})
	clock := NewClock()
	f.loadAt(clock, "a")
	clock.Advance(time.Hour - time.Second)
	b := f.bank(itembank.WithClock(clock))
	f.claim(b, "ann")
	clock.Advance(time.Minute + endGrace + time.Millisecond)
	f.swept(b, itembank.SweepReport{Expired: 1})
	f.wantWhere("expired", c, "a", "ann")
	f.refused(b, "ann", itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 1, Ended: 1})
}

// sweepable makes a campaign of which 3 claims and 4 free items have ended; one
// claim and one item live.
func (f *fixture) sweepable(onEnd itembank.OnEnd) (c engine.Campaign, clock *Clock) {
	f.Helper()
	clock = NewClock()
	c = f.create(itembank.Settings{Scope: f.name + "-scope", Shards: 1, OnEnd: onEnd, ItemLife: time.Hour, ClaimLife: time.Minute})
	f.loadAt(clock, codes("old", 4)...)
	clock.Advance(time.Minute)
	f.loadAt(clock, codes("new", 5)...)
	end := clock.Now().UTC().Truncate(time.Millisecond)
	for _, item := range codes("new", 3) {
		f.takeUntil(c, item, item, end)
	}
	f.takeUntil(c, "new-00003", "new-00003", end.Add(time.Hour))
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
		one := *f
		one.name += "-" + string(onEnd)
		c, clock := one.sweepable(onEnd)
		other := one.createNamed(one.name+"-other", itembank.Settings{Scope: c.Scope})
		_, err := f.bank().Load(f.ctx, other.Name, itembank.Items("x"), nil)
		f.must(err)
		one.takeUntil(other, "zoe", "x", clock.Now().UTC().Truncate(time.Millisecond).Add(-time.Hour))
		b := f.bank(itembank.WithClock(clock))
		told := f.progress(func(p itembank.Progress) {
			if got, err := b.Sweep(f.ctx, one.name, p); err != nil || got != test.report {
				f.Errorf("%s: want %+v, got %+v, %v", onEnd, test.report, got, err)
			}
		})
		// Five claims of the scope, and what is then in the bank.
		if rows := 5 + 5 + test.report.Returned; len(told) < 6 || told[len(told)-1] != rows {
			f.Errorf("%s: want %d rows told of, got %v", onEnd, rows, told)
		}
		one.wantCounts(engine.Counts(test.after))
		one.swept(b, itembank.SweepReport{})
		one.wantWhere("held by zoe", other, "x", "zoe") // that is another campaign's to end
		one.wantWhere("held by new-00003", c, "new-00003", "new-00003")
		one.wantWhere("free", c, "new-00004")
	}
}

// contradicting makes a campaign of many ended claims, of which some contradict
// themselves, two in each way; wrong has these by their ids.
func (f *fixture) contradicting() (c engine.Campaign, clock *Clock, wrong map[string]error) {
	f.Helper()
	const n, each = 12, 2
	clock = NewClock()
	c = f.create(itembank.Settings{Shards: 1, OnEnd: itembank.Return, ItemLife: 2 * time.Hour, ClaimLife: time.Minute})
	f.loadAt(clock, codes("old", 3)...)
	clock.Advance(time.Hour)
	items := codes("held", n)
	f.loadAt(clock, items...)
	end := clock.Now().UTC().Truncate(time.Millisecond).Add(time.Minute)
	wrong = map[string]error{}
	for i, item := range items {
		claim := f.takeUntil(c, item, item, end)
		switch i / each {
		case 0:
			f.must(f.Raw.PutBankRow(f.ctx, f.freeItem(c, item)))
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

// sweepPastInconsistencies: claims that contradict themselves stay as they are, and keep
// nothing else from being swept. The first few are named, and all are counted.
func sweepPastInconsistencies(f *fixture) {
	c, clock, wrong := f.contradicting()
	for _, want := range []itembank.SweepReport{{Returned: 6, Expired: 3}, {}} {
		report, err := f.bank(itembank.WithClock(clock)).Sweep(f.ctx, f.name, nil)
		if report != want || !errors.Is(err, itembank.ErrInconsistent) {
			f.Fatalf("want %+v and a difference, got %+v, %v", want, report, err)
		}
		ways, named := map[error]bool{}, 0
		for id, way := range wrong {
			if strings.Contains(err.Error(), id) {
				named++
				ways[way] = true
			}
		}
		for way := range ways {
			if !errors.Is(err, way) {
				f.Errorf("want an error that is also %v, got %v", way, err)
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
		f.wantWhere(where, c, item, item)
	}
	f.wantWhere("expired", c, "old-00000")
}

// sweepCutPastInconsistencies: a sweep that the store stopped is to be repeated, whatever
// it met before; and that is not lost.
func sweepCutPastInconsistencies(f *fixture) {
	_, clock, wrong := f.contradicting()
	failing := &Hooked{Store: f.Store, Before: func(method string) error {
		if method == "FreeItems" { // after all claims
			return errLost
		}
		return nil
	}}
	report, err := itembank.New(failing, itembank.WithClock(clock)).Sweep(f.ctx, f.name, nil)
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

// sweepsAtOnce: each claim and each item is ended, and counted, by one of them.
func sweepsAtOnce(f *fixture) {
	_, clock := f.sweepable(itembank.Return)
	var mu sync.Mutex
	var sum itembank.SweepReport
	one := func() {
		report, err := f.bank(itembank.WithClock(clock)).Sweep(f.ctx, f.name, nil)
		if err != nil {
			f.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		sum.Returned, sum.Expired = sum.Returned+report.Returned, sum.Expired+report.Expired
	}
	together(one, one, one)
	if want := (itembank.SweepReport{Returned: 3, Expired: 4}); sum != want {
		f.Errorf("want %+v by all together, got %+v", want, sum)
	}
	f.wantCounts(engine.Counts{Loaded: 9, Free: 4, Claimed: 1, Ended: 4})
}

// sweepCut cuts a sweep at each of its changes, before the effect and after it. The
// next one does the rest.
func sweepCut(f *fixture) {
	cut := errors.New("cut")
	for _, after := range []bool{false, true} {
		for call, more := 1, true; more; call++ {
			one := *f
			one.name = fmt.Sprintf("%s-%t-%d", f.name, after, call)
			c, clock := one.sweepable(itembank.Return)
			left := call
			fault := func(method string) error {
				if method == "CloseClaim" || method == "EndItems" {
					if left--; left == 0 {
						return cut
					}
				}
				return nil
			}
			hooked := &Hooked{Store: f.Store, Before: fault}
			if after {
				hooked.Before, hooked.After = nil, fault
			}
			_, err := itembank.New(hooked, itembank.WithClock(clock)).Sweep(f.ctx, one.name, nil)
			if more = errors.Is(err, cut); !more {
				f.must(err)
			}
			_, err = f.bank(itembank.WithClock(clock)).Sweep(f.ctx, one.name, nil)
			f.must(err)
			for item, want := range map[string]string{"old-00000": "expired", "old-00003": "expired", "new-00000": "free", "new-00002": "free"} {
				one.wantWhere(want, c, item, item)
			}
			if free := one.countFree(c); free != 4 {
				f.Errorf("cut at change %d (after its effect: %t): want 4 free items, got %d", call, after, free)
			}
		}
	}
}

// claimReadFirst: only where claimants come again, and not for long after that.
func claimReadFirst(f *fixture) {
	f.stocked(100, itembank.Settings{Shards: 1, PageSize: 100})
	counted := &Hooked{Store: f.Store}
	b := itembank.New(counted, itembank.WithClock(NewClock()))
	f.claim(b, "ann")
	for i := range 20 {
		f.claim(b, fmt.Sprintf("new-%d", i))
	}
	if calls := counted.Calls(); slices.Contains(calls, "HeldClaimEventuallyConsistent") {
		f.Errorf("nobody came again: want no claim read first, got %v", calls)
	}
	f.claim(b, "ann")
	f.claim(b, "ann")
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a repeat among repeats", counted, "HeldClaimEventuallyConsistent")
	f.claim(b, "bob")
	f.wantCalls("a new claimant among repeats", counted, "HeldClaimEventuallyConsistent", "Take")
	for i := range 20 {
		f.claim(b, fmt.Sprintf("newer-%d", i))
	}
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a repeat among new claimants", counted, "Take")
}

// readsFirst is a Bank that has met so many repeats that it reads the claim first.
func (f *fixture) readsFirst(s engine.Store, options ...itembank.Option) *itembank.Bank {
	f.Helper()
	b := itembank.New(s, options...)
	for range 5 {
		f.claim(b, "regular")
	}
	return b
}

// claimReadFirstReturn: where items return, an old answer could show one that is
// somebody else's by now.
func claimReadFirstReturn(f *fixture) {
	f.stocked(4, itembank.Settings{Shards: 1, OnEnd: itembank.Return})
	counted := &Hooked{Store: f.Store}
	b := f.readsFirst(counted, itembank.WithClock(NewClock()))
	counted.Calls()
	f.claim(b, "regular")
	f.wantCalls("a repeat", counted, "HeldClaim")
	f.claim(b, "ann")
	f.wantCalls("a new claimant", counted, "HeldClaim", "Take")
}

// oldPeeks answers peeks from a snapshot: what it does not hold was not there.
type oldPeeks struct {
	engine.Store
	claims map[string]engine.Claim
}

func (s *oldPeeks) HeldClaimEventuallyConsistent(_ context.Context, _, claimant string) (*engine.Claim, error) {
	if claim, ok := s.claims[claimant]; ok {
		return &claim, nil
	}
	return nil, nil
}

// stalePeek: an old answer never shows an item that somebody else can have. Where
// items burn it may show a claim that was released just now, and its item is
// nobody's; a claim that it misses, or that has ended, is found by the transaction.
func stalePeek(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := *f
		one.name += "-" + string(onEnd)
		c, items := one.stocked(12, itembank.Settings{Shards: 1, OnEnd: onEnd, ClaimLife: time.Hour})
		clock := NewClock()
		old := &oldPeeks{one.Store, map[string]engine.Claim{}}
		b := one.readsFirst(old, itembank.WithClock(clock))
		fresh := one.bank(itembank.WithClock(clock))
		released, ended := one.claim(fresh, "ann").Claim, one.claim(fresh, "bob").Claim
		old.claims["ann"], old.claims["bob"] = rowOf(released), rowOf(ended)

		missed := one.claim(fresh, "cid").Claim
		if again := one.claim(b, "cid"); again.Claim != missed || !again.Replayed {
			f.Errorf("%s: a claim that a peek misses: want %+v, got %+v", onEnd, missed, again)
		}

		want := itembank.Released{Ended: "burned"}
		if onEnd == itembank.Return {
			want = itembank.Released{Returned: true}
		}
		one.released(fresh, rowOf(released), want)
		if onEnd == itembank.Return {
			one.take(c, "dan", released.Item)
		}
		again := one.claim(b, "ann").Claim
		switch where := one.where(c, again.Item, "ann", "dan"); {
		case where == "held by ann" && again != released:
		case onEnd == itembank.Burn && where == "burned" && again == released:
		default:
			f.Errorf("%s: ann released %s and got %s, which is %q", onEnd, released.Item, again.Item, where)
		}

		clock.Advance(time.Hour + endGrace + time.Millisecond)
		one.loadAt(clock, items...)
		next := one.claim(fresh, "bob").Claim
		if again := one.claim(b, "bob"); next == ended || again.Claim != next {
			f.Errorf("%s: a peek at an ended claim: want %+v, got %+v", onEnd, next, again)
		}
	}
}

// stalePeekElsewhere: a claim in another campaign of the scope keeps nobody from
// claiming here because it was there a moment ago.
func stalePeekElsewhere(f *fixture) {
	c, _ := f.stocked(4, itembank.Settings{Shards: 1, Scope: f.name + "-scope"})
	other := f.createNamed(f.name+"-other", itembank.Settings{Scope: c.Scope})
	_, err := f.bank().Load(f.ctx, other.Name, itembank.Items("x"), nil)
	f.must(err)
	old := &oldPeeks{f.Store, map[string]engine.Claim{}}
	b := f.readsFirst(old, itembank.WithClock(NewClock()))
	claim := f.take(other, "ann", "x")
	old.claims["ann"] = claim
	f.refused(b, "ann", itembank.ErrClaimedElsewhere)
	f.closed(burning(other, claim))
	f.claim(b, "ann")
}
