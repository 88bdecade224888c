package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var dueCases = []testCase{
	{"one-bad-shard-of-the-index", oneBadIndexShard},
	{"sold-out-bank-gets-what-is-due", soldOutGetsDue},
	{"sweep", sweepOfDue},
	{"claims-that-are-not-in-the-index", notInIndex},
	{"inconsistencies-do-not-starve-the-rest", inconsistenciesDoNotStarve},
	{"nothing-ends", nothingEnds},
	{"claim-that-goes-with-its-item", goneWithItsItem},
	{"sweep-that-is-cut", dueSweepCut},
	{"a-few", fewDue},
	{"a-few-at-random", fewAtRandom},
	{"a-few-after-many-inconsistencies", fewAfterInconsistencies},
	{"a-few-that-are-busy", fewBusy},
	{"a-few-on-a-slow-engine", fewOnSlowEngine},
}

// sweepOfDue: SweepDue closes the same claims as Sweep, but reads only the due claims, and leaves free items alone.
func sweepOfDue(f *fixture) {
	for onEnd, test := range map[itembank.OnEnd]struct {
		report itembank.SweepReport
		after  itembank.Counts
	}{
		itembank.Burn:   {itembank.SweepReport{Expired: 3}, itembank.Counts{Loaded: 9, Free: 5, Claimed: 1, Ended: 3}},
		itembank.Return: {itembank.SweepReport{Returned: 3}, itembank.Counts{Loaded: 9, Free: 8, Claimed: 1}},
	} {
		one := f.named(string(onEnd))
		c, clock := one.sweepable(onEnd)
		counted := f.counted()
		b := itembank.NewOperator(counted, itembank.WithClock(clock))
		reported := f.progress(func(p itembank.Progress) {
			if got, err := b.SweepDue(f.ctx, one.name, p); err != nil || got != test.report {
				f.Errorf("%s: want %+v, got %+v, %v", onEnd, test.report, got, err)
			}
		})
		if !slices.Equal(reported, []int64{1, 2, 3}) {
			f.Errorf("%s: want a progress of the three claims that are due, got %v", onEnd, reported)
		}
		if calls := counted.Calls(); slices.Contains(calls, "ListClaims") || slices.Contains(calls, "FreeItems") {
			f.Errorf("it read more than the due claims: %v", calls)
		}
		one.wantCounts(engine.Counts(test.after))
		one.WantWhere("held by new-00003", c, "new-00003", "new-00003")
	}
}

// notInIndex: Sweep reads the claims themselves, and closes those that the index lacks.
func notInIndex(f *fixture) {
	c, _ := f.stocked(1, holds)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	hold := f.claim(b, "ann").Claim
	f.putClaim(rowOf(hold)) // without an entry
	clock.SetTo(hold.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{})
	f.WantWhere("held by ann", c, hold.Items[0], "ann")
	f.swept(b, itembank.SweepReport{Returned: 1})
}

// inconsistenciesDoNotStarve: claims whose rows contradict each other are skipped and reported.
func inconsistenciesDoNotStarve(f *fixture) {
	_, clock, wrong := f.withInconsistencies()
	for _, want := range []itembank.SweepReport{{Returned: 6}, {}} {
		report, err := f.bank(itembank.WithClock(clock)).SweepDue(f.ctx, f.name, nil)
		if report != want || !errors.Is(err, itembank.ErrInconsistent) || !strings.Contains(err.Error(), fmt.Sprintf(": %d\n", len(wrong))) {
			f.Errorf("want %+v and %d inconsistencies, got %+v, %v", want, len(wrong), report, err)
		}
	}
}

// goingStore is an engine on which a claim and the row of its item are deleted just before the item row is read.
type goingStore struct {
	engine.Store
	delete func()
}

func (s *goingStore) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	s.delete()
	return s.Store.ItemRow(ctx, campaign, h)
}

