package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// itemsEnd: an item that has ended is not handed out. A claim that holds it stays.
func itemsEnd(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock := itembankfault.NewClock()
	f.loadAt(clock, "held", "free")
	end := f.BankRow(enginerows.FreeItem(c, "held")).EndsAt
	if want := clock.Now().UTC().Truncate(time.Millisecond).Add(time.Hour); !end.Equal(want) {
		f.Errorf("want items that end at %s, got %s", want, end)
	}
	f.Take(c, "ann", "held")
	clock.Advance(time.Minute)
	f.loadAt(clock, "new")

	clock.SetTo(end)
	b := f.bank(itembank.WithClock(clock))
	if grant := f.claim(b, "ann"); grant.Claim.Items[0] != "held" { // the item ends, and its claim does not
		f.Errorf("want the item that was held, got %+v", grant)
	}
	if grant := f.claim(b, "bob"); grant.Claim.Items[0] != "new" {
		f.Errorf("want the item that lives, got %+v", grant)
	}
	f.refused(b, "cid", itembank.ErrSoldOut)
	f.WantWhere("expired", c, "free")
	f.swept(b, itembank.SweepReport{}) // the request has ended the items that it found
	n := itembank.Counts{Loaded: 3, Claimed: 2, Ended: 1}
	f.wantCounts(engine.Counts(n))
	f.wantTally(itembank.Tally{Rows: 3, Known: 3}, "held", "free", "new")
	f.wantCounts(engine.Counts(n))
}

// itemEndsAsTimeStepsBack: a request begins just after the end of an item, and reads it when the server's time is before
// that end again. It takes the item at the first try.
func itemEndsAsTimeStepsBack(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	server := itembankfault.NewClock()
	f.loadAt(server, "a")
	stepsBack := f.counted()
	stepsBack.Server = server
	stepsBack.Before = func(method string) error {
		if method == "FreeItems" {
			server.SetTo(f.BankRow(enginerows.FreeItem(c, "a")).EndsAt.Add(-time.Second))
		}
		return nil
	}
	server.Advance(time.Hour)
	f.claimOrZero(f.bankOn(stepsBack), "ann")
	if calls := stepsBack.Calls(); calls[len(calls)-1] != "Take" || slices.Index(calls, "Take") != len(calls)-1 {
		f.Errorf("want one try, got %s", calls)
	}
}

// mostTakenOut is the largest number of ended items that one request takes out of the bank.
const mostTakenOut = 5

// pagesOfEndedItems: one item has not ended, among many ended items on other pages.
func pagesOfEndedItems(f *fixture) {
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1, PageSize: 3})
	clock := itembankfault.NewClock()
	f.loadAt(clock, codes("old", 30)...)
	clock.Advance(time.Minute)
	f.loadAt(clock, "new")
	clock.Advance(time.Hour - time.Minute)
	b := f.bank(itembank.WithClock(clock))
	if grant := f.claim(b, "ann"); grant.Claim.Items[0] != "new" {
		f.Errorf("want the item that lives, got %+v", grant)
	}
	f.refused(b, "bob", itembank.ErrSoldOut)
	counts, err := f.bank().Counts(f.ctx, f.name)
	if f.Must(err); counts.Ended < 1 || counts.Ended > 2*mostTakenOut || counts.Ended+counts.Free != 30 {
		f.Errorf("want some of 30 items ended, got %+v", counts)
	}
}

// sameBytes is a random source whose bytes are all the same.
type sameBytes byte

func (b sameBytes) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

// pageOfEndedItemsInOneHalf: a page is full of ended items, and all items above its first place have ended. The request
// still finds the item below that place.
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
	clock := itembankfault.NewClock()
	f.loadAt(clock, above...)
	clock.Advance(time.Minute)
	f.loadAt(clock, below)
	clock.Advance(time.Hour - time.Minute)
	b := f.bank(itembank.WithClock(clock), itembank.WithRandom(sameBytes(place)))
	if grant := f.claim(b, "ann"); grant.Claim.Items[0] != below {
		f.Errorf("want %s, got %+v", below, grant)
	}
}

// itemsEndOnThePage: an item that ended since the page was read is not tried.
func itemsEndOnThePage(f *fixture) {
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock, counted := itembankfault.NewClock(), f.counted()
	f.loadAt(clock, codes("code", 5)...)
	clock.Advance(time.Hour - 5*time.Second)
	b := itembank.NewOperator(counted, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	f.claim(b, "ann")
	clock.Advance(5 * time.Second)
	counted.Calls()
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.wantCalls("a page of ended items", counted, "FreeItems", "EndItems", "Campaign", "Loads", "MarkEmpty", "HeldClaim")
	f.wantCounts(engine.Counts{Loaded: 5, Claimed: 1, Ended: 4})
}

// soldOutOfEndedItems: a bank of ended items is sold out, for claims and for the state, even if one of the items
// cannot be ended. A new item is still found.
func soldOutOfEndedItems(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 4, PageSize: 2})
	clock := itembankfault.NewClock()
	f.loadAt(clock, codes("code", 20)...)
	f.dropItemRow(c, "code-00000")
	clock.Advance(time.Hour)
	for _, ask := range []func(*itembank.Operator){
		func(b *itembank.Operator) { f.wantState(b, itembank.SoldOut) },
		func(b *itembank.Operator) { f.refused(b, "ann", itembank.ErrSoldOut) },
	} {
		ask(f.bank(itembank.WithClock(clock)))
	}
	f.loadAt(clock, "new")
	if grant := f.claim(f.bank(itembank.WithClock(clock)), "ann"); grant.Claim.Items[0] != "new" {
		f.Errorf("want the new item, got %+v", grant)
	}
}

