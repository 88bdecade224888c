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
	Replaced  map[string]map[string]bool // by campaign: the items for which their claimants got others
	Asked     map[string]map[string]bool // by scope: the claimants
	Blocked   map[string]map[string]bool // by scope: the holders who get no item any more
	Freed     time.Time                  // when an item was last put into a bank
	Now       time.Time                  // by the clock
}

// Told is a claim that its claimant got as an answer.
type Told struct {
	Claim itembank.Claim
	Asked []opKind  // the requests about the claim that a client sent: they may take effect at any time
	Until time.Time // the last end that a prolongation may give the claim at any time; zero: none may
}

// resolved returns the claim with an end that an answer or the store has, if a prolongation may have made it.
func (t Told) resolved(end time.Time) Told {
	if !t.Claim.EndsAt.IsZero() && end.After(t.Claim.EndsAt) && !end.After(t.Until) {
		t.Claim.EndsAt = end
	}
	return t
}

// claims returns the claims that the claimant may have.
func (t Told) claims() []register {
	o := op{result: unknown}
	o.names(t.Claim)
	states := []register{{held: o.id != "", id: o.id, campaign: t.Claim.Campaign, item: o.item, endsAt: o.endsAt}}
	for _, o.kind = range t.Asked {
		states = fold(states, o, rules{}.stepClaimant)
	}
	return states
}

// mayBeClosed reports whether the claim may have been closed.
func (t Told) mayBeClosed(now time.Time) bool {
	return slices.ContainsFunc(t.claims(), func(s register) bool { return s.free(op{clockDone: now.UnixMilli()}) })
}

// asked reports whether a client sent a request of this kind about the claim.
func (t Told) asked(kind opKind) bool { return slices.Contains(t.Asked, kind) }

// same reports whether a claim may be the claim that the claimant got as an answer.
func (t Told) same(claim itembank.Claim) bool {
	is := Told{Claim: claim}.claims()[0]
	return slices.Contains(t.claims(), is) && reflect.DeepEqual(permanent(claim), permanent(t.Claim))
}

func newState() State {
	return State{
		Told: map[string]Told{}, Given: map[string]string{},
		Loaded: map[string]map[string]bool{}, Loading: map[string]map[string]bool{},
		Withdrawn: map[string]map[string]bool{}, Replaced: map[string]map[string]bool{},
		Asked: map[string]map[string]bool{}, Blocked: map[string]map[string]bool{},
	}
}

