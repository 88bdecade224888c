package itembanktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// claimCases pin what a Bank promises a claimant, over the engine.
var claimCases = []testCase{
	{"claims/one-each", oneEach},
	{"claims/more-claimants-than-items", moreClaimantsThanItems},
	{"claims/last-item-claimed-twice-at-once", lastItemTwice},
	{"claims/same-item-after-the-bank-is-empty", sameItemWhenEmpty},
	{"claims/same-item-after-close", sameItemWhenClosed},
	{"claims/sold-out-ends-with-a-load", soldOutEnds},
	{"claims/sold-out-memory-counts-from-the-read", soldOutMemoryFromRead},
	{"claims/sold-out-on-a-slow-store", soldOutOnSlowStore},
	{"claims/sold-out-is-proven-anew", soldOutProvenAnew},
	{"claims/page-belongs-to-a-generation", pageOfGeneration},
	{"claims/answer-while-another-reads", answerWhileAnotherReads},
	{"claims/claim-is-read-after-the-bank", claimReadAfterBank},
	{"claims/campaign-is-read-after-the-bank", campaignReadAfterBank},
	{"claims/closing-is-seen-when-empty", closingSeenWhenEmpty},
	{"claims/stale-page", stalePage},
	{"claims/repeat-with-gone-candidate", repeatWithGoneCandidate},
	{"claims/store-calls", storeCalls},
	{"claims/page-ages", pageAges},
	{"claims/page-is-dropped-after-a-lost-race", pageDroppedAfterLostRace},
	{"claims/nothing-written-when-refused", nothingWritten},
	{"claims/claimed-elsewhere", claimedElsewhere},
	{"claims/open-and-close", openAndClose},
	{"claims/invalid-input", invalidClaims},
	{"claims/lost-reply", lostReply},
	{"claims/own-write-seen-again", ownWriteSeenAgain},
	{"claims/busy-store", busyStore},
	{"claims/states", states},
	{"claims/state-memory-counts-from-the-read", stateMemoryFromRead},
	{"claims/state-of-stale-rules", stateOfStaleRules},
}

// oneEach is the product in one case: 20 customers ask 5 times each, at once.
func oneEach(f *fixture) {
	f.stocked(100, itembank.Settings{})
	banks := []*itembank.Bank{f.bank(), f.bank(), f.bank(), f.bank()}
	claimants := codes("customer", 20)
	items := f.oneEach(f.storm(banks, claimants, 5))
	if len(items) != 20 {
		f.Errorf("want 20 claimants with an item, got %d", len(items))
	}
	f.wantCounts(engine.Counts{Loaded: 100, Free: 80, Claimed: 20})
	for claimant, item := range items {
		if grant := f.claim(f.bank(), claimant); grant.Claim.Item != item || !grant.Replayed {
			f.Errorf("claimant %s: want item %s again, got %+v", claimant, item, grant)
		}
	}
	f.wantCounts(engine.Counts{Loaded: 100, Free: 80, Claimed: 20})
}

func moreClaimantsThanItems(f *fixture) {
	n := 15 * scale
	f.stocked(n, itembank.Settings{Shards: 4, PageSize: 5})
	banks := []*itembank.Bank{f.bank(), f.bank(), f.bank()}
	items := f.oneEach(f.storm(banks, codes("customer", n+10), 1))
	if len(items) != n {
		f.Errorf("want %d claimants with an item, got %d", n, len(items))
	}
	f.wantCounts(engine.Counts{Loaded: int64(n), Claimed: int64(n)})
}

// lastItemTwice: one of a claimant's requests takes the last item, and none of
// the others may hear "sold out".
func lastItemTwice(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 2})
	answers := f.storm([]*itembank.Bank{f.bank(), f.bank(), f.bank()}, []string{"ann"}, 6)
	for _, a := range answers["ann"] {
		f.must(a.err)
	}
	f.oneEach(answers)
	f.wantCounts(engine.Counts{Loaded: 1, Claimed: 1})
}

func sameItemWhenEmpty(f *fixture) {
	f.stocked(3, itembank.Settings{Shards: 2})
	b := f.bank()
	first := f.claim(b, "ann")
	f.claim(b, "bob")
	f.claim(b, "cid")
	f.refused(b, "dan", itembank.ErrSoldOut)
	for _, bank := range []*itembank.Bank{b, f.bank()} {
		if again := f.claim(bank, "ann"); again.Claim != first.Claim || !again.Replayed {
			f.Errorf("want %+v again, got %+v", first.Claim, again)
		}
	}
}

