package itembank_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var stateCases = []testCase{
	{"each-state", eachState},
	{"state-is-remembered-from-the-begin-of-the-read", stateRememberedFromTheRead},
	{"state-of-an-old-copy-of-the-rules", stateOfOldRules},
	{"free-item-is-remembered-for-a-second", freeItemRemembered},
}

func eachState(f *fixture) {
	f.create(itembank.Settings{Shards: 4, OpensAt: time.Now().Add(time.Hour)})
	clock := itembankfault.NewClock()
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	f.wantState(b, itembank.Scheduled)
	f.Must(b.OpenCampaign(f.ctx, f.name))
	f.wantState(b, itembank.Empty)
	counted.Calls()
	f.wantState(b, itembank.Empty)
	if calls := counted.Calls(); len(calls) != 0 {
		f.Errorf("remembered state: want no calls, got %v", calls)
	}
	f.load("one")
	clock.Advance(time.Second)
	counted.Calls()
	f.wantState(b, itembank.Open)
	if calls := counted.Calls(); len(calls) > 4 {
		f.Errorf("want at most one read a shard, got %v", calls)
	}
	f.claim(b, "ann")
	f.wantState(b, itembank.SoldOut)
	counted.Calls()
	clock.Advance(time.Minute)
	f.wantState(b, itembank.SoldOut)
	f.wantCalls("a campaign that is known to have loads", counted, "Campaign", "FreeItems", "FreeItems", "FreeItems", "FreeItems", "Campaign", "Loads", "MarkEmpty")
	clock.Advance(time.Minute)
	f.wantState(b, itembank.SoldOut)
	f.wantCalls("a campaign whose row says that it is sold out", counted, "Campaign")
	f.Must(b.CloseCampaign(f.ctx, f.name))
	f.wantState(b, itembank.Closed)
	if _, _, err := b.State(f.ctx, f.name+"-other"); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want no such campaign, got %v", err)
	}
}

// stateRememberedFromTheRead: as for claims, the result of a read is as old as the start of the read.
func stateRememberedFromTheRead(f *fixture) {
	f.create(itembank.Settings{Shards: 1})
	clock := itembankfault.NewClock()
	b := itembank.NewOperator(f.slow(clock, 900*time.Millisecond), itembank.WithClock(clock))
	f.wantState(b, itembank.Empty)
	f.load("late")
	clock.Advance(100 * time.Millisecond)
	f.wantState(b, itembank.Open)
}

func stateOfOldRules(f *fixture) {
	f.create(itembank.Settings{})
	b := f.bank(itembank.WithCampaignCache(time.Hour))
	_, err := b.Campaign(f.ctx, f.name)
	f.Must(err)
	f.Must(f.bank().CloseCampaign(f.ctx, f.name))
	f.wantState(b, itembank.Closed)
}

// freeItemRemembered: a state costs no request while the Bank saw a free item less than a second ago, and other Banks
// may have taken it. The claims of the Bank use what a state has read, and the Bank knows what they took.
func freeItemRemembered(f *fixture) {
	f.stocked(2, itembank.Settings{Shards: 1})
	clock := itembankfault.NewClock()
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	f.wantState(b, itembank.Open)
	counted.Calls()
	f.claim(b, "ann")
	f.wantCalls("a claim after a state", counted, "Take")
	other := f.bank()
	f.claim(other, "bob")
	clock.Advance(999 * time.Millisecond)
	f.wantState(b, itembank.Open)
	f.wantCalls("a state", counted)
	clock.Advance(time.Millisecond)
	f.wantState(b, itembank.SoldOut)

	f.load("late")
	clock.Advance(time.Minute)
	f.wantState(b, itembank.Open)
	f.claim(b, "carol")
	f.wantState(b, itembank.SoldOut)
}

// stateReads starts many calls of State beside a claim, in a server whose reads of the bank take a time, and returns how
// many of them were answered before the claim.
func stateReads(t *testing.T, read func() error) (before, reads int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := inMemory(t)
		f.stocked(1000, itembank.Settings{})
		slow := &itembankfault.Store{Store: f.Store, Before: func(method string) error {
			if method != "FreeItems" {
				return nil
			}
			time.Sleep(5 * time.Millisecond) // on the clock of synctest
			return read()
		}}
		b := itembank.NewOperator(slow)
		var mu sync.Mutex
		var all sync.WaitGroup
		answered := 0
		for range 400 {
			all.Go(func() {
				_, _, _ = b.State(f.ctx, f.name)
				mu.Lock()
				defer mu.Unlock()
				answered++
			})
		}
		synctest.Wait() // one of them reads, the others wait
		_, _ = b.Claim(f.ctx, f.name, "ann")
		mu.Lock()
		before = answered
		mu.Unlock()
		for _, call := range slow.Calls() {
			if call == "FreeItems" {
				reads++
			}
		}
		all.Wait()
	})
	return before, reads
}

// TestStatesDoNotStarveClaims: however many callers ask for the state, a claim waits for one of their reads at most, also
// if reads fail. While items are free, one page answers all callers and the claim. A page is one or two requests.
func TestStatesDoNotStarveClaims(t *testing.T) {
	t.Parallel()
	if _, reads := stateReads(t, func() error { return nil }); reads > 2 {
		t.Errorf("the callers and the claim made %d reads", reads)
	}
	if before, _ := stateReads(t, func() error { return engine.ErrThrottled }); before > 2 {
		t.Errorf("%d callers whose reads failed were answered before the claim", before)
	}
}
