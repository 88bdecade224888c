package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var claimCases = []testCase{
	{"one-item-for-each-claimant", oneItemForEachClaimant},
	{"more-claimants-than-items", moreClaimantsThanItems},
	{"last-item-claimed-several-times-at-once", lastItemSeveralTimes},
	{"sold-out-ends-with-a-load", soldOutEnds},
	{"sold-out-is-remembered-from-the-begin-of-the-read", soldOutRememberedFromTheRead},
	{"sold-out-on-a-slow-engine", soldOutOnSlowEngine},
	{"sold-out-is-proven-again", soldOutProvenAgain},
	{"answer-while-another-request-reads", answerWhileAnotherReads},
	{"claim-is-read-after-the-bank", claimReadAfterBank},
	{"close-is-seen-when-the-bank-is-empty", closeSeenWhenEmpty},
	{"stale-page", stalePage},
	{"repeated-claim-with-a-lost-candidate", repeatWithLostCandidate},
	{"calls-of-a-claim", callsOfClaim},
	{"page-ages", pageAges},
	{"page-is-dropped-after-a-lost-race", pageDroppedAfterLostRace},
	{"refusal-writes-nothing", refusalWritesNothing},
	{"claimed-elsewhere", claimedElsewhere},
	{"open-and-close", openAndClose},
	{"invalid-input", invalidClaims},
	{"take-that-is-sent-twice", takeSentTwice},
	{"busy-engine", busyEngine},
	{"holder-is-answered-whatever-fails", holderAnswered},
	{"holder-does-not-wait-for-the-proof", holderDoesNotWait},
	{"throttled-shard-is-avoided", throttledShard},
	{"throttled-reads-are-repeated", throttledReads},
}

// oneItemForEachClaimant: 20 customers claim 5 times each, at once.
func oneItemForEachClaimant(f *fixture) {
	f.stocked(100, itembank.Settings{})
	banks := []*itembank.Operator{f.bank(), f.bank(), f.bank(), f.bank()}
	claimants := codes("customer", 20)
	items := f.oneItemEach(f.crowd(banks, claimants, 5))
	if len(items) != 20 {
		f.Errorf("want 20 claimants with an item, got %d", len(items))
	}
	f.wantCounts(engine.Counts{Loaded: 100, Free: 80, Claimed: 20})
	for claimant, item := range items {
		if grant := f.claim(f.bank(), claimant); grant.Claim.Items[0] != item || !grant.Replayed {
			f.Errorf("claimant %s: want item %s again, got %+v", claimant, item, grant)
		}
	}
	f.wantCounts(engine.Counts{Loaded: 100, Free: 80, Claimed: 20})
}

func moreClaimantsThanItems(f *fixture) {
	const n = 60
	f.stocked(n, itembank.Settings{Shards: 4, PageSize: 5})
	banks := []*itembank.Operator{f.bank(), f.bank(), f.bank()}
	items := f.oneItemEach(f.crowd(banks, codes("customer", n+10), 1))
	if len(items) != n {
		f.Errorf("want %d claimants with an item, got %d", n, len(items))
	}
	f.wantCounts(engine.Counts{Loaded: n, Claimed: n})
}

// lastItemSeveralTimes: one of a claimant's requests takes the last item. The claimant's other requests do not get
// "sold out".
func lastItemSeveralTimes(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 2})
	answers := f.crowd([]*itembank.Operator{f.bank(), f.bank(), f.bank()}, []string{"ann"}, 6)
	for _, a := range answers["ann"] {
		f.Must(a.err)
	}
	f.oneItemEach(answers)
	f.wantCounts(engine.Counts{Loaded: 1, Claimed: 1})
}

// soldOutEnds: a request that begins a second after an item was loaded gets the item, whatever the Bank remembers.
func soldOutEnds(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 3})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	f.claim(b, "ann")
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.loadAt(clock, "late")
	clock.Advance(time.Second)
	if grant := f.claim(b, "bob"); grant.Claim.Items[0] != "late" {
		f.Errorf("want the late item, got %+v", grant)
	}
}

