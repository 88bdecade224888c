package itembankfault

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// endGrace is the time between the end of a claim and the moment from which it may be closed.
const endGrace = 10 * time.Second

// emptyMemory is how long a Bank may rely on a proof that the bank is empty.
const emptyMemory = time.Second

// State holds the answers that clients got, in a form that one process can hand to another.
type State struct {
	Told   map[string]Told            // by scope and claimant: the latest claim
	Given  map[string]string          // by campaign and item: the id of the latest claim
	Loaded map[string]map[string]bool // by campaign: the items that a client loaded
	// By campaign: the items of a load that has no answer yet. After a kill, some or all of them are in the bank.
	Loading map[string]map[string]bool
	// By campaign: the items that a client withdrew after they were loaded. No claimant gets them from the bank
	// again.
	Withdrawn map[string]map[string]bool
	Asked     map[string]map[string]bool // by scope: the claimants
	Blocked   map[string]map[string]bool // by scope: the holders who get no item any more
	Freed     time.Time                  // when an item was last put into a bank
	Now       time.Time                  // by the clock
}

// Told is a claim that its claimant got as an answer.
type Told struct {
	Claim     itembank.Claim
	Released  bool // a client asked for its release, so that it may be closed
	Confirmed bool // a client asked for its confirmation, so that it may have no end
}

// mayBeClosed reports whether the claim may have been closed.
func (t Told) mayBeClosed(now time.Time) bool {
	return t.Released || !t.Claim.EndsAt.IsZero() && t.Claim.EndsAt.Before(now.Add(-endGrace))
}

// same reports whether a claim in the store is the claim that the claimant got as an answer.
func (t Told) same(claim itembank.Claim) bool {
	if t.Confirmed && claim.EndsAt.IsZero() {
		t.Claim.EndsAt = time.Time{}
	}
	return reflect.DeepEqual(claim, t.Claim)
}

func newState() State {
	return State{
		Told: map[string]Told{}, Given: map[string]string{},
		Loaded: map[string]map[string]bool{}, Loading: map[string]map[string]bool{},
		Withdrawn: map[string]map[string]bool{}, Asked: map[string]map[string]bool{},
		Blocked: map[string]map[string]bool{},
	}
}

// clone returns a copy that changes of the State do not reach.
func (s State) clone() State {
	s.Told, s.Given = maps.Clone(s.Told), maps.Clone(s.Given)
	for _, sets := range []*map[string]map[string]bool{&s.Loaded, &s.Loading, &s.Withdrawn, &s.Asked, &s.Blocked} {
		copied := map[string]map[string]bool{}
		for space, names := range *sets {
			copied[space] = maps.Clone(names)
		}
		*sets = copied
	}
	return s
}

// loads reports whether a client loaded an item, or began to load it.
func (s State) loads(campaign, item string) bool {
	return s.Loaded[campaign][item] || s.Loading[campaign][item]
}

// key is the key of a claimant in a scope, or of an item in a campaign.
func key(space, name string) string { return space + " " + name }

func note(sets map[string]map[string]bool, space string, names ...string) {
	if sets[space] == nil {
		sets[space] = map[string]bool{}
	}
	for _, name := range names {
		sets[space][name] = true
	}
}

// checkGrant checks that a claimant may get this answer, and records it.
func (s State) checkGrant(c engine.Campaign, claimant string, g itembank.Grant, now time.Time) error {
	claim := g.Claim
	if claim.Campaign != c.Name || holderOf(claim.Claimant, claim.Slot) != claimant || claim.Scope != c.Scope || claim.ID == "" {
		return fmt.Errorf("the grant for %s is of another: %+v", claimant, claim)
	}
	if s.Blocked[c.Scope][claimant] {
		return fmt.Errorf("%s is blocked, and was given %v", claimant, claim.Items)
	}
	for _, item := range claim.Items {
		if !s.loads(c.Name, item) {
			return fmt.Errorf("%s was given %q, which was not loaded", claimant, item)
		}
	}
	if want := wantColumns(c, claim); !slices.Equal(claim.Columns, want) {
		return fmt.Errorf("%s was given %v with the columns %q, and they were loaded with %q", claimant, claim.Items, claim.Columns, want)
	}
	mine, asked := s.Told[key(c.Scope, claimant)]
	same := asked && mine.Claim.ID == claim.ID
	switch {
	case same && !mine.same(claim):
		return fmt.Errorf("G2: claim %s of %s changed from %+v to %+v", claim.ID, claimant, mine.Claim, claim)
	case asked && !same && !mine.mayBeClosed(now):
		return fmt.Errorf("G2: %s was told of claim %s to %v, and then of %s to %v", claimant, mine.Claim.ID, mine.Claim.Items, claim.ID, claim.Items)
	case same && !g.Replayed:
		return fmt.Errorf("claim %s of %s is told as new twice", claim.ID, claimant)
	}
	for _, item := range claim.Items {
		if err := s.checkItem(c, claimant, g, item, now); err != nil {
			return err
		}
	}
	told := Told{Claim: claim}
	if same {
		told.Released, told.Confirmed = mine.Released, mine.Confirmed
	}
	s.Told[key(c.Scope, claimant)] = told
	for _, item := range claim.Items {
		s.Given[key(c.Name, item)] = claim.ID
	}
	return nil
}

// checkItem checks that the claimant may hold an item of the claim.
func (s State) checkItem(c engine.Campaign, claimant string, g itembank.Grant, item string, now time.Time) error {
	for _, k := range slices.Sorted(maps.Keys(s.Told)) {
		other := s.Told[k]
		if other.Claim.ID != g.Claim.ID && other.Claim.Campaign == c.Name && slices.Contains(other.Claim.Items, item) && !other.mayBeClosed(now) {
			return fmt.Errorf("G1: %s was given to %s, and lives in a claim of %s", item, claimant, other.Claim.Claimant)
		}
	}
	id := s.Given[key(c.Name, item)]
	if id != "" && id != g.Claim.ID && c.OnEnd == engine.Burn {
		return fmt.Errorf("G1: %s was given to %s, and was seen by another before", item, claimant)
	}
	if s.Withdrawn[c.Name][item] && id != g.Claim.ID && !g.Replayed {
		return fmt.Errorf("%s was given to %s, and was withdrawn before", item, claimant)
	}
	return nil
}

// checkRefusal checks that a claimant may get this refusal.
func (s State) checkRefusal(c engine.Campaign, claimant string, err error, now time.Time) error {
	mine, told := s.Told[key(c.Scope, claimant)]
	if !told || mine.mayBeClosed(now) {
		return nil
	}
	var elsewhere *itembank.ClaimedElsewhereError
	if errors.As(err, &elsewhere) && mine.Claim.Campaign != c.Name && elsewhere.Campaign == mine.Claim.Campaign {
		return nil
	}
	return fmt.Errorf("G2: %s holds %v of %s and was refused: %w", claimant, mine.Claim.Items, mine.Claim.Campaign, err)
}

// confirm records that a client asks to confirm a claim.
func (s State) confirm(c engine.Campaign, claimant, id string) {
	k := key(c.Scope, claimant)
	if mine, ok := s.Told[k]; ok && mine.Claim.ID == id {
		mine.Confirmed = true
		s.Told[k] = mine
	}
}

// release records that a client asks to release a claim.
func (s State) release(c engine.Campaign, claimant, id string) {
	k := key(c.Scope, claimant)
	if mine, ok := s.Told[k]; ok && mine.Claim.ID == id {
		mine.Released = true
		s.Told[k] = mine
	}
}