// manyEndedItems: an engine needs several reads to return all ended items. One item has not ended.
func manyEndedItems(f *fixture) {
	const n = 1100
	f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock := itembankfault.NewClock()
	f.loadAt(clock, codes("old", n)...)
	clock.Advance(time.Minute)
	f.loadAt(clock, "new")
	clock.Advance(time.Hour - time.Minute)
	counted := f.counted()
	b := itembank.NewOperator(counted, itembank.WithClock(clock))
	f.wantState(b, itembank.Open)
	f.wantBounded("state", counted)
	if grant := f.claim(b, "ann"); grant.Claim.Items[0] != "new" {
		f.Errorf("want the item that lives, got %+v", grant)
	}
	f.wantBounded("claim", counted)
	f.refused(b, "bob", itembank.ErrSoldOut)
	f.wantBounded("refusal", counted)
}

// wantBounded checks that one request made few calls on a shard with a thousand ended items.
func (f *fixture) wantBounded(what string, counted *itembankfault.Store) {
	f.Helper()
	calls, n := counted.Calls(), map[string]int{}
	for _, call := range calls {
		n[call]++
	}
	if n["EndItems"] > 1 || n["FreeItems"] > 6 {
		f.Errorf("%s: want at most 6 reads and one transaction of ended items, got %v", what, calls)
	}
}

// withEndedItems is an engine that shows many ended items besides its own.
type withEndedItems struct {
	engine.Store
	mu    sync.Mutex
	items []engine.FreeItem // in the order of their hashes
	ended int               // number of ended items that were taken out of the bank
}

// withEndedItems adds n ended items to a campaign.
func (f *fixture) withEndedItems(c engine.Campaign, n int) *withEndedItems {
	s := &withEndedItems{Store: f.Store}
	for i := range n {
		item := enginerows.FreeItem(c, fmt.Sprintf("ended-%d", i))
		item.EndsAt = c.CreatedAt
		s.items = append(s.items, item)
	}
	slices.SortFunc(s.items, byHash)
	return s
}

func byHash(x, y engine.FreeItem) int { return slices.Compare(x.Hash[:], y.Hash[:]) }

