package itembanktest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
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
func (f *fixture) create(s itembank.Settings) itembank.Campaign {
	f.Helper()
	return f.createNamed(f.name, s)
}

func (f *fixture) createNamed(name string, s itembank.Settings) itembank.Campaign {
	f.Helper()
	c, created, err := f.bank().CreateCampaign(f.ctx, name, s)
	f.must(err)
	if !created {
		f.Fatalf("campaign %s existed", name)
	}
	return c
}

// load loads items into the fixture's campaign.
func (f *fixture) load(items ...string) itembank.LoadReport {
	f.Helper()
	report, err := f.bank().Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.must(err)
	return report
}

// stocked makes a campaign with n items.
func (f *fixture) stocked(n int, s itembank.Settings) (itembank.Campaign, []string) {
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

// wantCounts compares what the store holds.
func (f *fixture) wantCounts(want itembank.Counts) {
	f.Helper()
	got, err := f.bank().Counts(f.ctx, f.name)
	f.must(err)
	if got != want {
		f.Errorf("counts: want %+v, got %+v", want, got)
	}
}

// freeItem finds one item in the bank as a page would bring it.
func (f *fixture) freeItem(c itembank.Campaign, item string) itembank.FreeItem {
	f.Helper()
	h := itembank.HashItem(item)
	shard := itembank.Shard{Campaign: c.Name, Generation: c.Generation, Number: h.ShardOf(c.Shards)}
	return itembank.FreeItem{Shard: shard, Hash: h, Value: item}
}

// newClaim is a claim as a Bank would put it.
func (f *fixture) newClaim(c itembank.Campaign, claimant, item string) itembank.Claim {
	return itembank.Claim{
		ID: freshName(), Campaign: c.Name, Scope: c.Scope, Claimant: claimant, Item: item,
		ItemHash: itembank.HashItem(item), ClaimedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
}

// held reads a claim from the store.
func (f *fixture) held(c itembank.Campaign, claimant string) *itembank.Claim {
	f.Helper()
	claim, err := f.Store.HeldClaim(f.ctx, c.Scope, claimant)
	f.must(err)
	return claim
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
