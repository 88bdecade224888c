package itembankfault

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// sequence is a history with one client, whose requests come one after the other. Calls of the store fail, and the
// client repeats its requests.
type sequence struct {
	*World
	c      engine.Campaign
	open   bool
	claims map[string][]register // by holder: the claims that the holder may have
	places map[string][]place    // by item: the places where it may be
}

// RunSequences plays random sequences. rapid's flag -rapid.checks sets their number.
func RunSequences(t *testing.T, newEngine func(testing.TB) enginetest.Engine) {
	e := newEngine(t)
	rapid.Check(t, func(rt *rapid.T) {
		s := newSequence(newWorld(t.Context(), e))
		w := s.World
		violated := w.violated(func() {
			s.create(rt)
			fault := rapid.SampledFrom(append(faultsOf("Take"), SlowReply))
			s.breakCalls(rapid.SliceOfN(fault, 1, 20).Draw(rt, "faults"), rapid.IntRange(24, 48).Draw(rt, "calls between faults"))
			rt.Repeat(s.actions())
			s.compare()
			w.checkRows(false)
		})
		if violated != nil {
			rt.Fatal(violated)
		}
	})
}

func newSequence(w *World) *sequence {
	w.random = Seeded()
	w.newBank()
	s := &sequence{World: w, open: true, claims: map[string][]register{}, places: map[string][]place{}}
	for n := range sequenceItems {
		s.places[fmt.Sprintf("item-%d", n)] = []place{{}}
	}
	w.answered = s.play
	return s
}

// sequenceItems is the number of items of a sequence.
const sequenceItems = 8

// create creates the campaign of the sequence, with random settings.
func (s *sequence) create(rt *rapid.T) {
	settings := itembank.Settings{
		Shards: rapid.IntRange(1, 2).Draw(rt, "shards"), PageSize: rapid.IntRange(1, 3).Draw(rt, "page"),
	}
	if settings.Choice = rapid.Bool().Draw(rt, "choice"); settings.Choice {
		settings.MaxItems = engine.MaxClaimItems
	}
	settings.Columns = rapid.Bool().Draw(rt, "columns")
	settings.ClaimantAs = rapid.SampledFrom([]itembank.ClaimantAs{itembank.Exact, itembank.Email}).Draw(rt, "claimant as")
	if rapid.Bool().Draw(rt, "slots") {
		settings.PerClaimant = 2
	}
	if rapid.Bool().Draw(rt, "holds") {
		settings.Hold = life
	} else {
		settings.ClaimLife = life
		settings.OnEnd = rapid.SampledFrom([]itembank.OnEnd{itembank.Return, itembank.Burn}).Draw(rt, "on end")
	}
	s.Create("", settings)
	s.c = s.campaigns[""]
	for _, holder := range s.holders() {
		s.claims[holder] = []register{{}}
	}
}

// breakCalls makes one call in so many fail. The interval is more calls than any request makes, except for requests
// that read a list, or an index with each claim that it names. Those would never end, so their reads do not fail.
func (s *sequence) breakCalls(faults []Fault, between int) {
	reads := []string{"ListClaims", "ListItemRows", "DueClaims", "HeldClaimEventuallyConsistent"}
	left, n := between, 0
	s.through = &Store{Store: s.engine.Store, Slow: s.slow, MaxCalls: maxCalls, Server: s.clock, indexBehind: true, Plan: func(_ int, method string) Fault {
		if slices.Contains(reads, method) {
			return None
		}
		if left--; left > 0 {
			return None
		}
		left, n = between, n+1
		return faults[n%len(faults)]
	}}
	s.newBank()
}

