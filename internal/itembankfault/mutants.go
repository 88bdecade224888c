package itembankfault

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

// mutant is a store with one rule for claims broken.
type mutant struct {
	name string
	by   string // the scenario that must find it; histories must too
	is   trait
	wrap func(e itembanktest.Engine, clock itembank.Clock) engine.Store
}

// trait is what a mutant needs of the harness.
type trait int

const (
	plain   trait = iota
	ownRows       // its rows have a meaning of their own, so that checks read through it
	above         // it is above the faults: it breaks what a Bank makes of slow replies
)

var mutants = []mutant{
	{"owner-in-the-condition", "repeated-claim", plain, func(e itembanktest.Engine, _ itembank.Clock) engine.Store {
		return &ownerInCondition{Store: e.Store, raw: e.Raw}
	}},
	{"token-that-recurs", "release-and-claim-again", plain, func(e itembanktest.Engine, _ itembank.Clock) engine.Store {
		return &recurringToken{Store: e.Store, done: map[string]bool{}}
	}},
	{"release-without-claim-id", "release-while-claimed-again", plain, func(e itembanktest.Engine, _ itembank.Clock) engine.Store {
		return closeWithoutID{e.Store}
	}},
	{"shard-counts-that-differ", "shared-scope", ownRows, func(e itembanktest.Engine, _ itembank.Clock) engine.Store {
		return shardsOfCampaign{e.Store}
	}},
	{"claims-purged-at-their-end", "own-ended-claim-returned", plain, func(e itembanktest.Engine, clock itembank.Clock) engine.Store {
		return endedDropped{e.Store, e.Raw, clock, 0}
	}},
	{"ended-claim-overwritten", "own-ended-claim-burned", plain, func(e itembanktest.Engine, clock itembank.Clock) engine.Store {
		return endedDropped{e.Store, e.Raw, clock, endGrace}
	}},
	{"sweep-without-grace", "claim-in-its-grace", plain, func(e itembanktest.Engine, _ itembank.Clock) engine.Store {
		return sweepWithoutGrace{e.Store}
	}},
	{"dryness-from-the-end-of-the-read", "loaded-while-the-bank-is-read", above, func(e itembanktest.Engine, clock itembank.Clock) engine.Store {
		return &lateDryness{Store: e.Store, clock: clock, dry: map[engine.Shard]time.Time{}}
	}},
}

// mostHistories is how many histories may pass before a mutant must be found.
const mostHistories = 20_000

// RunMutants fails for every mutant that survives its scenario with all faults and,
// where all is to be played, so many histories.
func RunMutants(t *testing.T, newEngine func(*testing.T) itembanktest.Engine) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t)
			by := slices.IndexFunc(Scenarios, func(s Scenario) bool { return s.Name == m.by })
			if by < 0 {
				t.Fatalf("there is no scenario %q", m.by)
			}
			m.mustBeFound(t, Scenarios[by], e)
			if !playAll() {
				return
			}
			for n := range mostHistories {
				if err := playProgram(t.Context(), e, programs.Example(n), &m); err != nil {
					t.Logf("found by history %d: %s", n+1, firstLine(err))
					return
				}
			}
			t.Errorf("survived %d histories", mostHistories)
		})
	}
}

// mustBeFound plays a scenario without a fault and then with each.
func (m mutant) mustBeFound(t *testing.T, s Scenario, e itembanktest.Engine) {
	counting := &Faulty{Store: e.Store}
	play := Play{Scenario: s, Engine: e, Through: counting, Random: Seeded(), mutant: &m}
	if err := play.Run(t.Context()); err != nil {
		t.Logf("found without a fault: %s", firstLine(err))
		return
	}
	calls := counting.Calls()
	for n, f := range faultsOf(calls) {
		plan, over := failOnce(f)
		play.Through, play.Random, play.over = &Faulty{Store: e.Store, Plan: plan}, Seeded(), over
		if err := play.Run(t.Context()); err != nil {
			t.Logf("found by fault %d, %s at call %d (%s): %s", n+1, f.Way, f.At, calls[f.At], firstLine(err))
			return
		}
	}
	t.Error("survived all faults")
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// ownerInCondition puts a claim IF absent OR it is the claimant's own.
type ownerInCondition struct {
	engine.Store
	raw itembanktest.Raw
	mu  sync.Mutex
}

func (m *ownerInCondition) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	held, err := m.HeldClaim(ctx, c.Scope, c.Claimant)
	if err != nil || held == nil {
		return m.Store.Take(ctx, i, c)
	}
	if err := m.raw.DropClaim(ctx, c.Scope, c.Claimant); err != nil {
		return engine.TakeResult{}, err
	}
	found, err := m.Store.Take(ctx, i, c)
	if err != nil || !found.Taken() {
		return found, m.raw.PutClaim(context.WithoutCancel(ctx), *held)
	}
	return found, nil
}

// recurringToken makes the token of a transaction from what is claimed. An engine
// that has seen it answers success, and writes nothing.
type recurringToken struct {
	engine.Store
	mu   sync.Mutex
	done map[string]bool
}

