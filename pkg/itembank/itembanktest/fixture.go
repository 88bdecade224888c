package itembanktest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// fixture is what a case works with: the engine and a campaign name of its own.
type fixture struct {
	*testing.T
	Engine
	ctx  context.Context
	name string
}

func freshName() string {
	var raw [8]byte
	_, _ = rand.Read(raw[:]) // never fails
	return "t-" + hex.EncodeToString(raw[:])
}

// must fails the case on an error.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// bank makes a Bank as a container of its own would.
func (f *fixture) bank(options ...itembank.Option) *itembank.Bank {
	return itembank.New(f.Store, options...)
}

// create makes the fixture's campaign.
func (f *fixture) create(s itembank.Settings) engine.Campaign {
	f.Helper()
	return f.createNamed(f.name, s)
}

func (f *fixture) createNamed(name string, s itembank.Settings) engine.Campaign {
	f.Helper()
	_, created, err := f.bank().CreateCampaign(f.ctx, name, s)
	f.must(err)
	if !created {
		f.Fatalf("campaign %s existed", name)
	}
	row, err := f.Store.Campaign(f.ctx, name)
	f.must(err)
	return *row
}

// rowOf is the row of a claim.
func rowOf(c itembank.Claim) engine.Claim {
	return engine.Claim{
		ID: c.ID, Campaign: c.Campaign, Scope: c.Scope, Claimant: c.Claimant, Item: c.Item,
		ItemHash: engine.HashItem(c.Item), ClaimedAt: c.ClaimedAt, EndsAt: c.EndsAt,
	}
}

// secondGeneration makes the fixture's campaign as it is after its bank was
// replaced, and returns it also as it was before.
func (f *fixture) secondGeneration() (now, before engine.Campaign) {
	f.Helper()
	now = engine.Campaign{
		Name: f.name, Mode: engine.ByTimes, Scope: f.name, Shards: 2, PageSize: 30, OnEnd: engine.Burn, Generation: 2,
	}
	if existing, err := f.Store.CreateCampaign(f.ctx, now); existing != nil || err != nil {
		f.Fatalf("campaign %s: %+v, %v", f.name, existing, err)
	}
	before = now
	before.Generation = 1
	return now, before
}

// load loads items into the fixture's campaign.
func (f *fixture) load(items ...string) itembank.LoadReport {
	f.Helper()
	report, err := f.bank().Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.must(err)
	return report
}

// stocked makes a campaign with n items.
func (f *fixture) stocked(n int, s itembank.Settings) (engine.Campaign, []string) {
	f.Helper()
	c := f.create(s)
	items := codes("code", n)
	f.load(items...)
	return c, items
}

func codes(prefix string, n int) []string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return items
}

// claim claims and must get an item.
func (f *fixture) claim(b *itembank.Bank, claimant string) itembank.Grant {
	f.Helper()
	grant, err := b.Claim(f.ctx, f.name, claimant)
	if err != nil {
		f.Fatalf("claim for %s: %v", claimant, err)
	}
	return grant
}

// refused claims and must get the refusal.
func (f *fixture) refused(b *itembank.Bank, claimant string, want error) {
	f.Helper()
	grant, err := b.Claim(f.ctx, f.name, claimant)
	if !errors.Is(err, want) {
		f.Fatalf("claim for %s: want %q, got grant %+v, error %v", claimant, want, grant, err)
	}
}

// progress collects what a call tells of its progress, which only ever rises.
func (f *fixture) progress(call func(itembank.Progress)) (told []int64) {
	f.Helper()
	call(func(done, _ int64) { told = append(told, done) })
	if !slices.IsSorted(told) {
		f.Errorf("progress goes back: %v", told)
	}
	return told
}

// wantCounts compares what the store holds.
func (f *fixture) wantCounts(want engine.Counts) {
	f.Helper()
	c, err := f.Store.Campaign(f.ctx, f.name)
	f.must(err)
	got, err := f.Store.Counts(f.ctx, *c)
	f.must(err)
	if got != want {
		f.Errorf("counts: want %+v, got %+v", want, got)
	}
}

// freeItem finds one item in the bank as a page would bring it.
func (f *fixture) freeItem(c engine.Campaign, item string) engine.FreeItem {
	f.Helper()
	h := engine.HashItem(item)
	shard := engine.Shard{Campaign: c.Name, Generation: c.Generation, Number: h.ShardOf(c.Shards)}
	return engine.FreeItem{Shard: shard, Hash: h, Value: item}
}

