package itembanktest

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/mutanttest"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// mutantVariable names the mutant that a run of the suite is to test instead of
// the engine.
const mutantVariable = "ITEMBANKTEST_MUTANT"

// mutant is a store with one rule broken, and the case that must notice.
type mutant struct {
	name     string
	caughtBy string
	wrap     func(Engine) engine.Store
}

var mutants = []mutant{
	{"no-existence-condition", "claims/more-claimants-than-items", func(e Engine) engine.Store { return &noExistenceCondition{Store: e.Store, raw: e.Raw} }},
	{"claim-put-unconditionally", "claims/one-each", func(e Engine) engine.Store { return &unconditionalPut{Store: e.Store, raw: e.Raw} }},
	{"check-then-put", "store/take-race-for-claimant", func(e Engine) engine.Store {
		return &checkThenPut{unconditionalPut: unconditionalPut{Store: e.Store, raw: e.Raw}, second: make(chan struct{})}
	}},
	{"item-gone-read-first", "claims/repeat-with-gone-candidate", func(e Engine) engine.Store { return itemGoneFirst{e.Store} }},
	{"item-row-forgotten", "loads/claimed-items-are-known", func(e Engine) engine.Store { return itemRowForgotten{e.Store, e.Raw} }},
	{"sold-out-remembered-too-long", "claims/sold-out-ends-with-a-load", func(e Engine) engine.Store { return &longMemory{Store: e.Store} }},
	{"close-without-claim-id", "store/close-claim-conditions", func(e Engine) engine.Store { return closeWithoutID{e.Store} }},
	{"close-whatever-the-end", "store/close-claim-conditions", func(e Engine) engine.Store { return closeWhateverEnd{e.Store} }},
	{"close-without-the-item-row", "store/close-claim-conditions", func(e Engine) engine.Store { return closeWithoutItemRow{e.Store, e.Raw} }},
	{"ended-claim-overwritten", "ends/claim-closed-when-met", func(e Engine) engine.Store { return endedClaimOverwritten{e.Store, e.Raw} }},
	{"claims-purged-at-their-end", "ends/claim-lives-until-it-is-closed", func(e Engine) engine.Store { return claimsPurged{e.Store, e.Raw} }},
	{"items-end-whatever-their-end", "store/end-items", func(e Engine) engine.Store { return itemsEndWhatever{e.Store} }},
	{"return-in-a-second-step", "store/close-claim-cut-by-its-context", func(e Engine) engine.Store { return returnInSecondStep{e.Store, e.Raw} }},
}

// RunMutants runs the cases that must catch a mutant, each in a process of its
// own, and fails for every mutant that survives. The test that runs the suite
// must be called TestConformance.
func RunMutants(t *testing.T, newEngine func(*testing.T) Engine) {
	newEngine(t) // skips if the engine is missing: a skipped mutant would look like a survivor
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			mutanttest.MustBeCaught(t, mutantVariable, m.name, m.caughtBy)
		})
	}
}

// mutated replaces the store by the mutant that this run is for.
func mutated(t *testing.T, e Engine) Engine {
	name := os.Getenv(mutantVariable)
	if name == "" {
		return e
	}
	for _, m := range mutants {
		if m.name == name {
			return Engine{m.wrap(e), e.Raw}
		}
	}
	t.Fatalf("%s: no such mutant: %q", mutantVariable, name)
	return e
}

// noExistenceCondition deletes the item whether it is there or not: it is put
// back just before.
type noExistenceCondition struct {
	engine.Store
	raw Raw
	mu  sync.Mutex // makes one step of putting back and taking
}

func (m *noExistenceCondition) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.raw.PutBankRow(ctx, i); err != nil {
		return engine.TakeResult{}, err
	}
	return m.Store.Take(ctx, i, c)
}

// unconditionalPut overwrites whatever claim there is.
type unconditionalPut struct {
	engine.Store
	raw Raw
	mu  sync.Mutex // makes one step of dropping and putting
}

func (m *unconditionalPut) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.raw.DropClaim(ctx, c.Scope, c.Claimant); err != nil {
		return engine.TakeResult{}, err
	}
	return m.Store.Take(ctx, i, c)
}

// checkThenPut reads the claim first and then puts it without a condition. Two
// callers who meet have both checked before either puts, as on any network.
type checkThenPut struct {
	unconditionalPut
	checked atomic.Int32
	second  chan struct{} // closed when the second caller has checked
}

func (m *checkThenPut) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	held, err := m.HeldClaim(ctx, c.Scope, c.Claimant)
	if held != nil || err != nil {
		return engine.TakeResult{Held: held}, err
	}
	if m.checked.Add(1) == 2 {
		close(m.second)
	}
	select {
	case <-m.second:
	case <-time.After(10 * time.Second): // nobody else came
	}
	return m.unconditionalPut.Take(ctx, i, c)
}

// itemGoneFirst takes a missing item for the reason, without looking further.
type itemGoneFirst struct{ engine.Store }

func (m itemGoneFirst) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	found, err := m.Store.Take(ctx, i, c)
	if found.ItemGone {
		found.Held = nil
	}
	return found, err
}

// itemRowForgotten keeps free items only, as banks without item rows do.
type itemRowForgotten struct {
	engine.Store
	raw Raw
}

func (m itemRowForgotten) AddItems(ctx context.Context, additions []engine.AddRequest) ([]engine.AddResult, error) {
	added, err := m.Store.AddItems(ctx, additions)
	for i, a := range added {
		if a.Outcome == engine.AddDone {
			if err := m.raw.DropItemRow(ctx, additions[i].Item.Shard.Campaign, additions[i].Item.Hash); err != nil {
				return nil, err
			}
		}
	}
	return added, err
}

// longMemory answers "empty" for ever for a shard that was empty once.
type longMemory struct {
	engine.Store
	mu    sync.Mutex
	empty map[engine.Shard]bool
}

func (m *longMemory) FreeItems(ctx context.Context, s engine.Shard, r engine.Range, limit int) (engine.FreePage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.empty[s] {
		return engine.FreePage{}, nil
	}
	first, err := m.Store.FreeItems(ctx, s, engine.Range{}, 1)
	if err != nil {
		return first, err
	}
	if len(first.Items) == 0 {
		if m.empty == nil {
			m.empty = map[engine.Shard]bool{}
		}
		m.empty[s] = true
	}
	return m.Store.FreeItems(ctx, s, r, limit)
}