// soldOutRememberedFromTheRead: a read takes 450 ms here. Its result is remembered for a second from the start of the
// read, not from its end.
func soldOutRememberedFromTheRead(f *fixture) {
	f.create(itembank.Settings{Shards: 1})
	clock := itembankfault.NewClock()
	slow := f.slow(clock, 450*time.Millisecond)
	b := itembank.NewOperator(slow, itembank.WithClock(clock))
	f.refused(b, "ann", itembank.ErrSoldOut) // two reads: the first began 900 ms ago
	f.load("late")
	clock.Advance(100 * time.Millisecond)
	f.claim(b, "ann")
}

// slow returns the engine with slow reads of the bank.
func (f *fixture) slow(clock *itembankfault.Clock, d time.Duration) *itembankfault.Store {
	return &itembankfault.Store{Store: f.Store, After: func(method string) error {
		if method == "FreeItems" {
			clock.Advance(d)
		}
		return nil
	}}
}

// soldOutOnSlowEngine: reading all shards takes longer than a read is remembered. A request still reads each shard only
// once.
func soldOutOnSlowEngine(f *fixture) {
	f.create(itembank.Settings{Shards: 16})
	clock := itembankfault.NewClock()
	slow := f.slow(clock, 70*time.Millisecond)
	b := itembank.NewOperator(slow, itembank.WithClock(clock))
	f.refused(b, "ann", itembank.ErrSoldOut)
	if calls := slow.Calls(); len(calls) != 1+2+1+15+2 {
		f.Errorf("want both halves of one shard, the claim, and then the other shards read once, got %d calls", len(calls))
	}
	clock.Advance(time.Minute)
	slow.Calls()
	f.wantState(b, itembank.Empty)
	if calls := slow.Calls(); len(calls) != 1+16+2 {
		f.Errorf("want each shard probed once, got %d calls", len(calls))
	}
}

// soldOutProvenAgain: the campaign is read each time the bank is seen empty, not only the first time.
func soldOutProvenAgain(f *fixture) {
	f.create(itembank.Settings{Shards: 2})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	f.refused(b, "ann", itembank.ErrSoldOut)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	clock.Advance(time.Second)
	f.refused(b, "ann", itembank.ErrClosed)
}

// answerWhileAnotherReads: while one request reads a page, another request whose answer is known does not wait for it.
func answerWhileAnotherReads(f *fixture) {
	f.stocked(2, itembank.Settings{Shards: 1})
	reading, goOn, bob := make(chan struct{}), make(chan struct{}), make(chan itembank.Grant, 1)
	var b *itembank.Operator
	var armed, asked atomic.Bool
	hooked := f.counted()
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
	b = itembank.NewOperator(hooked, itembank.WithClock(itembankfault.NewClock()))
	first := f.claim(b, "ann")
	armed.Store(true)
	again := f.claimSoon(b, "ann")
	close(goOn)
	if last := <-bob; len(last.Claim.Items) == 0 || last.Claim.Items[0] == first.Claim.Items[0] {
		f.Errorf("want the other item for bob, got %+v", last)
	}
	if !reflect.DeepEqual(again.Claim, first.Claim) {
		f.Errorf("want %+v again, got %+v", first.Claim, again.Claim)
	}
}

// claimSoon claims, and fails the case after a minute, which is far more than a claim takes.
func (f *fixture) claimSoon(b *itembank.Operator, claimant string) itembank.Grant {
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

// claimOrZero claims in a goroutine, which must not end the test.
func (f *fixture) claimOrZero(b *itembank.Operator, claimant string) itembank.Grant {
	grant, err := b.Claim(f.ctx, f.name, claimant)
	if err != nil {
		f.Errorf("claim for %s: %v", claimant, err)
	}
	return grant
}

// claimReadAfterBank: another request of the claimant takes the last item after this request began, and before this
// request sees the bank empty.
func claimReadAfterBank(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1})
	other := f.bank()
	var first itembank.Grant
	interrupted := f.counted()
	interrupted.Before = func(method string) error {
		if method == "FreeItems" && first.Claim.ID == "" {
			first = f.claim(other, "ann")
		}
		return nil
	}
	again := f.claim(itembank.NewOperator(interrupted), "ann")
	if !reflect.DeepEqual(again.Claim, first.Claim) || !again.Replayed {
		f.Errorf("want %+v, got %+v", first.Claim, again)
	}
}

