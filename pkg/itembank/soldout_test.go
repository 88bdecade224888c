package itembank_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var soldOutCases = []testCase{
	{"row-says-sold-out", rowSaysSoldOut},
	{"row-is-asked-during-the-proof", rowIsAskedDuringProof},
	{"row-is-asked-seldom", rowIsAskedSeldom},
	{"some-cold-banks-prove-early", someProveEarly},
	{"row-is-believed-for-five-seconds", rowIsBelieved},
	{"load-waits-until-nobody-believes-the-row", loadWaits},
	{"row-is-not-written-while-a-load-is-unfinished", notMarkedDuringLoad},
	{"row-is-not-written-before-the-first-load", notMarkedWithoutLoads},
	{"items-that-return-are-not-in-the-row", notMarkedWhereItemsReturn},
}

// marked reports whether the campaign row says that the bank is empty.
func (f *fixture) marked() bool {
	f.Helper()
	c, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	return c.EmptyVersion == c.Version && c.Version > 0
}

// rowSaysSoldOut: one Bank proves that the bank is empty. Other Banks read only the campaign and the claim.
func rowSaysSoldOut(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 64})
	clock := itembankfault.NewClock()
	f.claim(f.bank(itembank.WithClock(clock)), "ann")
	f.refused(f.bank(itembank.WithClock(clock)), "bob", itembank.ErrSoldOut)
	other := f.counted()
	b := itembank.NewOperator(other, itembank.WithClock(clock))
	f.refused(b, "cid", itembank.ErrSoldOut)
	f.wantCalls("the first sold out of another Bank", other, "Campaign", "HeldClaim")
	f.refused(b, "dan", itembank.ErrSoldOut)
	f.wantCalls("the next one", other, "HeldClaim")
	clock.Advance(5 * time.Second)
	f.refused(b, "eve", itembank.ErrSoldOut)
	f.wantCalls("after five seconds", other, "Campaign", "HeldClaim")
	if again := f.claim(b, "ann"); !again.Replayed {
		f.Errorf("want ann's claim, got %+v", again)
	}
	f.wantState(b, itembank.SoldOut)
	if slices.Contains(other.Calls(), "FreeItems") {
		f.Error("the bank was read")
	}
}

// rowIsAskedDuringProof: a search of a bank with many shards reads the row again between its reads, some time after the
// last read of the row. If the row says by then that the bank is empty, the search ends.
func rowIsAskedDuringProof(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 64})
	f.claim(f.bank(), "ann")
	clock := itembankfault.NewClock()
	counted := &itembankfault.Store{Store: &markedMeanwhile{Store: f.Store}}
	counted.After = func(method string) error {
		if method == "FreeItems" {
			clock.Advance(400 * time.Millisecond)
		}
		return nil
	}
	f.refused(itembank.NewOperator(counted, itembank.WithClock(clock)), "bob", itembank.ErrSoldOut)
	reads := 0
	for _, method := range counted.Calls() {
		if method == "FreeItems" {
			reads++
		}
	}
	if reads == 0 || reads > 2 { // both halves of one shard
		f.Errorf("want one shard read, got %d reads", reads)
	}
}

// markedMeanwhile is an engine on which another container finds the bank empty after the row was first read.
type markedMeanwhile struct {
	engine.Store
	reads atomic.Int32
}

func (m *markedMeanwhile) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	c, err := m.Store.Campaign(ctx, name)
	if err == nil && m.reads.Add(1) > 1 {
		c.EmptyVersion = c.Version
	}
	return c, err
}

// rowIsBelieved: a copy of the row is believed for five seconds, even if the rules are cached longer.
func rowIsBelieved(f *fixture) {
	f.stocked(1, itembank.Settings{})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	f.claim(b, "ann")
	f.refused(b, "bob", itembank.ErrSoldOut)
	_, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Load(f.ctx, f.name, itembank.Items("new"), nil)
	f.Must(err)
	f.refused(b, "cid", itembank.ErrSoldOut) // time does not pass on this clock
	clock.Advance(5 * time.Second)
	if grant := f.claim(b, "dan"); grant.Claim.Items[0] != "new" {
		f.Errorf("want the new item, got %+v", grant)
	}
}

// loadWaits: if the campaign was sold out before, a load waits more than five seconds between announcing its items and
// adding the first of them.
func loadWaits(f *fixture) {
	f.stocked(1, itembank.Settings{})
	clock := itembankfault.NewClock()
	waited := func(item string) time.Duration {
		announced, added := time.Time{}, time.Time{}
		store := &itembankfault.Store{Store: f.Store,
			After: func(method string) error {
				if method == "NextVersion" && announced.IsZero() {
					announced = clock.Now()
				}
				return nil
			},
			Before: func(method string) error {
				if method == "AddItems" && added.IsZero() {
					added = clock.Now()
				}
				return nil
			},
		}
		_, err := itembank.NewOperator(store, itembank.WithClock(clock)).Load(f.ctx, f.name, itembank.Items(item), nil)
		f.Must(err)
		return added.Sub(announced)
	}
	if d := waited("second"); d != 0 {
		f.Errorf("a campaign with items: the load waited %s", d)
	}
	b := f.bank(itembank.WithClock(clock))
	f.claim(b, "ann")
	f.claim(b, "bob")
	f.refused(b, "cid", itembank.ErrSoldOut)
	if !f.marked() {
		f.Error("the row does not say that the bank is empty")
	}
	if d := waited("third"); d <= 5*time.Second {
		f.Errorf("a sold-out campaign: the load waited %s", d)
	}
	if f.marked() {
		f.Error("the row still says that the bank is empty")
	}
}