func (m *recurringToken) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	token := c.Campaign + c.Claimant + i.Hash.String()
	if m.done[token] {
		return engine.TakeResult{}, nil
	}
	found, err := m.Store.Take(ctx, i, c)
	m.done[token] = err == nil && found.Taken()
	return found, err
}

// closeWithoutID closes whatever claim the claimant has.
type closeWithoutID struct{ engine.Store }

func (m closeWithoutID) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	held, err := m.HeldClaim(ctx, c.Claim.Scope, c.Claim.Claimant)
	if err == nil && held != nil {
		c.Claim.ID = held.ID
	}
	return m.Store.CloseClaim(ctx, c)
}

type campaignKey struct{}

// ofCampaign tells shardsOfCampaign whose claims a request looks at.
func ofCampaign(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, campaignKey{}, name)
}

// shardsOfCampaign spreads the claims of a scope over as many partitions as the
// campaign's bank has shards, and looks for a claim only where it would put it.
type shardsOfCampaign struct{ engine.Store }

// mostPartitions is above the shards of all campaigns here.
const mostPartitions = 4

func (m shardsOfCampaign) partition(ctx context.Context, scope, claimant, campaign string) (string, error) {
	c, err := m.Campaign(ctx, campaign)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-p%d", scope, engine.HashItem(claimant).ShardOf(c.Shards)), nil
}

func (m shardsOfCampaign) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	scope := c.Scope
	var err error
	if c.Scope, err = m.partition(ctx, scope, c.Claimant, c.Campaign); err != nil {
		return engine.TakeResult{}, err
	}
	found, err := m.Store.Take(ctx, i, c)
	if found.Held != nil {
		found.Held.Scope = scope
	}
	return found, err
}

func (m shardsOfCampaign) HeldClaim(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	if campaign, ok := ctx.Value(campaignKey{}).(string); ok {
		partition, err := m.partition(ctx, scope, claimant, campaign)
		if err != nil {
			return nil, err
		}
		held, err := m.Store.HeldClaim(ctx, partition, claimant)
		if held != nil {
			held.Scope = scope
		}
		return held, err
	}
	for n := range mostPartitions { // a check
		held, err := m.Store.HeldClaim(ctx, fmt.Sprintf("%s-p%d", scope, n), claimant)
		if held != nil {
			held.Scope = scope
			return held, err
		}
	}
	return nil, nil
}

func (m shardsOfCampaign) HeldClaimEventuallyConsistent(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	return m.HeldClaim(ctx, scope, claimant)
}

func (m shardsOfCampaign) CloseClaim(ctx context.Context, c engine.CloseRequest) (found engine.CloseResult, err error) {
	if c.Claim.Scope, err = m.partition(ctx, c.Claim.Scope, c.Claim.Claimant, c.Claim.Campaign); err != nil {
		return found, err
	}
	return m.Store.CloseClaim(ctx, c)
}

// endedDropped drops a claim that ended longer ago than the grace as if it had never
// been, instead of closing it: with none as a time to live does, with the real one as
// a put does that overwrites.
type endedDropped struct {
	engine.Store
	raw   itembanktest.Raw
	clock itembank.Clock
	grace time.Duration
}

func (m endedDropped) Take(ctx context.Context, i engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	held, err := m.HeldClaim(ctx, c.Scope, c.Claimant)
	if err != nil {
		return engine.TakeResult{}, err
	}
	if held != nil && !held.EndsAt.IsZero() && held.EndsAt.Before(m.clock.Now().Add(-m.grace)) {
		if err := m.raw.DropClaim(ctx, c.Scope, c.Claimant); err != nil {
			return engine.TakeResult{}, err
		}
	}
	return m.Store.Take(ctx, i, c)
}

// sweepWithoutGrace closes a claim that has just ended.
type sweepWithoutGrace struct{ engine.Store }

func (m sweepWithoutGrace) ListClaims(ctx context.Context, scope, cursor string) ([]engine.Claim, string, error) {
	claims, next, err := m.Store.ListClaims(ctx, scope, cursor)
	for i := range claims {
		if !claims[i].EndsAt.IsZero() {
			claims[i].EndsAt = claims[i].EndsAt.Add(-endGrace)
		}
	}
	return claims, next, err
}

func (m sweepWithoutGrace) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	if !c.EndedBy.IsZero() {
		c.EndedBy = c.EndedBy.Add(endGrace)
	}
	return m.Store.CloseClaim(ctx, c)
}

// lateDryness answers "empty" for a second after the end of a read that showed it.
type lateDryness struct {
	engine.Store
	clock itembank.Clock
	mu    sync.Mutex
	dry   map[engine.Shard]time.Time
}

func (m *lateDryness) FreeItems(ctx context.Context, s engine.Shard, r engine.Range, limit int) (engine.FreePage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if ended, ok := m.dry[s]; ok && m.clock.Now().Sub(ended) < emptyMemory {
		return engine.FreePage{}, nil
	}
	delete(m.dry, s)
	page, err := m.Store.FreeItems(ctx, s, r, limit)
	if err == nil && len(page.Items) == 0 && r.Through != nil {
		m.dry[s] = m.clock.Now()
	}
	return page, err
}