func sameItemWhenClosed(f *fixture) {
	f.stocked(3, itembank.Settings{})
	b := f.bank()
	first := f.claim(b, "ann")
	f.must(b.CloseCampaign(f.ctx, f.name))
	f.refused(b, "bob", itembank.ErrClosed)
	if again := f.claim(b, "ann"); again.Claim != first.Claim || !again.Replayed {
		f.Errorf("want %+v again, got %+v", first.Claim, again)
	}
	held, err := b.HeldClaim(f.ctx, f.name, "ann")
	f.must(err)
	if held != first.Claim {
		f.Errorf("want %+v, got %+v", first.Claim, held)
	}
}

// soldOutEnds: a request that starts a second after an item was committed
// must get it, whatever the Bank remembers.
func soldOutEnds(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 3})
	clock := NewClock()
	b := f.bank(itembank.WithClock(clock))
	f.claim(b, "ann")
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.load("late")
	clock.Advance(time.Second)
	if grant := f.claim(b, "bob"); grant.Claim.Item != "late" {
		f.Errorf("want the late item, got %+v", grant)
	}
}

// soldOutMemoryFromRead: reads take 450 ms here. What they show is a second old
// a second after they began, not after they ended.
func soldOutMemoryFromRead(f *fixture) {
	f.create(itembank.Settings{Shards: 1})
	clock := NewClock()
	slow := f.slow(clock, 450*time.Millisecond)
	b := itembank.New(slow, itembank.WithClock(clock))
	f.refused(b, "ann", itembank.ErrSoldOut) // two reads: it is 900 ms since the first began
	f.load("late")
	clock.Advance(100 * time.Millisecond)
	f.claim(b, "ann")
}

// slow is a store whose bank reads take a time.
func (f *fixture) slow(clock *Clock, d time.Duration) *Hooked {
	return &Hooked{Store: f.Store, After: func(method string) error {
		if method == "FreeItems" {
			clock.Advance(d)
		}
		return nil
	}}
}

// soldOutOnSlowStore: reading all shards takes longer than what they show is
// remembered. A request reads each shard once all the same.
func soldOutOnSlowStore(f *fixture) {
	f.create(itembank.Settings{Shards: 16})
	clock := NewClock()
	slow := f.slow(clock, 70*time.Millisecond)
	b := itembank.New(slow, itembank.WithClock(clock))
	f.refused(b, "ann", itembank.ErrSoldOut)
	if calls := slow.Calls(); len(calls) != 1+2+15+2 {
		f.Errorf("want both halves of one shard and then the others read once, got %d calls", len(calls))
	}
	clock.Advance(time.Minute)
	slow.Calls()
	if _, state, err := b.State(f.ctx, f.name); state != itembank.Empty || err != nil {
		f.Errorf("want state %s, got %s, %v", itembank.Empty, state, err)
	}
	if calls := slow.Calls(); len(calls) != 1+16+2 {
		f.Errorf("want each shard probed once, got %d calls", len(calls))
	}
}