func closeSeenWhenEmpty(f *fixture) {
	f.create(itembank.Settings{})
	b := f.bank(itembank.WithCampaignCache(time.Hour))
	_, err := b.Campaign(f.ctx, f.name)
	f.Must(err)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	f.refused(b, "ann", itembank.ErrClosed)
}

// stalePage: other Banks took items of a Bank's page. The Bank gives each item once, and finds out when the bank is
// empty.
func stalePage(f *fixture) {
	f.stocked(6, itembank.Settings{Shards: 1})
	stale := f.bank()
	first := f.claim(stale, "ann") // the page holds the other five
	other := f.bank()
	for i := range 4 {
		f.claim(other, fmt.Sprintf("other-%d", i))
	}
	last := f.claim(stale, "bob")
	if last.Claim.Items[0] == first.Claim.Items[0] {
		f.Errorf("item %s was given twice", last.Claim.Items[0])
	}
	f.refused(stale, "cid", itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 6, Claimed: 6})
}

// repeatWithLostCandidate: the claim exists, and the candidate was taken. The claim is returned after one call.
func repeatWithLostCandidate(f *fixture) {
	f.stocked(3, itembank.Settings{Shards: 1})
	counted := f.counted()
	stale := itembank.NewOperator(counted, itembank.WithClock(itembankfault.NewClock()))
	first := f.claim(stale, "ann") // two candidates are left on its page
	other := f.bank()
	f.claim(other, "bob")
	f.claim(other, "cid")
	counted.Calls()
	if again := f.claim(stale, "ann"); !reflect.DeepEqual(again.Claim, first.Claim) || !again.Replayed {
		f.Errorf("want %+v again, got %+v", first.Claim, again)
	}
	f.wantCalls("a repeated claim whose candidate is gone", counted, "Take")
}

// pageAges: a page is used for at most ten seconds.
func pageAges(f *fixture) {
	f.stocked(30, itembank.Settings{Shards: 1, PageSize: 10})
	clock, counted := itembankfault.NewClock(), f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
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

// pageDroppedAfterLostRace: the claimant who took one item of a page may have taken its neighbours.
func pageDroppedAfterLostRace(f *fixture) {
	f.stocked(6, itembank.Settings{Shards: 1})
	counted := f.counted()
	stale := itembank.NewOperator(counted, itembank.WithClock(itembankfault.NewClock()))
	f.claim(stale, "ann") // its page holds the other five
	other := f.bank()
	for i := range 5 {
		f.claim(other, fmt.Sprintf("other-%d", i))
	}
	counted.Calls()
	f.refused(stale, "bob", itembank.ErrSoldOut)
	f.wantCalls("after a lost race", counted, "Take", "FreeItems", "Campaign", "Loads", "MarkEmpty", "HeldClaim")
}

func callsOfClaim(f *fixture) {
	f.stocked(8, itembank.Settings{Shards: 1})
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(itembankfault.NewClock()))
	f.claim(b, "warm-up")
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a new claim on a warm page", counted, "Take")
	for i := range 10 { // more often than the page has items
		f.claim(b, "ann")
		if i < 2 {
			f.wantCalls("a repeated claim", counted, "Take")
		} else { // now the claim is read first
			f.wantCalls("one of many repeated claims", counted, "HeldClaimEventuallyConsistent")
		}
	}
	for i := range 6 {
		f.claim(b, fmt.Sprintf("claimant-%d", i))
	}
	counted.Calls()
	f.refused(b, "too-late", itembank.ErrSoldOut)
	f.wantCalls("the first sold out", counted, "HeldClaimEventuallyConsistent", "FreeItems", "Campaign", "Loads", "MarkEmpty", "HeldClaim")
	f.refused(b, "later", itembank.ErrSoldOut)
	f.wantCalls("sold out within a second", counted, "HeldClaim")
	f.Must(b.CloseCampaign(f.ctx, f.name))
	f.refused(b, "later", itembank.ErrClosed)
	counted.Calls()
	f.refused(b, "later", itembank.ErrClosed)
	f.wantCalls("closed", counted, "HeldClaim")
}