func (s *withEndedItems) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, how engine.Consistency,
) (engine.FreePage, error) {
	page, err := s.Store.FreeItems(ctx, shard, r, limit, how)
	if err != nil {
		return page, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.items {
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

func (s *withEndedItems) EndItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers := make([]engine.EndResult, len(endings))
	for n, e := range endings {
		before := len(s.items)
		s.items = slices.DeleteFunc(s.items, func(i engine.FreeItem) bool { return i == e.Item })
		if len(s.items) == before {
			return nil, fmt.Errorf("not an ended item: %+v", e.Item)
		}
		answers[n] = engine.EndDone
	}
	s.ended += len(endings)
	return answers, nil
}

// boundedWorkForEndedItems: 10,000 items have ended and one has not, in a bank of one shard, of the usual number of
// shards, and of the largest number. Requests need few reads to find the one item, and then to find the bank sold
// out. Each request takes few of the ended items out.
func boundedWorkForEndedItems(f *fixture) {
	for _, shards := range []int{1, 16, 256} {
		one := f.named(fmt.Sprint(shards))
		c, items := one.stocked(1, itembank.Settings{Shards: shards})
		s := one.withEndedItems(c, 10_000)
		counted := &itembankfault.Store{Store: s}
		b := itembank.NewOperator(counted, itembank.WithClock(itembankfault.NewClock()))
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
			if most := 4*shards + 20; reads > most || s.ended > ended+mostTakenOut {
				f.Errorf("%d shards, %s: want at most %d reads and %d ends, got %d and %d", shards, what, most, mostTakenOut, reads, s.ended-ended)
			}
		}
		request("state", func() {
			one.wantState(b, itembank.Open)
		})
		request("claim", func() {
			if grant := one.claim(b, "ann"); grant.Claim.Items[0] != items[0] {
				f.Errorf("%d shards: want the item that has not ended, got %+v", shards, grant)
			}
		})
		request("refusal", func() { one.refused(b, "bob", itembank.ErrSoldOut) })
		if s.ended == 0 {
			f.Errorf("%d shards: no request takes ended items out", shards)
		}
	}
}

// tooManyEndedItems: a request that cannot read all ended items never returns "sold out". Each request takes some of
// them out and begins at another place. So after some requests the one item near the end of its shard that has not
// ended is found.
func tooManyEndedItems(f *fixture) {
	c := f.create(itembank.Settings{Shards: 1})
	item := "code"
	for engine.HashItem(item)[0] < 0xf0 {
		item += "+"
	}
	f.load(item)
	s := f.withEndedItems(c, 30_000)
	ask := func(what string, ask func(*itembank.Operator) (bool, error)) {
		f.Helper()
		for tries := 1; ; tries++ {
			ended := s.ended
			found, err := ask(f.bankOn(s))
			if took := s.ended - ended; took < 1 || took > mostTakenOut {
				f.Errorf("%s, try %d: it took %d ended items out", what, tries, took)
			}
			if found && err == nil {
				return
			}
			if !errors.Is(err, itembank.ErrTryAgain) || !strings.Contains(err.Error(), "sweep") || tries == 50 { // a third of the tries fail
				f.Fatalf("%s, try %d: %t, %v", what, tries, found, err)
			}
		}
	}
	ask("state", func(b *itembank.Operator) (bool, error) {
		_, state, err := b.State(f.ctx, f.name)
		return state == itembank.Open, err
	})
	ask("claim", func(b *itembank.Operator) (bool, error) {
		grant, err := b.Claim(f.ctx, f.name, "ann")
		return slices.Contains(grant.Claim.Items, item), err
	})
	if _, err := f.bankOn(s).Claim(f.ctx, f.name, "bob"); !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("not all items were read: want %v, got %v", itembank.ErrTryAgain, err)
	}
	for range 20 { // a holder still gets an answer, after two reads
		counted := &itembankfault.Store{Store: s}
		if grant := f.claim(f.bankOn(counted), "ann"); grant.Claim.Items[0] != item || !grant.Replayed {
			f.Errorf("want ann's item, got %+v", grant)
		}
		if calls := counted.Calls(); len(calls) > 30 {
			f.Errorf("a holder's answer took %d calls", len(calls))
		}
	}
}

// bankOn makes a Bank on an engine, with a clock that stands still.
func (f *fixture) bankOn(s engine.Store) *itembank.Operator {
	return itembank.NewOperator(s, itembank.WithClock(itembankfault.NewClock()))
}

// endedItemsAndLostRaces: a request loses the race for the one item that has not ended again and again, and reads
// past the ended items each time. All its reads together are bounded.
func endedItemsAndLostRaces(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{Shards: 1})
	s := f.withEndedItems(c, 3000)
	gone := slices.Repeat([]engine.TakeResult{{ItemGone: true}}, 100)
	counted := &itembankfault.Store{Store: s, TakeResults: gone}
	_, err := f.bankOn(counted).Claim(f.ctx, f.name, "ann")
	if !errors.Is(err, itembank.ErrTryAgain) || !strings.Contains(err.Error(), "sweep") {
		f.Errorf("want it to give up and ask for a sweep, got %v", err)
	}
	if s.ended < 1 || s.ended > mostTakenOut {
		f.Errorf("want at most %d ended items taken out, got %d", mostTakenOut, s.ended)
	}
	if calls := counted.Calls(); len(calls) > 130 {
		f.Errorf("it made %d calls", len(calls))
	}
}

// endedItemInTwoPlaces: an inconsistent item is in two shards, and has ended. A transaction must not name it twice.
func endedItemInTwoPlaces(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 2})
	clock := itembankfault.NewClock()
	f.loadAt(clock, "a", "b")
	double := *f.BankRow(enginerows.FreeItem(c, "a"))
	double.Shard.Number = 1 - double.Shard.Number
	f.putBankRow(double)
	clock.Advance(time.Hour)
	f.refused(f.bank(itembank.WithClock(clock)), "ann", itembank.ErrSoldOut)
	f.WantWhere("expired", c, "b")
}

// endingDoesNotWait: if the row of an ended item is busy, the claimant who found it does not wait. The other items of
// the same transaction are ended.
func endingDoesNotWait(f *fixture) {
	c := f.create(itembank.Settings{ItemLife: time.Hour, Shards: 1})
	clock := itembankfault.NewClock()
	f.loadAt(clock, "busy", "other")
	clock.Advance(time.Hour)
	s := &busyEnds{Store: f.Store, busy: engine.HashItem("busy")}
	b := itembank.NewOperator(s, itembank.WithClock(clock), itembank.WithCampaignCache(time.Hour))
	begun := clock.Now()
	f.refused(b, "ann", itembank.ErrSoldOut)
	if waited := clock.Now().Sub(begun); waited > 0 {
		f.Errorf("it waited %s", waited)
	}
	f.WantWhere("free", c, "busy")
	f.WantWhere("expired", c, "other")
}

// busyEnds is an engine on which one item is always busy.
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