// soldOutProvenAnew: the campaign is read after each time that the bank was
// seen empty, not only after the first.
func soldOutProvenAnew(f *fixture) {
	f.create(itembank.Settings{Shards: 2})
	clock := NewClock()
	b := f.bank(itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	f.refused(b, "ann", itembank.ErrSoldOut)
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	clock.Advance(time.Second)
	f.refused(b, "ann", itembank.ErrClosed)
}

// pageOfGeneration: the items of a page are not handed out in the next generation.
func pageOfGeneration(f *fixture) {
	c, _ := f.stocked(5, itembank.Settings{Shards: 1})
	next := f.freeItem(c, "of-generation-2")
	next.Shard.Generation = 2
	f.wantOutcomes([]engine.AddRequest{{Item: next, LoadID: "l", Row: 1}}, engine.AddDone)
	switching := &generations{Store: f.Store}
	switching.current.Store(1)
	b := itembank.New(switching, itembank.WithCampaignCache(0))
	f.claim(b, "ann") // the page holds four more
	switching.current.Store(2)
	if grant := f.claim(b, "bob"); grant.Claim.Item != "of-generation-2" {
		f.Errorf("want the item of the new generation, got %+v", grant)
	}
}

// answerWhileAnotherReads: one request waits for a page, and another, whose
// answer is known, does not wait for it.
func answerWhileAnotherReads(f *fixture) {
	f.stocked(2, itembank.Settings{Shards: 1})
	reading, goOn, bob := make(chan struct{}), make(chan struct{}), make(chan itembank.Grant, 1)
	var b *itembank.Bank
	var armed, asked atomic.Bool
	hooked := &Hooked{Store: f.Store}
	hooked.Before = func(method string) error {
		switch {
		case method == "Take" && armed.CompareAndSwap(true, false): // ann has the last candidate
			asked.Store(true)
			go func() { bob <- f.claimOrZero(b, "bob") }()
			<-reading
		case method == "FreeItems" && asked.CompareAndSwap(true, false): // bob reads the next page
			close(reading)
			<-goOn
		}
		return nil
	}
	b = itembank.New(hooked, itembank.WithClock(NewClock()))
	first := f.claim(b, "ann")
	armed.Store(true)
	again := f.claimSoon(b, "ann")
	close(goOn)
	if last := <-bob; last.Claim.Item == "" || last.Claim.Item == first.Claim.Item {
		f.Errorf("want the other item for bob, got %+v", last)
	}
	if again.Claim != first.Claim {
		f.Errorf("want %+v again, got %+v", first.Claim, again.Claim)
	}
}

// claimSoon claims and gives up after a minute, which nothing here takes.
func (f *fixture) claimSoon(b *itembank.Bank, claimant string) itembank.Grant {
	got := make(chan itembank.Grant, 1)
	go func() { got <- f.claimOrZero(b, claimant) }()
	select {
	case grant := <-got:
		return grant
	case <-time.After(time.Minute):
		f.Errorf("%s's answer waited for another request", claimant)
		return itembank.Grant{}
	}
}

// claimOrZero claims, for goroutines that must not end the test.
func (f *fixture) claimOrZero(b *itembank.Bank, claimant string) itembank.Grant {
	grant, err := b.Claim(f.ctx, f.name, claimant)
	if err != nil {
		f.Errorf("claim for %s: %v", claimant, err)
	}
	return grant
}

// claimReadAfterBank: the claimant's other request takes the last item after
// this one began and before it sees the bank empty.
func claimReadAfterBank(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1})
	other := f.bank()
	var first itembank.Grant
	interrupted := &Hooked{Store: f.Store}
	interrupted.Before = func(method string) error {
		if method == "FreeItems" && first.Claim.ID == "" {
			first = f.claim(other, "ann")
		}
		return nil
	}
	again := f.claim(itembank.New(interrupted), "ann")
	if again.Claim != first.Claim || !again.Replayed {
		f.Errorf("want %+v, got %+v", first.Claim, again)
	}
}

// generations answers campaigns as being in the generation it holds.
type generations struct {
	engine.Store
	current atomic.Int32
}

func (g *generations) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	c, err := g.Store.Campaign(ctx, name)
	if c != nil {
		c.Generation = int(g.current.Load())
	}
	return c, err
}

// campaignReadAfterBank: the bank was seen empty, but meanwhile another one is
// handed out.
func campaignReadAfterBank(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	switching := &generations{Store: f.Store}
	switching.current.Store(1)
	b := itembank.New(switching, itembank.WithCampaignCache(time.Hour))
	_, err := b.Campaign(f.ctx, f.name) // its copy of the rules says generation 1
	f.must(err)

	next := f.freeItem(c, "of-generation-2")
	next.Shard.Generation = 2
	f.wantOutcomes([]engine.AddRequest{{Item: next, LoadID: "l", Row: 1}}, engine.AddDone)
	switching.current.Store(2)
	if grant := f.claim(b, "ann"); grant.Claim.Item != "of-generation-2" {
		f.Errorf("want the item of the new generation, got %+v", grant)
	}
}

func closingSeenWhenEmpty(f *fixture) {
	f.create(itembank.Settings{})
	b := f.bank(itembank.WithCampaignCache(time.Hour))
	_, err := b.Campaign(f.ctx, f.name)
	f.must(err)
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	f.refused(b, "ann", itembank.ErrClosed)
}

