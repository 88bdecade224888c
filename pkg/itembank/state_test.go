package itembank_test

import (
	"errors"
	"time"

	"github.com/oncebox/oncebox/internal/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
)

var stateCases = []testCase{
	{"each-state", eachState},
	{"state-is-remembered-from-the-begin-of-the-read", stateRememberedFromTheRead},
	{"state-of-an-old-copy-of-the-rules", stateOfOldRules},
}

func eachState(f *fixture) {
	f.create(itembank.Settings{Shards: 4, OpensAt: time.Now().Add(time.Hour)})
	clock := itembankfault.NewClock()
	counted := f.counted()
	b := itembank.New(counted, itembank.WithClock(clock))
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
	b := itembank.New(f.slow(clock, 900*time.Millisecond), itembank.WithClock(clock))
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