func refusalWritesNothing(f *fixture) {
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
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	refusals(itembank.ErrClosed)
	f.wantCounts(engine.Counts{Loaded: 2, Free: 2})
	f.Must(f.bank().OpenCampaign(f.ctx, f.name))
	f.claim(f.bank(), "bob")
	f.claim(f.bank(), "cid")
	refusals(itembank.ErrSoldOut)
	f.wantCounts(engine.Counts{Loaded: 2, Claimed: 2})
}

// claimedElsewhere: there are three classes, and each student books one. The banks of the classes have different
// numbers of shards, which must not matter for claims.
func claimedElsewhere(f *fixture) {
	scope := f.name + "-term"
	for i, shards := range []int{1, 16, 37} {
		name := fmt.Sprintf("%s-class-%d", f.name, i)
		f.createNamed(name, itembank.Settings{Scope: scope, Shards: shards})
		_, err := f.bank().Load(f.ctx, name, itembank.Items("seat-1", "seat-2"), nil)
		f.Must(err)
	}
	b := f.bank()
	first, err := b.Claim(f.ctx, f.name+"-class-1", "ann")
	f.Must(err)
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
	f.Must(err)
	if !reflect.DeepEqual(again.Claim, first.Claim) {
		f.Errorf("want %+v, got %+v", first.Claim, again.Claim)
	}
}

func openAndClose(f *fixture) {
	start := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	f.create(itembank.Settings{OpensAt: start, ClosesAt: start.Add(time.Hour)})
	f.load(codes("code", 9)...)
	clock := itembankfault.NewClock()
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

	other := f.bank() // an operator overrides the times, and other Banks follow when their copies are too old
	f.Must(other.OpenCampaign(f.ctx, f.name))
	clock.Advance(itembank.DefaultCampaignCache)
	f.claim(b, "cid")
	f.Must(other.CloseCampaign(f.ctx, f.name))
	clock.Advance(itembank.DefaultCampaignCache - time.Millisecond)
	f.claim(b, "dan")
	clock.Advance(time.Millisecond)
	f.refused(b, "eve", itembank.ErrClosed)
	if err := b.OpenCampaign(f.ctx, f.name+"-other"); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want ErrNoCampaign, got %v", err)
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

// sentTwice is an engine that sends each take twice, like an SDK that lost the first reply and whose token does not
// protect the second request.
type sentTwice struct{ engine.Store }

func (s sentTwice) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if result, err := s.Store.Take(ctx, items, c); err != nil {
		return result, err
	}
	return s.Store.Take(ctx, items, c)
}

// takeSentTwice: a claim that an earlier attempt of the same request made is new, not a replay.
func takeSentTwice(f *fixture) {
	f.stocked(5, itembank.Settings{})
	b := itembank.NewOperator(sentTwice{f.Store})
	first := f.claim(b, "ann")
	again := f.claim(b, "ann")
	if first.Replayed || !again.Replayed || !reflect.DeepEqual(first.Claim, again.Claim) {
		f.Errorf("want a new claim and then its replay, got %+v and %+v", first, again)
	}
	f.wantCounts(engine.Counts{Loaded: 5, Free: 4, Claimed: 1})
}

