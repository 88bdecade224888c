package itembankfault

import (
	"errors"
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

// sequence is a World with random requests, which come one after the other. Calls of the store fail, and clients repeat
// their requests. At the end the rows must be as the model says.
type sequence struct {
	*World
	c     engine.Campaign
	open  bool
	older map[string]string // by holder: the id of a claim that has ended or was released
}

// isGone is the place of an item that ended, for whatever reason.
const isGone = "gone"

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
	return &sequence{World: w, open: true, older: map[string]string{}}
}

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
		settings.Hold, settings.MaxHold = life, 3*life
	} else {
		settings.ClaimLife = life
		settings.OnEnd = rapid.SampledFrom([]itembank.OnEnd{itembank.Return, itembank.Burn}).Draw(rt, "on end")
	}
	s.Create("", settings)
	s.c = s.campaigns[""]
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
	item := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("item-%d", rapid.IntRange(0, 7).Draw(t, "n")) })
	items := rapid.SliceOfN(item, 1, 5)
	by := func(request func(holder string)) func(*rapid.T) {
		return func(t *rapid.T) { request(claimant.Draw(t, "claimant")) }
	}
	claim := by(func(holder string) { s.claim(holder) })
	return map[string]func(*rapid.T){
		"claim":       claim,
		"claim again": claim,
		"choose": func(t *rapid.T) {
			who := claimant.Draw(t, "claimant")
			if chosen := rapid.SliceOfNDistinct(item, 1, 4, rapid.ID[string]).Draw(t, "items"); s.c.Choice {
				s.claim(who, chosen...)
			}
		},
		"release":                by(s.release),
		"release an older claim": by(s.releaseOlder),
		"confirm":                by(s.confirm),
		"confirm an older hold":  by(s.confirmOlder),
		"prolong":                by(s.prolong),
		"release by the holder":  by(s.giveUp),
		"replace":                by(s.replace),
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
}

// holders lists the holders that claim.
func (s *sequence) holders() []string {
	if s.c.PerClaimant > 1 {
		return slotHolders
	}
	return claimants
}

// told returns the latest claim that a holder was told of.
func (s *sequence) told(holder string) Told { return s.state.Told[key(s.c.Scope, holder)] }

// holds reports whether a holder was told of a claim that no client asked to release.
func (s *sequence) holds(holder string) bool {
	told := s.told(holder)
	return told.Claim.ID != "" && !told.asked(releaseOp)
}

// release releases the claim of a holder.
func (s *sequence) release(holder string) {
	if s.holds(holder) {
		s.Release("", holder)
		s.older[holder] = s.told(holder).Claim.ID
	}
}

// releaseOlder releases a claim that has ended or was released, which changes nothing.
func (s *sequence) releaseOlder(holder string) {
	k, id := keyOf(s.c, holder), s.older[holder]
	if id == "" {
		return
	}
	r, err := itembank.NewOperator(s.engine.Store).Release(s.ctx, s.c.Name, k.Claimant, id, itembank.InSlot(k.Slot))
	if err != nil || !r.Already {
		s.fail("release of an older claim of %s: %+v, %w", holder, r, err)
	}
}

// confirm confirms the hold of a holder.
func (s *sequence) confirm(holder string) {
	if s.c.Hold > 0 && s.holds(holder) {
		_ = s.Confirm("", holder)
	}
}

// confirmOlder confirms a hold that has ended or was released, which changes nothing.
func (s *sequence) confirmOlder(holder string) {
	if s.c.Hold == 0 || s.older[holder] == "" {
		return
	}
	refused := s.ConfirmID("", holder, s.older[holder])
	none, ended := errors.Is(refused, itembank.ErrNoClaim), errors.Is(refused, itembank.ErrClaimEnded)
	if told := s.told(holder); !none && !ended || none && !told.mayBeClosed(s.clock.Now()) {
		s.fail("%s has %+v, and confirmed an older hold: %w", holder, told, refused)
	}
}

// prolong prolongs the hold of a holder.
func (s *sequence) prolong(holder string) {
	if s.c.Hold > 0 && s.holds(holder) {
		_ = s.Prolong("", holder)
	}
}

// giveUp releases the hold of a holder, for the holder.
func (s *sequence) giveUp(holder string) {
	if s.c.Hold == 0 || !s.holds(holder) {
		return
	}
	hold := s.told(holder).Claim
	refused := s.ReleaseHold("", holder)
	if (refused != nil) != hold.EndsAt.IsZero() {
		s.fail("%s releases %+v: %w", holder, hold, refused)
	}
	if refused == nil {
		s.older[holder] = hold.ID
	}
}

// replace replaces the claim of a holder. An open campaign refuses only if items are missing, or if the claim has ended.
func (s *sequence) replace(holder string) {
	told := s.told(holder)
	if !s.holds(holder) || len(told.Claim.Items) > 1 {
		return
	}
	ended := slices.ContainsFunc(told.claims(), func(r register) bool { return r.endsAt != 0 && r.endsAt <= s.clock.Now().UnixMilli() })
	switch _, refused := s.Replace("", holder); {
	case refused == nil && s.open:
		s.older[holder] = told.Claim.ID
	case ended && errors.Is(refused, itembank.ErrNoClaim):
	case !s.open && errors.Is(refused, itembank.ErrClosed):
	case s.open && errors.Is(refused, itembank.ErrSoldOut):
	default:
		s.fail("the campaign is open: %t, and %+v of %s was not replaced: %w", s.open, told, holder, refused)
	}
}

// claim claims for a holder. An open campaign refuses only if items are missing, and a closed one gives no new claim.
func (s *sequence) claim(holder string, chosen ...string) {
	had := s.told(holder).Claim.ID
	grant, refused := s.Choose("", holder, chosen...)
	switch {
	case refused == nil && grant.Claim.ID == had:
	case refused == nil && s.open:
		s.older[holder] = had
	case !s.open && errors.Is(refused, itembank.ErrClosed):
	case s.open && errors.Is(refused, itembank.ErrSoldOut):
	case s.open && len(chosen) > 0 && errors.Is(refused, itembank.ErrItemTaken) && slices.ContainsFunc(chosen, s.mayBeTaken):
	default:
		s.fail("the campaign is open: %t, and %s, who chose %v, got %+v, %w", s.open, holder, chosen, grant, refused)
	}
}

// mayBeTaken reports whether an item may be in another place than in the bank.
func (s *sequence) mayBeTaken(item string) bool {
	return !s.state.loads(s.c.Name, item) || !slices.Equal(s.placesNow(item), []place{freeItem})
}

// placesNow returns the places where a loaded item may be now.
func (s *sequence) placesNow(item string) []place {
	return s.state.placesOf(s.c, item, op{clockDone: s.clock.Now().UnixMilli()})
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
	for _, item := range slices.Sorted(maps.Keys(s.state.Loaded[s.c.Name])) {
		row, err := s.engine.Store.ItemRow(s.ctx, s.c.Name, engine.HashItem(item))
		s.must(err)
		if row == nil {
			found[item] += "not loaded"
		} else if row.State != "" {
			found[item] += isGone
		}
		places := s.placesNow(item)
		if !slices.ContainsFunc(places, func(p place) bool { return p.inRows() == found[item] }) {
			s.fail("%s is %q, and should be in one of the places %+v", item, found[item], places)
		}
	}
}

// inRows returns the text of an item's place in the rows. A sequence has no claim whose reply was lost for ever.
func (s place) inRows() string {
	switch {
	case s.where == held:
		return heldBy(s.id)
	case s.where == ended:
		return isGone
	case s.marked:
		return "in an unknown claim"
	}
	return isFree
}