// stalePage: a Bank whose page was emptied by another still ends with the truth.
func stalePage(f *fixture) {
	f.stocked(6, itembank.Settings{Shards: 1})
	stale := f.bank()
	first := f.claim(stale, "ann") // the page holds the other five
	other := f.bank()
	for i := range 4 {
		f.claim(other, fmt.Sprintf("other-%d", i))
	}
	last := f.claim(stale, "bob")
	if last.Claim.Item == first.Claim.Item {
		f.Errorf("item %s was given twice", last.Claim.Item)
	}
	f.refused(stale, "cid", itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 6, Claimed: 6})
}

// repeatWithGoneCandidate: the claim exists and the candidate is gone. The
// claim is the answer, and the one call that brought it is enough.
func repeatWithGoneCandidate(f *fixture) {
	f.stocked(3, itembank.Settings{Shards: 1})
	counted := &Hooked{Store: f.Store}
	stale := itembank.New(counted, itembank.WithClock(NewClock()))
	first := f.claim(stale, "ann") // two candidates are left on its page
	other := f.bank()
	f.claim(other, "bob")
	f.claim(other, "cid")
	counted.Calls()
	if again := f.claim(stale, "ann"); again.Claim != first.Claim || !again.Replayed {
		f.Errorf("want %+v again, got %+v", first.Claim, again)
	}
	f.wantCalls("a repeat whose candidate is gone", counted, "Take")
}

// wantCalls compares the store's calls since the last look.
func (f *fixture) wantCalls(what string, counted *Hooked, want ...string) {
	f.Helper()
	if calls := counted.Calls(); !slices.Equal(calls, want) {
		f.Errorf("%s: want calls %v, got %v", what, want, calls)
	}
}

// pageAges: a page serves for ten seconds.
func pageAges(f *fixture) {
	f.stocked(30, itembank.Settings{Shards: 1, PageSize: 10})
	clock, counted := NewClock(), &Hooked{Store: f.Store}
	b := itembank.New(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	f.claim(b, "warm-up")
	counted.Calls()
	clock.Advance(10 * time.Second)
	f.claim(b, "ann")
	f.wantCalls("at ten seconds", counted, "Take")
	clock.Advance(time.Millisecond)
	f.claim(b, "bob")
	if calls := counted.Calls(); len(calls) < 2 || calls[0] != "FreeItems" {
		f.Errorf("past ten seconds: want a new page, got calls %v", calls)
	}
}

// pageDroppedAfterLostRace: whoever took one item of the page works there.
func pageDroppedAfterLostRace(f *fixture) {
	f.stocked(6, itembank.Settings{Shards: 1})
	counted := &Hooked{Store: f.Store}
	stale := itembank.New(counted, itembank.WithClock(NewClock()))
	f.claim(stale, "ann") // its page holds the other five
	other := f.bank()
	for i := range 5 {
		f.claim(other, fmt.Sprintf("other-%d", i))
	}
	counted.Calls()
	f.refused(stale, "bob", itembank.ErrSoldOut)
	f.wantCalls("after a lost race", counted, "Take", "FreeItems", "Campaign", "HeldClaim")
}

func storeCalls(f *fixture) {
	f.stocked(8, itembank.Settings{Shards: 1})
	counted := &Hooked{Store: f.Store}
	b := itembank.New(counted, itembank.WithClock(NewClock()))
	f.claim(b, "warm-up")
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a new claim on a warm page", counted, "Take")
	for i := range 10 { // more often than the page has items
		f.claim(b, "ann")
		if i < 2 {
			f.wantCalls("a repeat", counted, "Take")
		} else { // by now the claim is read first
			f.wantCalls("one of many repeats", counted, "HeldClaimEventuallyConsistent")
		}
	}
	for i := range 6 {
		f.claim(b, fmt.Sprintf("claimant-%d", i))
	}
	counted.Calls()
	f.refused(b, "too-late", itembank.ErrSoldOut)
	f.wantCalls("the first sold out", counted, "FreeItems", "Campaign", "HeldClaim")
	f.refused(b, "later", itembank.ErrSoldOut)
	f.wantCalls("sold out within a second", counted, "HeldClaim")
	f.must(b.CloseCampaign(f.ctx, f.name))
	f.refused(b, "later", itembank.ErrClosed)
	counted.Calls()
	f.refused(b, "later", itembank.ErrClosed)
	f.wantCalls("closed", counted, "HeldClaim")
}

func nothingWritten(f *fixture) {
	f.create(itembank.Settings{OpensAt: time.Now().Add(time.Hour)})
	f.load("a", "b")
	refusals := func(want error) {
		f.Helper()
		for range 3 {
			f.refused(f.bank(), "ann", want)
		}
	}
	refusals(itembank.ErrNotOpen)
	f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	refusals(itembank.ErrClosed)
	f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
	f.must(f.bank().OpenCampaign(f.ctx, f.name))
	f.claim(f.bank(), "bob")
	f.claim(f.bank(), "cid")
	refusals(itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 2, Claimed: 2})
}