// goneWithItsItem: a scratch campaign is deleted while it is swept. That is no inconsistency, because the claim is gone
// too.
func goneWithItsItem(f *fixture) {
	c, _ := f.stocked(1, holds)
	clock := itembankfault.NewClock()
	hold := f.claim(f.bank(itembank.WithClock(clock)), "ann").Claim
	clock.SetTo(hold.EndsAt.Add(endGrace + time.Millisecond))
	going := &goingStore{f.Store, func() {
		f.Must(f.raw.DropClaim(f.ctx, rowOf(hold).Key()))
		f.dropItemRow(c, hold.Items[0])
	}}
	f.sweptDue(itembank.NewOperator(going, itembank.WithClock(clock)), itembank.SweepReport{})
}

// TestPagesOfDueClaims: a sweep closes more claims than a page has, some of them with the same end, and looks at each
// of them once.
func TestPagesOfDueClaims(t *testing.T) {
	t.Parallel()
	f := inMemory(t)
	const n = 2100
	c, items := f.stocked(n, holds)
	clock := itembankfault.NewClock()
	end := clock.Now().UTC().Truncate(time.Millisecond)
	for i, item := range items {
		f.TakeUntil(c, item, item, end.Add(time.Duration(i/50)*time.Millisecond))
	}
	for _, item := range items[:10] { // at the head of the index
		f.dropItemRow(c, item)
	}
	clock.Advance(time.Hour)
	var looked int64
	report, err := f.bank(itembank.WithClock(clock)).SweepDue(f.ctx, f.name, func(done, _ int64) { looked = done })
	if !errors.Is(err, itembank.ErrInconsistent) || report.Returned != n-10 || looked != n {
		f.Errorf("want %d of %d returned and each looked at once, got %+v, %d looked at, %v", n-10, n, report, looked, err)
	}
}

// nothingEnds: if claims have no end, nothing is read.
func nothingEnds(f *fixture) {
	f.stocked(1, itembank.Settings{OnEnd: itembank.Return})
	counted := f.counted()
	f.sweptDue(itembank.NewOperator(counted), itembank.SweepReport{})
	f.wantCalls("a sweep of claims without an end", counted, "Campaign")
	for name, want := range map[string]error{"No-Such": itembank.ErrInvalid, f.name + "-none": itembank.ErrNoCampaign} {
		if _, err := f.bank().SweepDue(f.ctx, name, nil); !errors.Is(err, want) {
			f.Errorf("%s: want %v, got %v", name, want, err)
		}
	}
}

// dueSweepCut: a sweep that is interrupted again and again still reaches all shards, because it begins with a random
// one.
func dueSweepCut(f *fixture) {
	s := holds
	s.Shards = 4
	c, items := f.stocked(40, s)
	clock := itembankfault.NewClock()
	end := clock.Now().UTC().Truncate(time.Millisecond)
	for _, item := range items {
		f.TakeUntil(c, item, item, end)
	}
	clock.Advance(time.Minute)
	for range 200 {
		if _, err := itembank.NewOperator(f.cutAt(2, false, "DueClaims"), itembank.WithClock(clock)).SweepDue(f.ctx, f.name, nil); !errors.Is(err, errCut) {
			f.Fatalf("want it cut, got %v", err)
		}
	}
	f.wantCounts(engine.Counts{Loaded: 40, Free: 40})
	for n := range s.Shards {
		if !slices.ContainsFunc(items, func(i string) bool { return enginerows.FreeItem(c, i).Shard.Number == n }) {
			f.Errorf("shard %d has no item", n)
		}
	}
}

// heldUntilNow creates a campaign in which n holds ended a minute ago, one after the other.
func (f *fixture) heldUntilNow(n int) (c engine.Campaign, items []string, clock *itembankfault.Clock) {
	f.Helper()
	c, items = f.stocked(n, holds)
	clock = itembankfault.NewClock()
	end := clock.Now().UTC().Truncate(time.Millisecond)
	for i, item := range items {
		f.TakeUntil(c, item, item, end.Add(time.Duration(i)*time.Millisecond))
	}
	clock.Advance(time.Minute)
	return c, items, clock
}

// closeDue closes a few due claims.
func (f *fixture) closeDue(store engine.Store, clock *itembankfault.Clock) (closed int, err error) {
	f.Helper()
	b := itembank.NewOperator(store, itembank.WithClock(clock))
	c, err := b.Campaign(f.ctx, f.name)
	f.Must(err)
	return itembank.CloseDue(b.Bank, f.ctx, c, clock.Now())
}

