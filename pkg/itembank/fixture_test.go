package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// fixture is the environment of a case: the engine, and the name of a campaign that no other case uses.
type fixture struct {
	enginerows.Rows
	raw  enginetest.Raw
	ctx  context.Context
	name string
}

func newFixture(t testing.TB, e enginetest.Engine) *fixture {
	return &fixture{Rows: enginerows.Rows{TB: t, Store: e.Store}, raw: e.Raw, ctx: t.Context(), name: enginerows.NewName()}
}

// inMemory makes a fixture on an engine in memory.
func inMemory(t testing.TB) *fixture {
	t.Helper()
	return newFixture(t, itembankengines.Memory(t))
}

// named returns a fixture with another campaign of the same engine.
func (f *fixture) named(suffix string) *fixture {
	other := *f
	other.name += "-" + suffix
	return &other
}

// bank makes a new Bank, as each container does.
func (f *fixture) bank(options ...itembank.Option) *itembank.Operator {
	return itembank.NewOperator(f.Store, options...)
}

// create creates the fixture's campaign.
func (f *fixture) create(s itembank.Settings) engine.Campaign {
	f.Helper()
	return f.createNamed(f.name, s)
}

func (f *fixture) createNamed(name string, s itembank.Settings) engine.Campaign {
	f.Helper()
	_, created, err := f.bank().CreateCampaign(f.ctx, name, s)
	f.Must(err)
	if !created {
		f.Fatalf("campaign %s existed", name)
	}
	row, err := f.Store.Campaign(f.ctx, name)
	f.Must(err)
	return *row
}

// rowOf returns the row of a claim.
func rowOf(c itembank.Claim) engine.Claim {
	return engine.Claim{
		ID: c.ID, Campaign: c.Campaign, Scope: c.Scope, Claimant: c.Claimant, Slot: c.Slot, Item: c.Items[0],
		ItemHash: engine.HashItem(c.Items[0]), More: engine.NewItemList(c.Items[1:]...), ClaimedAt: c.ClaimedAt, EndsAt: c.EndsAt,
	}
}

// load loads items into the fixture's campaign.
func (f *fixture) load(items ...string) itembank.LoadReport {
	f.Helper()
	return f.loadInto(f.name, items...)
}

// loadInto loads items into another campaign. It does not wait, even if the campaign was sold out.
func (f *fixture) loadInto(campaign string, items ...string) itembank.LoadReport {
	f.Helper()
	report, err := f.bank(itembank.WithClock(itembankfault.NewClock())).Load(f.ctx, campaign, itembank.Items(items...), nil)
	f.Must(err)
	return report
}

// loadAt loads items by a clock.
func (f *fixture) loadAt(clock *itembankfault.Clock, items ...string) {
	f.Helper()
	_, err := f.bank(itembank.WithClock(clock)).Load(f.ctx, f.name, itembank.Items(items...), nil)
	f.Must(err)
}

// stocked creates the fixture's campaign and loads n items.
func (f *fixture) stocked(n int, s itembank.Settings) (engine.Campaign, []string) {
	f.Helper()
	c := f.create(s)
	items := codes("code", n)
	f.load(items...)
	return c, items
}

// codes returns n items.
func codes(prefix string, n int) []string { return enginerows.Texts(prefix, n) }

// claim claims, and fails the test if the claimant gets no item.
func (f *fixture) claim(b *itembank.Operator, claimant string) itembank.Grant {
	f.Helper()
	grant, err := b.Claim(f.ctx, f.name, claimant)
	if err != nil {
		f.Fatalf("claim for %s: %v", claimant, err)
	}
	return grant
}

// refused claims, and fails the test unless the claimant gets the refusal.
func (f *fixture) refused(b *itembank.Operator, claimant string, want error) {
	f.Helper()
	grant, err := b.Claim(f.ctx, f.name, claimant)
	if !errors.Is(err, want) {
		f.Fatalf("claim for %s: want %q, got grant %+v, error %v", claimant, want, grant, err)
	}
}

// released releases a claim, and compares the result.
func (f *fixture) released(b *itembank.Operator, claim engine.Claim, want itembank.Released) {
	f.Helper()
	got, err := b.Release(f.ctx, claim.Campaign, claim.Claimant, claim.ID)
	if err != nil || got != want {
		f.Errorf("release of %s by %s: want %+v, got %+v, %v", claim.Item, claim.Claimant, want, got, err)
	}
}