// claimedElsewhere: three classes, one booking per student. The classes have
// banks of different shards and must find each other's claims all the same.
func claimedElsewhere(f *fixture) {
	scope := f.name + "-term"
	for i, shards := range []int{1, 16, 37} {
		name := fmt.Sprintf("%s-class-%d", f.name, i)
		f.createNamed(name, itembank.Settings{Scope: scope, Shards: shards})
		_, err := f.bank().Load(f.ctx, name, itembank.Items("seat-1", "seat-2"), nil)
		f.must(err)
	}
	b := f.bank()
	first, err := b.Claim(f.ctx, f.name+"-class-1", "ann")
	f.must(err)
	for _, other := range []string{f.name + "-class-0", f.name + "-class-2"} {
		_, err := b.Claim(f.ctx, other, "ann")
		var elsewhere *itembank.ClaimedElsewhereError
		if !errors.As(err, &elsewhere) || elsewhere.Campaign != f.name+"-class-1" || !errors.Is(err, itembank.ErrRefused) {
			f.Errorf("%s: want claimed elsewhere, got %v", other, err)
		}
		if _, err := b.HeldClaim(f.ctx, other, "ann"); !errors.Is(err, itembank.ErrNoClaim) {
			f.Errorf("%s: want no claim, got %v", other, err)
		}
	}
	again, err := b.Claim(f.ctx, f.name+"-class-1", "ann")
	f.must(err)
	if again.Claim != first.Claim {
		f.Errorf("want %+v, got %+v", first.Claim, again.Claim)
	}
}

func openAndClose(f *fixture) {
	start := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	f.create(itembank.Settings{OpensAt: start, ClosesAt: start.Add(time.Hour)})
	f.load(codes("code", 9)...)
	clock := NewClock()
	b := f.bank(itembank.WithClock(clock))
	f.refused(b, "ann", itembank.ErrNotOpen)
	clock.Advance(start.Sub(clock.Now()) - time.Millisecond)
	f.refused(b, "ann", itembank.ErrNotOpen)
	clock.Advance(time.Millisecond)
	f.claim(b, "ann")
	clock.Advance(time.Hour - time.Millisecond)
	f.claim(b, "bob")
	clock.Advance(time.Millisecond)
	f.refused(b, "cid", itembank.ErrClosed)

	other := f.bank() // hands overrule times, everywhere once copies are too old
	f.must(other.OpenCampaign(f.ctx, f.name))
	clock.Advance(itembank.DefaultCampaignCache)
	f.claim(b, "cid")
	f.must(other.CloseCampaign(f.ctx, f.name))
	clock.Advance(itembank.DefaultCampaignCache - time.Millisecond)
	f.claim(b, "dan")
	clock.Advance(time.Millisecond)
	f.refused(b, "eve", itembank.ErrClosed)
	if err := b.OpenCampaign(f.ctx, f.name+"-other"); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want no such campaign, got %v", err)
	}
}