// fewDue: if many claims are due, closeDue closes eight of them, with at most two reads of the index. Another Bank
// closes others.
func fewDue(f *fixture) {
	_, _, clock := f.heldUntilNow(200)
	const few = 8
	for n := 1; n <= 5; n++ {
		counted := f.counted()
		closed, err := f.closeDue(counted, clock)
		if err != nil || closed != few {
			f.Errorf("want %d closed, got %d, %v", few, closed, err)
		}
		reads := 0
		for _, method := range counted.Calls() {
			if method == "DueClaims" {
				reads++
			}
		}
		if reads > 2 {
			f.Errorf("want at most 2 reads of the index, got %d", reads)
		}
		f.wantCounts(engine.Counts{Loaded: 200, Free: int64(n * few), Claimed: int64(200 - n*few)})
	}
	early := itembankfault.NewClock()
	early.Advance(-time.Minute)
	if closed, err := f.closeDue(f.Store, early); err != nil || closed != 0 {
		f.Errorf("before the ends: want none closed, got %d, %v", closed, err)
	}
	none := f.named("none")
	none.stocked(1, itembank.Settings{})
	counted := f.counted()
	if closed, err := none.closeDue(counted, clock); err != nil || closed != 0 {
		f.Errorf("where claims have no end: want none closed, got %d, %v", closed, err)
	}
	f.wantCalls("where claims have no end", counted, "Campaign")
}

// busyClaims is an engine on which all claims are busy. It records the claims that a Bank tries to close.
type busyClaims struct {
	engine.Store
	lookedAt []string
}

func (b *busyClaims) CloseClaim(_ context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	b.lookedAt = append(b.lookedAt, r.Claim.Claimant)
	return engine.CloseResult{Conflict: true}, nil
}

// fewAtRandom: two Banks that close due claims at the same moment choose different ones.
func fewAtRandom(f *fixture) {
	for _, n := range []int{40, 200} { // fewer and more than one read of the index
		one := f.named(fmt.Sprint(n))
		_, _, clock := one.heldUntilNow(n)
		first, second := &busyClaims{Store: f.Store}, &busyClaims{Store: f.Store}
		for _, store := range []*busyClaims{first, second} {
			if closed, err := one.closeDue(store, clock); err != nil || closed != 0 || len(store.lookedAt) == 0 {
				f.Errorf("want claims looked at and none closed, got %d, %d closed, %v", len(store.lookedAt), closed, err)
			}
			slices.Sort(store.lookedAt)
		}
		if slices.Equal(first.lookedAt, second.lookedAt) {
			f.Errorf("of %d claims two Banks chose the same: %v", n, first.lookedAt)
		}
	}
}

// fewAfterInconsistencies: claims at the head of the index that cannot be closed do not prevent that others are.
func fewAfterInconsistencies(f *fixture) {
	const wrong, right = 100, 20
	c, items, clock := f.heldUntilNow(wrong + right)
	for _, item := range items[:wrong] {
		f.dropItemRow(c, item)
	}
	total := 0
	for tries := 0; total < right && tries < 1000; tries++ {
		closed, err := f.closeDue(f.Store, clock)
		f.Must(err)
		total += closed
	}
	if total != right {
		f.Errorf("want %d closed in the end, got %d", right, total)
	}
}

// fewBusy: closeDue skips claims that another transaction is working on, without a wait. A failure of the store is an
// error.
func fewBusy(f *fixture) {
	_, _, clock := f.heldUntilNow(4)
	before := clock.Now()
	busy := &itembankfault.Store{Store: f.Store, CloseResults: []engine.CloseResult{{Conflict: true}, {Throttled: true}, {ClaimChanged: true}}}
	if closed, err := f.closeDue(busy, clock); err != nil || closed != 1 || !clock.Now().Equal(before) {
		f.Errorf("want 1 closed of 4 at once, got %d after %s, %v", closed, clock.Now().Sub(before), err)
	}
	f.wantCounts(engine.Counts{Loaded: 4, Free: 1, Claimed: 3})
	for _, method := range []string{"DueClaims", "HeldClaimEventuallyConsistent", "ItemRow", "CloseClaim"} {
		if _, err := f.closeDue(f.cutAt(1, false, method), clock); !errors.Is(err, errCut) {
			f.Errorf("%s failed: want %v, got %v", method, errCut, err)
		}
	}
}