// clone returns a copy that changes of the State do not reach.
func (s State) clone() State {
	s.Told, s.Given = maps.Clone(s.Told), maps.Clone(s.Given)
	for _, sets := range []*map[string]map[string]bool{&s.Loaded, &s.Loading, &s.Withdrawn, &s.Replaced, &s.Asked, &s.Blocked} {
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
	mine := s.Told[key(c.Scope, claimant)]
	same := mine.Claim.ID == claim.ID
	if same {
		mine = mine.resolved(claim.EndsAt)
		s.Told[key(c.Scope, claimant)] = mine
	}
	o := op{kind: claimOp, campaign: c.Name, result: ok, replayed: g.Replayed, clockDone: now.UnixMilli()}
	o.names(claim)
	switch {
	case same && !g.Replayed:
		return fmt.Errorf("claim %s of %s is told as new twice", claim.ID, claimant)
	case same && !mine.same(claim) || !mine.allows(c, o):
		return fmt.Errorf("G2: %s was told of %+v, and then of %+v", claimant, mine, claim)
	}
	for _, item := range claim.Items {
		if places := s.placesOf(c, item, o); len(fold(places, o, rulesOf(c).stepItem)) == 0 {
			return fmt.Errorf("G1: %s was given to %s, and is in one of the places %+v", item, claimant, places)
		}
	}
	told := Told{Claim: claim}
	if same {
		told.Asked, told.Until = mine.Asked, mine.Until
	}
	s.Told[key(c.Scope, claimant)] = told
	for _, item := range claim.Items {
		s.Given[key(c.Name, item)] = claim.ID
	}
	return nil
}

// checkReplaced checks that a claimant may get this answer to the replacement of the latest claim, and records it.
func (s State) checkReplaced(c engine.Campaign, claimant string, g itembank.Grant, now time.Time) error {
	k, r, next := key(c.Scope, claimant), rulesOf(c), g.Claim
	mine := s.Told[k].resolved(next.EndsAt)
	o := op{kind: replaceOp, campaign: c.Name, result: ok, replayed: g.Replayed, clockDone: now.UnixMilli()}
	o.names(mine.Claim)
	o.next = grantedBy(next)
	if want := wantColumns(c, next); !slices.Equal(next.Columns, want) {
		return fmt.Errorf("%s was given %v with the columns %q, and they were loaded with %q", claimant, next.Items, next.Columns, want)
	}
	if len(fold(mine.claims(), o, r.stepClaimant)) == 0 || holderOf(next.Claimant, next.Slot) != claimant || next.Campaign != c.Name {
		return fmt.Errorf("G2: %s was told of %+v, and then that %+v replaces it", claimant, mine, next)
	}
	r.item = o.next.item
	if places := s.placesOf(c, r.item, o); !s.loads(c.Name, r.item) || len(fold(places, o, r.stepItem)) == 0 {
		return fmt.Errorf("G1: %s was given to %s, and is in one of the places %+v", r.item, claimant, places)
	}
	note(s.Replaced, c.Name, o.item)
	s.Told[k] = Told{Claim: next}
	s.Given[key(c.Name, r.item)] = next.ID
	return nil
}

// rulesOf returns the rules of a campaign whose requests are not all known.
func rulesOf(c engine.Campaign) rules { return rules{onEnd: itembank.OnEnd(c.OnEnd), untold: true} }

// allows reports whether a request of the claimant may have its result.
func (t Told) allows(c engine.Campaign, o op) bool {
	return len(fold(t.claims(), o, rulesOf(c).stepClaimant)) > 0
}

// placesOf returns the places where a loaded item may be when a request ends.
func (s State) placesOf(c engine.Campaign, item string, ends op) []place {
	r, places := rulesOf(c), []place{freeItem}
	if s.Replaced[c.Name][item] {
		return []place{overItem}
	}
	if id := s.Given[key(c.Name, item)]; id != "" {
		places = s.placesAfter(id, r)
	}
	for _, p := range places {
		if p.closable(ends) {
			places = append(places, p.after(r))
		}
	}
	if s.Withdrawn[c.Name][item] {
		places = fold(places, op{kind: withdrawOp, items: []string{item}, result: alreadyReleased}, r.stepItem)
	}
	return places
}

// placesAfter returns the places where an item may be after it was given in a claim.
func (s State) placesAfter(id string, r rules) (places []place) {
	for _, t := range s.Told {
		for _, claim := range t.claims() {
			if p := (place{held, id, claim.endsAt, false}); t.Claim.ID == id && claim.held {
				places = append(places, p)
			} else if t.Claim.ID == id {
				places = append(places, p.after(r))
			}
		}
	}
	if len(places) == 0 { // its claimant got another claim since then
		places = []place{place{}.after(r)}
	}
	return places
}

// checkRefusal checks that a claimant may get this refusal.
func (s State) checkRefusal(c engine.Campaign, claimant string, err error, now time.Time) error {
	mine := s.Told[key(c.Scope, claimant)]
	o := op{kind: claimOp, campaign: c.Name, result: refused, clockDone: now.UnixMilli()}
	var other *itembank.ClaimedElsewhereError
	if errors.As(err, &other) && !mine.mayBeClosed(now) {
		o.result, o.elsewhere = elsewhere, other.Campaign
	}
	if !mine.allows(c, o) {
		return fmt.Errorf("G2: %s holds %v of %s and was refused: %w", claimant, mine.Claim.Items, mine.Claim.Campaign, err)
	}
	return nil
}

// prolong records that a client asks to prolong the claim that its claimant was told of.
func (s State) prolong(c engine.Campaign, claimant string) {
	k := key(c.Scope, claimant)
	if mine := s.Told[k]; !mine.Claim.EndsAt.IsZero() {
		mine.Until = mine.Claim.ClaimedAt.Add(c.MaxHold)
		s.Told[k] = mine
	}
}

// prolonged checks the answer to a prolongation, and records it.
func (s State) prolonged(c engine.Campaign, claimant string, seen, claim itembank.Claim) error {
	told := s.Told[key(c.Scope, claimant)].resolved(claim.EndsAt)
	if told.Claim.ID != claim.ID || !told.same(claim) {
		return fmt.Errorf("%s was told of %+v, and prolonged %+v", claimant, told, claim)
	}
	if told.Claim = claim; claim.EndsAt.After(seen.EndsAt) { // no earlier request can change it any more
		told.Until = time.Time{}
	}
	s.Told[key(c.Scope, claimant)] = told
	return nil
}

// confirm records that a client asks to confirm a claim.
func (s State) confirm(c engine.Campaign, claimant, id string) { s.asks(confirmOp, c, claimant, id) }

// release records that a client asks to release a claim.
func (s State) release(c engine.Campaign, claimant, id string) { s.asks(releaseOp, c, claimant, id) }

func (s State) asks(kind opKind, c engine.Campaign, claimant, id string) {
	k := key(c.Scope, claimant)
	if mine, ok := s.Told[k]; ok && mine.Claim.ID == id && !mine.asked(kind) {
		mine.Asked = append(slices.Clone(mine.Asked), kind)
		s.Told[k] = mine
	}
}