func invalidClaims(f *fixture) {
	f.stocked(2, itembank.Settings{})
	for _, test := range []struct {
		campaign, claimant string
		want               error
	}{
		{f.name, "", itembank.ErrInvalid},
		{f.name, string(make([]byte, engine.MaxClaimant+1)), itembank.ErrInvalid},
		{f.name, "line\nbreak", itembank.ErrInvalid},
		{f.name, "\x7f", itembank.ErrInvalid},
		{f.name, "\xff\xfe", itembank.ErrInvalid},
		{"No-Such", "ann", itembank.ErrInvalid},
		{"", "ann", itembank.ErrInvalid},
		{f.name + "-other", "ann", itembank.ErrNoCampaign},
	} {
		if _, err := f.bank().Claim(f.ctx, test.campaign, test.claimant); !errors.Is(err, test.want) {
			f.Errorf("claim(%q, %q): want %v, got %v", test.campaign, test.claimant, test.want, err)
		}
		if _, err := f.bank().HeldClaim(f.ctx, test.campaign, test.claimant); !errors.Is(err, test.want) {
			f.Errorf("held claim(%q, %q): want %v, got %v", test.campaign, test.claimant, test.want, err)
		}
	}
	f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
}

var errLost = fmt.Errorf("%w: the reply was lost", itembank.ErrTryAgain)

// lostReply: the claim took effect and nobody heard of it.
func lostReply(f *fixture) {
	f.stocked(5, itembank.Settings{})
	lost := false
	flaky := &Hooked{Store: f.Store, After: func(method string) error {
		if method == "Take" && !lost {
			lost = true
			return errLost
		}
		return nil
	}}
	b := itembank.New(flaky)
	f.refused(b, "ann", itembank.ErrTryAgain)
	f.wantCounts(engine.Counts{Loaded: 5, Free: 4, Claimed: 1})
	if grant := f.claim(b, "ann"); !grant.Replayed {
		f.Errorf("want the claim that was made, got %+v", grant)
	}
	f.wantCounts(engine.Counts{Loaded: 5, Free: 4, Claimed: 1})
}

// sentTwice sends each take twice, as an SDK does that lost the first reply and
// whose token has not held.
type sentTwice struct{ engine.Store }

func (s sentTwice) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if found, err := s.Store.Take(ctx, i, c); err != nil {
		return found, err
	}
	return s.Store.Take(ctx, i, c)
}

// ownWriteSeenAgain: a claim that an earlier attempt of the same request made
// is new, not a replay.
func ownWriteSeenAgain(f *fixture) {
	f.stocked(5, itembank.Settings{})
	b := itembank.New(sentTwice{f.Store})
	first := f.claim(b, "ann")
	again := f.claim(b, "ann")
	if first.Replayed || !again.Replayed || first.Claim != again.Claim {
		f.Errorf("want a new claim and then its replay, got %+v and %+v", first, again)
	}
	f.wantCounts(engine.Counts{Loaded: 5, Free: 4, Claimed: 1})
}

// busy answers takes with evidence of its own before it lets them through.
type busy struct {
	engine.Store
	evidence []engine.TakeResult
	meet     func() // what the other transaction does meanwhile
}

func (b *busy) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if len(b.evidence) == 0 {
		return b.Store.Take(ctx, i, c)
	}
	next := b.evidence[0]
	b.evidence = b.evidence[1:]
	if b.meet != nil {
		b.meet()
	}
	return next, nil
}