// fewOnSlowEngine: a customer waits for closeDue. Once it has closed one claim, it begins no other one later than a
// tenth of a second after its start.
func fewOnSlowEngine(f *fixture) {
	_, _, clock := f.heldUntilNow(20)
	slow := &itembankfault.Store{Store: f.Store, Before: func(string) error {
		clock.Advance(30 * time.Millisecond)
		return nil
	}}
	if closed, err := f.closeDue(slow, clock); err != nil || closed != 1 {
		f.Errorf("want 1 closed, got %d, %v", closed, err)
	}
}

// soldOutGetsDue: a request that finds the bank empty closes claims that are due, and gets one of their items. A Bank
// looks for due claims once a second.
func soldOutGetsDue(f *fixture) {
	_, items := f.stocked(1, itembank.Settings{Shards: 16, Hold: time.Minute})
	clock, counted := itembankfault.NewClock(), f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	first := f.claim(b, "ann")
	f.refused(b, "bob", itembank.ErrSoldOut)
	sought := func() (n int) {
		for _, call := range counted.Calls() {
			if call == "DueClaims" {
				n++
			}
		}
		return n
	}
	if n := sought(); n != 16 {
		f.Errorf("want the index of 16 shards read, got %d", n)
	}
	f.refused(b, "bob", itembank.ErrSoldOut)
	if n := sought(); n != 0 {
		f.Errorf("within a second: want no read of the index, got %d", n)
	}
	clock.SetTo(first.Claim.EndsAt.Add(endGrace))
	f.refused(b, "bob", itembank.ErrSoldOut) // the grace is not over
	clock.Advance(time.Second)
	counted.Before = func(method string) error {
		if method == "DueClaims" {
			return engine.ErrThrottled
		}
		return nil
	}
	f.refused(b, "bob", itembank.ErrSoldOut) // the index cannot be read, but bob still gets an answer
	counted.Before = nil
	clock.Advance(time.Second)
	if grant := f.claim(b, "bob"); grant.Claim.Items[0] != items[0] {
		f.Errorf("want ann's item, got %+v", grant)
	}
}

// oneBadIndexShard: if one shard of the index cannot be read, only its own claims are missed.
func oneBadIndexShard(f *fixture) {
	clock := itembankfault.NewClock()
	f.stocked(40, itembank.Settings{Hold: time.Minute})
	for _, claimant := range codes("holder", 40) {
		f.claim(f.bank(itembank.WithClock(clock)), claimant)
	}
	clock.Advance(5 * time.Minute)
	bad := badIndexShard{f.Store, engine.HashItem("code-00000").ShardOf(16)}
	b := itembank.NewOperator(bad, itembank.WithClock(clock))
	f.claim(b, "late")
	report, err := b.SweepDue(f.ctx, f.name, nil)
	if !errors.Is(err, engine.ErrThrottled) {
		f.Errorf("want %v, got %v", engine.ErrThrottled, err)
	}
	counts, err := b.Counts(f.ctx, f.name)
	inBadShard := int64(0)
	for _, item := range codes("code", 40) {
		if engine.HashItem(item).ShardOf(16) == bad.number {
			inBadShard++
		}
	}
	if f.Must(err); counts.Claimed != inBadShard+1 {
		f.Errorf("want the %d claims of the bad shard left, and one more; got %+v, %+v", inBadShard, counts, report)
	}
}

// badIndexShard is an engine that cannot read the index of one shard.
type badIndexShard struct {
	engine.Store
	number int
}

func (b badIndexShard) DueClaims(
	ctx context.Context, s engine.Shard, after, before time.Time, limit int,
) (engine.DuePage, error) {
	if s.Number == b.number {
		return engine.DuePage{}, engine.ErrThrottled
	}
	return b.Store.DueClaims(ctx, s, after, before, limit)
}

// manyHolds makes a campaign whose n holds have ended, and returns a clock of now.
func manyHolds(f *fixture, n, shards int) *itembankfault.Clock {
	f.Helper()
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	_, _, err := b.CreateCampaign(f.ctx, f.name, itembank.Settings{Hold: time.Minute, Shards: shards})
	f.Must(err)
	f.loadAt(clock, codes("seat", n)...)
	for i := range n {
		f.claim(b, fmt.Sprint("customer-", i))
		clock.Advance(time.Millisecond)
	}
	clock.Advance(2 * time.Minute)
	return clock
}