// notMarkedDuringLoad: a load stopped after it had announced its items, and may be resumed at any time.
func notMarkedDuringLoad(f *fixture) {
	f.create(itembank.Settings{})
	_, err := itembank.NewOperator(f.cutAt(1, false, "AddItems")).Load(f.ctx, f.name, itembank.Items("new"), nil)
	if !errors.Is(err, errCut) {
		f.Fatal(err)
	}
	f.refused(f.bank(), "ann", itembank.ErrSoldOut)
	if f.marked() {
		f.Error("the row says that the bank is empty, and a load is unfinished")
	}
	f.load("new")
	f.claim(f.bank(), "ann")
}

// notMarkedWithoutLoads: before the first load a campaign is not marked as empty, so that this load does not wait.
func notMarkedWithoutLoads(f *fixture) {
	f.create(itembank.Settings{})
	f.Must(f.bank().OpenCampaign(f.ctx, f.name))
	f.refused(f.bank(), "ann", itembank.ErrSoldOut)
	if f.marked() {
		f.Error("the row says that the bank is empty, and nothing was ever loaded")
	}
}

func notMarkedWhereItemsReturn(f *fixture) {
	f.stocked(1, itembank.Settings{OnEnd: itembank.Return})
	f.claim(f.bank(), "ann")
	f.refused(f.bank(), "bob", itembank.ErrSoldOut)
	if f.marked() {
		f.Error("the row says that the bank is empty, and items can return to it")
	}
}

// halfAdded is an engine on which the transaction that added an item is visible in part, until another transaction
// works on its rows.
type halfAdded struct {
	engine.Store
	item   string
	hidden atomic.Bool
}

func (h *halfAdded) FreeItems(
	ctx context.Context, s engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	page, err := h.Store.FreeItems(ctx, s, r, limit, how)
	if h.hidden.Load() {
		page.Items = slices.DeleteFunc(page.Items, func(i engine.FreeItem) bool { return i.Value == h.item })
	}
	return page, err
}

func (h *halfAdded) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	if h.hidden.CompareAndSwap(true, false) {
		return make([]engine.AddResult, len(requests)), nil
	}
	return h.Store.AddItems(ctx, requests)
}

// rowIsAskedSeldom: a search reads the row again only some time after the last read of the row. Here the clock stands
// still but for one leap.
func rowIsAskedSeldom(f *fixture) {
	f.stocked(1, itembank.Settings{Shards: 64})
	f.claim(f.bank(), "ann")
	clock, counted := itembankfault.NewClock(), f.counted()
	var shardReads, rowReads atomic.Int32
	counted.After = func(method string) error {
		switch {
		case method == "Campaign":
			rowReads.Add(1)
		case method == "FreeItems" && shardReads.Add(1) == 4: // there are more than 64
			clock.Advance(400 * time.Millisecond)
		}
		return nil
	}
	f.refused(itembank.NewOperator(counted, itembank.WithClock(clock)), "bob", itembank.ErrSoldOut)
	if n := rowReads.Load(); n != 3 {
		f.Errorf("want three reads of the row, before the proof, after the leap and after the proof, got %d", n)
	}
}

// someProveEarly: after its first shard, which is empty, a cold Bank reads one more, or at random all others at a time.
func someProveEarly(f *fixture) {
	f.create(itembank.Settings{Shards: 16})
	for _, test := range []struct {
		random byte // all that the random source gives
		early  bool
		wait   time.Duration // for a second read beside the first of the second round
	}{{0, true, 10 * time.Second}, {255, false, 20 * time.Millisecond}} {
		counted := f.counted()
		const ofFirstShard = 2 // its two halves
		var reads atomic.Int32
		beside := make(chan struct{})
		early := false
		counted.Before = func(method string) error {
			if method != "FreeItems" {
				return nil
			}
			switch reads.Add(1) {
			case ofFirstShard + 1:
				select {
				case <-beside:
					early = true
				case <-time.After(test.wait):
				}
			case ofFirstShard + 2:
				close(beside)
			}
			return nil
		}
		f.refused(itembank.NewOperator(counted, itembank.WithRandom(sameBytes(test.random))), "bob", itembank.ErrSoldOut)
		if early != test.early {
			f.Errorf("random %d: want early %t, got %t", test.random, test.early, early)
		}
	}
}