// busyEngine: after a conflict the candidate is still free. After a throttle its page is read again. After a conflict on
// the claim, the claim is read. The number of waits is limited.
func busyEngine(f *fixture) {
	f.stocked(2, itembank.Settings{Shards: 1})
	busy := func(results ...engine.TakeResult) *itembankfault.Store {
		return &itembankfault.Store{Store: f.Store, TakeResults: results}
	}
	for i, test := range []struct {
		once engine.TakeResult
		want []string
	}{
		{engine.TakeResult{ItemConflict: true}, []string{"Take", "Take", "Take"}},
		{engine.TakeResult{ItemThrottled: true}, []string{"Take", "FreeItems", "Take", "FreeItems", "Take"}},
	} {
		once := test.once
		counted := busy(once, once)
		b := itembank.NewOperator(counted, itembank.WithClock(itembankfault.NewClock()))
		if grant := f.claim(b, fmt.Sprintf("claimant-%d", i)); grant.Replayed {
			f.Errorf("%+v: want a new claim, got %+v", once, grant)
		}
		f.wantCalls("the candidate is not gone", counted, append([]string{"Campaign", "FreeItems", "FreeItems"}, test.want...)...)
	}
	f.load("third", "fourth")

	var first itembank.Grant
	other := busy(engine.TakeResult{ClaimConflict: true, ItemGone: true})
	other.Before = func(method string) error {
		if method == "Take" { // the transaction that this one conflicts with
			first = f.claim(f.bank(), "ann")
		}
		return nil
	}
	if again := f.claim(itembank.NewOperator(other), "ann"); !reflect.DeepEqual(again.Claim, first.Claim) || !again.Replayed {
		f.Errorf("want the claim of the other request, %+v, got %+v", first.Claim, again)
	}
	f.wantCalls("a conflict on the claim", other, "Campaign", "FreeItems", "FreeItems", "Take", "HeldClaim")

	held := rowOf(first.Claim)
	for _, result := range []engine.TakeResult{
		{ItemConflict: true}, {ItemThrottled: true}, {ClaimConflict: true}, {ItemConflict: true, ItemThrottled: true},
	} {
		result.Held = &held // the claim exists, so it is the answer, whatever else failed
		counted := busy(result)
		if again := f.claim(itembank.NewOperator(counted), "ann"); !reflect.DeepEqual(again.Claim, first.Claim) {
			f.Errorf("%+v: want %+v, got %+v", result, first.Claim, again.Claim)
		}
		f.wantCalls("a claim that exists", counted, "Campaign", "FreeItems", "FreeItems", "Take")
	}

	always := busy(slices.Repeat([]engine.TakeResult{{ItemThrottled: true}}, 100)...)
	clock := itembankfault.NewClock()
	begin := clock.Now()
	f.refused(itembank.NewOperator(always, itembank.WithClock(clock)), "bob", itembank.ErrTryAgain)
	if waited := clock.Now().Sub(begin); waited == 0 || waited > 5*time.Second {
		f.Errorf("waited %s for an engine that stayed busy", waited)
	}
	hurried, cancel := context.WithTimeout(f.ctx, 1500*time.Millisecond)
	defer cancel()
	begin = clock.Now()
	_, err := itembank.NewOperator(always, itembank.WithClock(clock)).Claim(hurried, f.name, "bob")
	waited := clock.Now().Sub(begin)
	if !errors.Is(err, itembank.ErrTryAgain) || waited == 0 || waited > 310*time.Millisecond {
		f.Errorf("a request with 1.5 s: waited %s, and got %v", waited, err)
	}
	f.wantCounts(engine.Counts{Loaded: 4, Free: 1, Claimed: 3})
}

// holderAnswered: if a call about the bank fails, a holder still gets the claim. Other claimants get the failure.
func holderAnswered(f *fixture) {
	f.stocked(40, itembank.Settings{Shards: 4})
	held := f.claim(f.bank(), "ann")
	failed := errors.New("a failure of no family")
	for _, method := range []string{"Campaign", "FreeItems", "Take"} {
		for _, failure := range []error{engine.ErrThrottled, engine.ErrTryAgain, failed} {
			clock := itembankfault.NewClock()
			broken := f.counted()
			b := itembank.NewOperator(broken, itembank.WithClock(clock))
			f.claim(b, method+failure.Error()) // so that the Bank knows the rules
			clock.Advance(time.Minute)
			broken.Before = func(called string) error {
				if called == method {
					return failure
				}
				return nil
			}
			if grant, err := b.Claim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(grant.Claim, held.Claim) {
				f.Errorf("%s fails with %v: want ann's claim, got %+v, %v", method, failure, grant, err)
			}
			if grant, err := b.Claim(f.ctx, f.name, "bob"); !errors.Is(err, failure) {
				f.Errorf("%s: want %v for bob, got %+v, %v", method, failure, grant, err)
			}
		}
	}
}