// busyStore: after a conflict or a throttle the candidate is not gone, a
// conflict on the claim is followed by a read of it, and waiting has an end.
func busyStore(f *fixture) {
	f.stocked(2, itembank.Settings{Shards: 1})
	for i, once := range []engine.TakeResult{{ItemConflict: true}, {Throttled: true}} {
		counted := &Hooked{Store: &busy{Store: f.Store, evidence: []engine.TakeResult{once, once}}}
		b := itembank.New(counted, itembank.WithClock(NewClock()))
		if grant := f.claim(b, fmt.Sprintf("claimant-%d", i)); grant.Replayed {
			f.Errorf("%+v: want a new claim, got %+v", once, grant)
		}
		f.wantCalls("the candidate is not gone", counted, "Campaign", "FreeItems", "FreeItems", "Take", "Take", "Take")
	}
	f.load("third", "fourth")

	var first itembank.Grant
	met := &busy{Store: f.Store, evidence: []engine.TakeResult{{ClaimConflict: true, ItemGone: true}}}
	met.meet = func() { first = f.claim(f.bank(), "ann") }
	counted := &Hooked{Store: met}
	if again := f.claim(itembank.New(counted), "ann"); again.Claim != first.Claim || !again.Replayed {
		f.Errorf("want the claim of the other request, %+v, got %+v", first.Claim, again)
	}
	f.wantCalls("a conflict on the claim", counted, "Campaign", "FreeItems", "FreeItems", "Take", "HeldClaim")

	held := rowOf(first.Claim)
	for _, other := range []engine.TakeResult{{ItemConflict: true}, {Throttled: true}, {ClaimConflict: true}, {ItemConflict: true, Throttled: true}} {
		found := other
		found.Held = &held // the claim exists: it is the answer, whatever else is true
		counted := &Hooked{Store: &busy{Store: f.Store, evidence: []engine.TakeResult{found}}}
		if again := f.claim(itembank.New(counted), "ann"); again.Claim != first.Claim {
			f.Errorf("%+v: want %+v, got %+v", other, first.Claim, again.Claim)
		}
		f.wantCalls("a claim that exists", counted, "Campaign", "FreeItems", "FreeItems", "Take")
	}

	always := &busy{Store: f.Store, evidence: slices.Repeat([]engine.TakeResult{{Throttled: true}}, 100)}
	clock := NewClock()
	begun := clock.Now()
	f.refused(itembank.New(always, itembank.WithClock(clock)), "bob", itembank.ErrTryAgain)
	if waited := clock.Now().Sub(begun); waited == 0 || waited > 3*time.Second {
		f.Errorf("waited %s for a store that stayed busy", waited)
	}
	f.wantCounts(engine.Counts{Loaded: 4, Free: 1, Claimed: 3})
}

func states(f *fixture) {
	f.create(itembank.Settings{Shards: 4, OpensAt: time.Now().Add(time.Hour)})
	clock := NewClock()
	counted := &Hooked{Store: f.Store}
	b := itembank.New(counted, itembank.WithClock(clock))
	expect := func(want itembank.State) {
		f.Helper()
		if _, got, err := b.State(f.ctx, f.name); got != want || err != nil {
			f.Errorf("want state %s, got %s, %v", want, got, err)
		}
	}
	expect(itembank.Scheduled)
	f.must(b.OpenCampaign(f.ctx, f.name))
	expect(itembank.Empty)
	counted.Calls()
	expect(itembank.Empty)
	if calls := counted.Calls(); len(calls) != 0 {
		f.Errorf("remembered state: want no calls, got %v", calls)
	}
	f.load("one")
	clock.Advance(time.Second)
	counted.Calls()
	expect(itembank.Open)
	if calls := counted.Calls(); len(calls) > 4 {
		f.Errorf("want at most one read a shard, got %v", calls)
	}
	f.claim(b, "ann")
	expect(itembank.SoldOut)
	counted.Calls()
	clock.Advance(time.Minute)
	expect(itembank.SoldOut)
	f.wantCalls("a campaign that is known to have loads", counted, "Campaign", "FreeItems", "FreeItems", "FreeItems", "FreeItems", "Campaign")
	f.must(b.CloseCampaign(f.ctx, f.name))
	expect(itembank.Closed)
	if _, _, err := b.State(f.ctx, f.name+"-other"); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want no such campaign, got %v", err)
	}
}

// stateMemoryFromRead: as for claims, what a read shows is as old as its beginning.
func stateMemoryFromRead(f *fixture) {
	f.create(itembank.Settings{Shards: 1})
	clock := NewClock()
	b := itembank.New(f.slow(clock, 900*time.Millisecond), itembank.WithClock(clock))
	if _, state, err := b.State(f.ctx, f.name); state != itembank.Empty || err != nil {
		f.Errorf("want state %s, got %s, %v", itembank.Empty, state, err)
	}
	f.load("late")
	clock.Advance(100 * time.Millisecond)
	if _, state, err := b.State(f.ctx, f.name); state != itembank.Open || err != nil {
		f.Errorf("want state %s, got %s, %v", itembank.Open, state, err)
	}
}

func stateOfStaleRules(f *fixture) {
	f.create(itembank.Settings{})
	b := f.bank(itembank.WithCampaignCache(time.Hour))
	_, err := b.Campaign(f.ctx, f.name)
	f.must(err)
	f.must(f.bank().CloseCampaign(f.ctx, f.name))
	if _, state, err := b.State(f.ctx, f.name); state != itembank.Closed || err != nil {
		f.Errorf("want state %s, got %s, %v", itembank.Closed, state, err)
	}
}