func (s *sequence) actions() map[string]func(*rapid.T) {
	claimant := rapid.SampledFrom(s.holders())
	item := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("item-%d", rapid.IntRange(0, sequenceItems-1).Draw(t, "n"))
	})
	items := rapid.SliceOfN(item, 1, 5)
	claim := func(t *rapid.T) { _, _ = s.Claim("", claimant.Draw(t, "claimant")) }
	holder := func(request func(holder string)) func(*rapid.T) {
		return func(t *rapid.T) {
			if who := claimant.Draw(t, "claimant"); s.claims[who][0].held {
				request(who)
			}
		}
	}
	formerHolder := func(request func(holder, older string)) func(*rapid.T) {
		return func(t *rapid.T) {
			who := claimant.Draw(t, "claimant")
			if older := s.claims[who][0].older; older != "" {
				request(who, older)
			}
		}
	}
	actions := map[string]func(*rapid.T){
		"claim":                  claim,
		"claim again":            claim,
		"release":                holder(func(who string) { s.Release("", who) }),
		"release an older claim": formerHolder(s.releaseOlder),
		"load":                   func(t *rapid.T) { s.Load("", items.Draw(t, "items")...) },
		"withdraw":               func(t *rapid.T) { s.Withdraw("", items.Draw(t, "items")...) },
		"sweep":                  func(*rapid.T) { s.Sweep("") },
		"sweep what is due":      func(*rapid.T) { s.SweepDue("") },
		"open or close": func(*rapid.T) {
			s.open = !s.open
			s.SetOpen("", s.open)
		},
		"advance": func(t *rapid.T) {
			s.clock.Advance(rapid.SampledFrom([]time.Duration{300 * time.Millisecond, 2 * time.Second, 2 * life}).Draw(t, "time"))
		},
		"another Bank": func(*rapid.T) { s.newBank() },
	}
	if s.c.Choice {
		chosen := rapid.SliceOfNDistinct(item, 1, 4, rapid.ID[string])
		actions["choose"] = func(t *rapid.T) {
			_, _ = s.Choose("", claimant.Draw(t, "claimant"), chosen.Draw(t, "items")...)
		}
	}
	if s.c.Hold > 0 {
		actions["confirm"] = holder(func(who string) { _ = s.Confirm("", who) })
		actions["confirm an older hold"] = formerHolder(func(who, older string) { _ = s.ConfirmID("", who, older) })
		actions["release by the holder"] = holder(func(who string) { _ = s.ReleaseHold("", who) })
	}
	return actions
}

// holders lists the holders that claim.
func (s *sequence) holders() []string {
	if s.c.PerClaimant > 1 {
		return slotHolders
	}
	return claimants
}

// releaseOlder releases a claim that has ended or was released, which changes nothing.
func (s *sequence) releaseOlder(holder, id string) {
	k := keyOf(s.c, holder)
	r, err := itembank.NewOperator(s.engine.Store).Release(s.ctx, s.c.Name, k.Claimant, id, itembank.InSlot(k.Slot))
	if err != nil || !r.Already {
		s.fail("release of an older claim of %s: %+v, %w", holder, r, err)
	}
}

// play plays a request and its result in the model.
func (s *sequence) play(o op) {
	if o.result == notFree && !slices.ContainsFunc(o.chosen, s.mayBeTaken) {
		s.fail("all chosen items are free: %s", o)
	}
	r := s.rules()
	for holder, before := range s.claims {
		if o.claimant != holder && o.claimant != "" {
			continue
		}
		step := func(s register, o op) []register { return stepClaimant(s, o, r) }
		if s.claims[holder] = fold(before, o, step); len(s.claims[holder]) == 0 {
			s.fail("G2: %s has one of the claims %+v: %s", holder, before, o)
		}
	}
	for item, before := range s.places {
		if !o.isAbout(item) {
			continue
		}
		step := func(p place, o op) []place { return stepItem(p, o, r) }
		if s.places[item] = fold(before, o, step); len(s.places[item]) == 0 {
			s.fail("G1: %s is in one of the places %+v: %s", item, before, o)
		}
	}
}

func (s *sequence) rules() rules { return rules{onEnd: itembank.OnEnd(s.c.OnEnd), life: life} }

// mayBeTaken reports whether an item may be in another place than in the bank.
func (s *sequence) mayBeTaken(item string) bool {
	return slices.ContainsFunc(s.places[item], func(p place) bool { return p != freeItem })
}

// compare compares the places of all items with the model.
func (s *sequence) compare() {
	found := map[string]string{}
	for _, i := range s.freeItems(s.c) {
		found[i.Value] += isFree
	}
	for _, holder := range s.holders() {
		held, _, err := s.engine.Store.HeldClaim(s.ctx, keyOf(s.c, holder), engine.Strong)
		s.must(err)
		if held != nil {
			for _, item := range held.Items() {
				found[item] += heldBy(held.ID)
			}
		}
	}
	now := op{clockDone: s.clock.Now().UnixMilli()}
	for _, item := range slices.Sorted(maps.Keys(s.places)) {
		row, err := s.engine.Store.ItemRow(s.ctx, s.c.Name, engine.HashItem(item))
		s.must(err)
		if row == nil {
			found[item] += isUnknown
		} else if row.State != "" {
			found[item] += isGone
		}
		var want []string
		for _, p := range s.places[item] {
			want = append(want, p.String())
			if p.closable(now) {
				want = append(want, p.after(s.rules()).String())
			}
		}
		if !slices.Contains(want, found[item]) {
			s.fail("%s is %q, and should be one of %q", item, found[item], want)
		}
	}
}

// The places of an item that is neither free nor held.
const isUnknown, isGone = "not loaded", "gone"

// String returns the item's place as its rows show it.
func (s place) String() string {
	switch {
	case s.where == held:
		return heldBy(s.id)
	case s.where == ended:
		return isGone
	case s.where == notLoaded:
		return isUnknown
	case s.marked:
		return "in a claim whose reply was lost"
	}
	return isFree
}