// holderDoesNotWait: a holder gets the claim while the proof that the bank is empty is still running.
func holderDoesNotWait(f *fixture) {
	for _, onEnd := range []itembank.OnEnd{itembank.Burn, itembank.Return} {
		one := f.named(string(onEnd))
		one.stocked(1, itembank.Settings{Shards: 64, OnEnd: onEnd})
		held := one.claim(one.bank(), "ann")
		if grant := one.claimSoon(itembank.NewOperator(&endlessProof{Store: f.Store}), "ann"); !reflect.DeepEqual(grant.Claim, held.Claim) {
			f.Errorf("%s: want %+v, got %+v", onEnd, held.Claim, grant.Claim)
		}
	}
}

// endlessProof is an engine that answers only two reads of the bank, the two halves of one shard.
type endlessProof struct {
	engine.Store
	reads atomic.Int32
}

func (e *endlessProof) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if e.reads.Add(1) > 2 {
		<-ctx.Done()
		return engine.FreePage{}, ctx.Err()
	}
	return e.Store.FreeItems(ctx, s, r, limit, how)
}

// throttledReads: a request repeats the read of the rules, and the isolated read of the claim, while they are throttled.
// A holder whose rules are known does not wait for that.
func throttledReads(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 1})
	f.claim(f.bank(), "ann")
	for _, method := range []string{"Campaign", "HeldClaim"} {
		clock := itembankfault.NewClock()
		counted := f.counted()
		left := 0
		counted.Before = func(called string) error {
			if called != method || left == 0 {
				return nil
			}
			left--
			return engine.ErrThrottled
		}
		b := itembank.NewOperator(counted, itembank.WithClock(clock))
		left = 4
		if f.refused(b, "bob", itembank.ErrSoldOut); left > 0 {
			f.Errorf("%s: %d throttles are left", method, left)
		}
		clock.Advance(time.Minute)
		left = 4
		if grant := f.claim(b, "ann"); !grant.Replayed || left != 3 && method == "Campaign" {
			f.Errorf("%s: want ann's claim after one throttle, got %+v, and %d are left", method, grant, left)
		}
	}
}

// throttledShard: a claim whose item is in a throttled shard, or whose page cannot be read, takes an item of another
// shard.
func throttledShard(f *fixture) {
	const banks, claims = 20, 4 // half of the Banks try the throttled shard first
	c, _ := f.stocked(2*2*2*banks*claims, itembank.Settings{Shards: 2})
	for _, method := range []string{"Take", "FreeItems"} {
		hot := &hotShard{Store: f.Store, method: method, shard: 1}
		clock := itembankfault.NewClock()
		begin := clock.Now()
		for n := range banks {
			b := itembank.NewOperator(hot, itembank.WithClock(clock))
			for i := range claims {
				grant := f.claim(b, fmt.Sprintf("%s-%d-%d", method, n, i))
				if shard := engine.HashItem(grant.Claim.Items[0]).ShardOf(c.Shards); shard == hot.shard {
					f.Fatalf("%s: got an item of the throttled shard", method)
				}
			}
		}
		if tried := hot.refused.Load(); tried == 0 || tried > 2*banks {
			f.Errorf("%s: the throttled shard was tried %d times", method, tried)
		}
		if waited := clock.Now().Sub(begin); waited > time.Second {
			f.Errorf("%s: waited %s in all", method, waited)
		}
	}
}

// hotShard is an engine that throttles one shard.
type hotShard struct {
	engine.Store
	method  string
	shard   int
	refused atomic.Int32
}

func (h *hotShard) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if h.method == "Take" && items[0].Shard.Number == h.shard {
		h.refused.Add(1)
		return engine.TakeResult{ItemThrottled: true}, nil
	}
	return h.Store.Take(ctx, items, c)
}

func (h *hotShard) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	if h.method == "FreeItems" && s.Number == h.shard {
		h.refused.Add(1)
		return engine.FreePage{}, engine.ErrThrottled
	}
	return h.Store.FreeItems(ctx, s, r, limit, how)
}