// TestSweepKeepsUp: at 5,000 claims a second of which a third is not paid, 1,700 holds a second come due. If each request
// takes 5 ms, a sweep closes more. In one shard it closes 8 at a time, because its partition takes no more beside claims.
func TestSweepKeepsUp(t *testing.T) {
	t.Parallel()
	for shards, atLeast := range map[int]float64{80: 1700, 1: 500} {
		synctest.Test(t, func(t *testing.T) {
			f := inMemory(t)
			clock := manyHolds(f, 1700, shards)
			slow := &itembankfault.Store{Store: f.Store, Before: func(string) error {
				time.Sleep(5 * time.Millisecond) // on the clock of synctest
				return nil
			}}
			begun := time.Now()
			report, err := itembank.NewOperator(slow, itembank.WithClock(clock)).SweepDue(f.ctx, f.name, nil)
			f.Must(err)
			if rate := 1700 / time.Since(begun).Seconds(); report.Returned != 1700 || rate < atLeast {
				t.Errorf("with %d shards the sweep returned %d seats, %.0f a second", shards, report.Returned, rate)
			}
		})
	}
}

// throttling is an engine that throttles all closes for a time, on the clock of synctest. A close takes 5 ms.
type throttling struct {
	engine.Store
	from, until  time.Time
	mu           sync.Mutex
	atWork, most int // closes at the same time, in the second half of the time
}

func (s *throttling) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	now := time.Now()
	counts := now.After(s.from.Add(s.until.Sub(s.from)/2)) && now.Before(s.until)
	s.mu.Lock()
	if s.atWork++; counts {
		s.most = max(s.most, s.atWork)
	}
	s.mu.Unlock()
	time.Sleep(5 * time.Millisecond) // on the clock of synctest
	s.mu.Lock()
	s.atWork--
	s.mu.Unlock()
	if now.Before(s.until) {
		return engine.CloseResult{Throttled: true}, nil
	}
	return s.Store.CloseClaim(ctx, r)
}

// TestSweepGivesWay: while closes are throttled, a sweep tries one at a time, so that claims get the capacity. It waits,
// and closes all of them later.
func TestSweepGivesWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		clock := manyHolds(f, 1700, 80)
		busy := &throttling{Store: f.Store, from: time.Now(), until: time.Now().Add(2 * time.Second)}
		report, err := itembank.NewOperator(busy, itembank.WithClock(sweepClock{clock})).SweepDue(f.ctx, f.name, nil)
		if err != nil || report.Returned != 1700 || busy.most != 1 {
			t.Errorf("the sweep returned %d seats, %v; while it was throttled it tried %d closes at a time", report.Returned, err, busy.most)
		}
	})
}

// TestSweepAfterThrottledReads: a sweep that is throttled in one of its reads tries again, and closes all claims.
func TestSweepAfterThrottledReads(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Campaign", "DueClaims", "HeldClaimEventuallyConsistent", "ItemRow"} {
		synctest.Test(t, func(t *testing.T) {
			f := inMemory(t)
			clock := manyHolds(f, 100, 4)
			var calls atomic.Int64
			store := &itembankfault.Store{Store: f.Store, Before: func(called string) error {
				if called == method && calls.Add(1)%5 == 2 {
					return engine.ErrThrottled
				}
				return nil
			}}
			b := itembank.NewOperator(store, itembank.WithClock(sweepClock{clock}), itembank.WithCampaignCache(0))
			report, err := b.SweepDue(f.ctx, f.name, nil)
			if err != nil || report.Returned != 100 || calls.Load() < 2 {
				t.Errorf("%s throttled in one of five calls: returned %d of 100, %v", method, report.Returned, err)
			}
		})
	}
}

// sweepClock has the time of a clock, and sleeps on that of synctest.
type sweepClock struct{ *itembankfault.Clock }

func (sweepClock) Sleep(_ context.Context, d time.Duration) error {
	time.Sleep(d)
	return nil
}