// wantState compares the state of the fixture's campaign.
func (f *fixture) wantState(b *itembank.Operator, want itembank.State) {
	f.Helper()
	if _, got, err := b.State(f.ctx, f.name); got != want || err != nil {
		f.Errorf("want state %s, got %s, %v", want, got, err)
	}
}

// wantCounts compares the counts of the fixture's campaign.
func (f *fixture) wantCounts(want engine.Counts) {
	f.Helper()
	c, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	f.WantCounts(*c, want)
}

// progress collects the numbers that a call reports as its progress, and checks that they never decrease.
func (f *fixture) progress(call func(itembank.Progress)) (reported []int64) {
	f.Helper()
	call(func(done, _ int64) { reported = append(reported, done) })
	if !slices.IsSorted(reported) {
		f.Errorf("progress goes back: %v", reported)
	}
	return reported
}

// putState marks the row of an item without any condition.
func (f *fixture) putState(c engine.Campaign, item string, state engine.ItemState) {
	f.Helper()
	row := *f.ItemRow(c, item)
	row.State = state
	f.Must(f.raw.PutItemRow(f.ctx, c.Name, engine.ListedItem{Hash: engine.HashItem(item), ItemRow: row}))
}

func (f *fixture) dropItemRow(c engine.Campaign, item string) {
	f.Helper()
	f.Must(f.raw.DropItemRow(f.ctx, c.Name, engine.HashItem(item)))
}

func (f *fixture) putBankRow(item engine.FreeItem) {
	f.Helper()
	f.Must(f.raw.PutBankRow(f.ctx, item))
}

func (f *fixture) dropBankRow(item engine.FreeItem) {
	f.Helper()
	f.Must(f.raw.DropBankRow(f.ctx, item))
}

func (f *fixture) putClaim(claim engine.Claim) {
	f.Helper()
	f.Must(f.raw.PutClaim(f.ctx, claim))
}

// counted returns the engine with a counter of its calls.
func (f *fixture) counted() *itembankfault.Store { return &itembankfault.Store{Store: f.Store} }

// wantCalls compares the calls since the last time.
func (f *fixture) wantCalls(what string, counted *itembankfault.Store, want ...string) {
	f.Helper()
	if calls := counted.Calls(); !slices.Equal(calls, want) {
		f.Errorf("%s: want calls %v, got %v", what, want, calls)
	}
}

var (
	errCut  = errors.New("cut")
	errLost = fmt.Errorf("%w: the reply was lost", itembank.ErrTryAgain)
)

// cutAt returns the engine with one failing call, before its effect or after it. call counts the calls of the given
// methods from 1, or all calls if there are no methods.
func (f *fixture) cutAt(call int, after bool, methods ...string) *itembankfault.Store {
	return f.interruptedAt(call, after, func() error { return errCut }, methods...)
}

// interruptedAt returns the engine with a function that runs at a call.
func (f *fixture) interruptedAt(call int, after bool, do func() error, methods ...string) *itembankfault.Store {
	var left atomic.Int64
	left.Store(int64(call))
	hook := func(method string) error {
		if len(methods) > 0 && !slices.Contains(methods, method) {
			return nil
		}
		if left.Add(-1) != 0 {
			return nil
		}
		return do()
	}
	if after {
		return &itembankfault.Store{Store: f.Store, After: hook}
	}
	return &itembankfault.Store{Store: f.Store, Before: hook}
}

// crowd lets every claimant claim several times at once through several Banks. It returns all answers by claimant.
func (f *fixture) crowd(banks []*itembank.Operator, claimants []string, times int) map[string][]answer {
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

// oneItemEach checks the answers of a crowd: no claimant has two items, no item has two claimants, and each claimant
// has exactly one grant that is not a replay. It returns the items by claimant.
func (f *fixture) oneItemEach(answers map[string][]answer) map[string]string {
	f.Helper()
	items := map[string]string{}
	owner := map[string]string{}
	for _, claimant := range slices.Sorted(maps.Keys(answers)) {
		firsts := 0
		for _, a := range answers[claimant] {
			if errors.Is(a.err, itembank.ErrSoldOut) {
				continue
			}
			f.Must(a.err)
			item := a.grant.Claim.Items[0]
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

// endGrace is the time after the end of a claim before which it must not be closed.
const endGrace = 10 * time.Second