// newClaim is a claim as a Bank would put it.
func (f *fixture) newClaim(c engine.Campaign, claimant, item string) engine.Claim {
	return engine.Claim{
		ID: freshName(), Campaign: c.Name, Scope: c.Scope, Claimant: claimant, Item: item,
		ItemHash: engine.HashItem(item), ClaimedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
}

// held reads a claim from the store.
func (f *fixture) held(c engine.Campaign, claimant string) *engine.Claim {
	f.Helper()
	claim, err := f.Store.HeldClaim(f.ctx, c.Scope, claimant)
	f.must(err)
	return claim
}

// take takes an item for a claimant, who must get it, as a Bank would.
func (f *fixture) take(c engine.Campaign, claimant, item string) engine.Claim {
	f.Helper()
	return f.takeUntil(c, claimant, item, time.Time{})
}

// takeUntil takes an item with a claim that has an end.
func (f *fixture) takeUntil(c engine.Campaign, claimant, item string, end time.Time) engine.Claim {
	f.Helper()
	claim := f.newClaim(c, claimant, item)
	claim.EndsAt = end
	if found, err := f.Store.Take(f.ctx, f.freeItem(c, item), claim); err != nil || !found.Taken() {
		f.Fatalf("%s does not get %s: %+v, %v", claimant, item, found, err)
	}
	return claim
}

// where names the places of an item: in the bank where it belongs, with those
// of the claimants who hold it, and its end. At rest there is one.
func (f *fixture) where(c engine.Campaign, item string, claimants ...string) string {
	f.Helper()
	var places []string
	if f.bankRow(f.freeItem(c, item)) != nil {
		places = append(places, "free")
	}
	for _, claimant := range claimants {
		if held := f.held(c, claimant); held != nil && held.Item == item && held.Campaign == c.Name {
			places = append(places, "held by "+claimant)
		}
	}
	if row := f.itemRow(c, item); row == nil {
		places = append(places, "not loaded")
	} else if row.State != "" {
		places = append(places, string(row.State))
	}
	return strings.Join(places, ", ")
}

// wantWhere compares the places of an item.
func (f *fixture) wantWhere(want string, c engine.Campaign, item string, claimants ...string) {
	f.Helper()
	if got := f.where(c, item, claimants...); got != want {
		f.Errorf("item %s: want it %q, got %q", item, want, got)
	}
}

// bankRow reads the bank at the place of an item; nil if it is not there.
func (f *fixture) bankRow(i engine.FreeItem) *engine.FreeItem {
	f.Helper()
	before := i.Hash
	for n := len(before) - 1; ; n-- { // the hash before it in order
		if before[n]--; before[n] != 0xff {
			break
		}
	}
	page, err := f.Store.FreeItems(f.ctx, i.Shard, engine.Range{After: &before, Through: &i.Hash}, 1)
	f.must(err)
	if len(page.Items) == 0 {
		return nil
	}
	return &page.Items[0]
}

// itemRow reads the row of an item; nil if there is none.
func (f *fixture) itemRow(c engine.Campaign, item string) *engine.ItemRow {
	f.Helper()
	row, err := f.Store.ItemRow(f.ctx, c.Name, engine.HashItem(item))
	f.must(err)
	return row
}

// storm lets every claimant claim several times at once over several Banks,
// and returns all answers by claimant.
func (f *fixture) storm(banks []*itembank.Bank, claimants []string, times int) map[string][]answer {
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers := map[string][]answer{}
	for i, claimant := range claimants {
		for j := range times {
			bank := banks[(i+j)%len(banks)]
			wg.Go(func() {
				grant, err := bank.Claim(f.ctx, f.name, claimant)
				mu.Lock()
				defer mu.Unlock()
				answers[claimant] = append(answers[claimant], answer{grant, err})
			})
		}
	}
	wg.Wait()
	return answers
}

type answer struct {
	grant itembank.Grant
	err   error
}

// oneEach checks the answers of a storm: no claimant has two items, no item
// two claimants, and exactly one of a claimant's grants is the first. It
// returns the item of each claimant who got one.
func (f *fixture) oneEach(answers map[string][]answer) map[string]string {
	f.Helper()
	items := map[string]string{}
	owner := map[string]string{}
	for _, claimant := range slices.Sorted(maps.Keys(answers)) {
		firsts := 0
		for _, a := range answers[claimant] {
			if errors.Is(a.err, itembank.ErrSoldOut) {
				continue
			}
			f.must(a.err)
			item := a.grant.Claim.Item
			if had, ok := items[claimant]; ok && had != item {
				f.Fatalf("claimant %s holds two items: %s and %s", claimant, had, item)
			}
			if other, ok := owner[item]; ok && other != claimant {
				f.Fatalf("item %s was given to %s and to %s", item, other, claimant)
			}
			items[claimant], owner[item] = item, claimant
			if !a.grant.Replayed {
				firsts++
			}
		}
		if items[claimant] != "" && firsts != 1 {
			f.Fatalf("claimant %s got %d grants that are not replays, want 1", claimant, firsts)
		}
	}
	return items
}

// Clock is a clock that moves only by hand; Sleep moves it.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a Clock that shows the present.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Sleep moves the clock and returns at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.Advance(d)
	return ctx.Err()
}
