package itembankfault

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// sequence compares a Bank with a model in which every request takes a line or two. The requests come one after the
// other. Calls of the store fail, and clients repeat their requests.
type sequence struct {
	*World
	c      engine.Campaign
	open   bool
	places map[string]string         // by item: isFree, heldBy a claimant, or isGone
	marked map[string]bool           // the items that end with their claims, since they were withdrawn
	claims map[string]itembank.Claim // by holder
	older  map[string]string         // by holder: the id of a claim that has ended or was released
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
	return &sequence{
		World: w, open: true, places: map[string]string{}, marked: map[string]bool{},
		claims: map[string]itembank.Claim{}, older: map[string]string{},
	}
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
		settings.Hold = life
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
	return map[string]func(*rapid.T){
		"claim":       func(t *rapid.T) { s.claim(claimant.Draw(t, "claimant")) },
		"claim again": func(t *rapid.T) { s.claim(claimant.Draw(t, "claimant")) },
		"choose": func(t *rapid.T) {
			who := claimant.Draw(t, "claimant")
			if chosen := rapid.SliceOfNDistinct(item, 1, 4, rapid.ID[string]).Draw(t, "items"); s.c.Choice {
				s.claim(who, chosen...)
			}
		},
		"release": func(t *rapid.T) {
			who := claimant.Draw(t, "claimant")
			if claim, ok := s.claims[who]; ok {
				s.Release("", who)
				s.close(claim)
			}
		},
		"confirm": func(t *rapid.T) {
			if who := claimant.Draw(t, "claimant"); s.c.Hold > 0 {
				s.confirm(who)
			}
		},
		"confirm an older hold": func(t *rapid.T) {
			if who := claimant.Draw(t, "claimant"); s.c.Hold > 0 && s.older[who] != "" {
				s.confirmOlder(who)
			}
		},
		"release by the holder": func(t *rapid.T) {
			if who := claimant.Draw(t, "claimant"); s.c.Hold > 0 {
				s.giveUp(who)
			}
		},
		"release an older claim": func(t *rapid.T) {
			who := claimant.Draw(t, "claimant")
			if id := s.older[who]; id != "" {
				r, err := itembank.NewOperator(s.engine.Store).Release(s.ctx, s.c.Name, keyOf(s.c, who).Claimant, id, itembank.InSlot(keyOf(s.c, who).Slot))
				if err != nil || !r.Already {
					s.fail("release of an older claim of %s: %+v, %w", who, r, err)
				}
			}
		},
		"load": func(t *rapid.T) {
			loaded := items.Draw(t, "items")
			s.Load("", loaded...)
			for _, i := range loaded {
				if s.places[i] == "" {
					s.places[i] = isFree
				}
			}
		},
		"withdraw": func(t *rapid.T) {
			withdrawn := items.Draw(t, "items")
			s.Withdraw("", withdrawn...)
			for _, i := range withdrawn {
				switch s.places[i] {
				case isFree:
					s.places[i] = isGone
				case "", isGone:
				default: // held
					s.marked[i] = true
				}
			}
		},
		"sweep": func(*rapid.T) {
			closable := s.closable()
			s.Sweep("")
			for _, claim := range closable {
				s.close(claim)
			}
			s.resync()
		},
		"sweep what is due": func(*rapid.T) {
			closable := s.closable()
			s.SweepDue("")
			for _, claim := range closable {
				s.close(claim)
			}
			s.resync()
		},
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

// closable lists the claims that may be closed now.
func (s *sequence) closable() (all []itembank.Claim) {
	for _, claim := range s.claims {
		if (Told{Claim: claim}).mayBeClosed(s.clock.Now()) {
			all = append(all, claim)
		}
	}
	return all
}

// close ends a claim.
func (s *sequence) close(claim itembank.Claim) {
	holder := holderOf(claim.Claimant, claim.Slot)
	delete(s.claims, holder)
	s.older[holder] = claim.ID
	for _, item := range claim.Items {
		if s.places[item] = isGone; s.c.OnEnd == engine.Return && !s.marked[item] {
			s.places[item] = isFree
		}
	}
}

// confirm confirms the hold of a claimant, if the claimant has one. A hold can be confirmed until it is closed.
func (s *sequence) confirm(claimant string) {
	hold, ok := s.claims[claimant]
	if !ok {
		return
	}
	if refused := s.Confirm("", claimant); refused != nil {
		s.fail("%s holds %+v, and its confirmation was refused: %w", claimant, hold, refused)
	}
	s.claims[claimant] = permanent(hold)
}

// confirmOlder confirms a hold that has ended or was released, which changes nothing.
func (s *sequence) confirmOlder(claimant string) {
	want := itembank.ErrNoClaim
	if _, holds := s.claims[claimant]; holds {
		want = itembank.ErrClaimEnded
	}
	if refused := s.ConfirmID("", claimant, s.older[claimant]); !errors.Is(refused, want) {
		s.fail("%s confirmed an older hold: want %w, got %w", claimant, want, refused)
	}
}

// giveUp releases the hold of a claimant, if the claimant has one and has not confirmed it.
func (s *sequence) giveUp(claimant string) {
	claim, ok := s.claims[claimant]
	if !ok {
		return
	}
	refused := s.ReleaseHold("", claimant)
	if (refused != nil) != claim.EndsAt.IsZero() {
		s.fail("%s releases %+v: %w", claimant, claim, refused)
	}
	if refused == nil {
		s.close(claim)
	}
}

// resync removes the claims from the model that the store closed during a request.
func (s *sequence) resync() {
	for _, claim := range s.closable() {
		held, _, err := s.engine.Store.HeldClaim(s.ctx, keyOf(s.c, holderOf(claim.Claimant, claim.Slot)), engine.Strong)
		s.must(err)
		if held == nil {
			s.close(claim)
		}
	}
}

func (s *sequence) claim(claimant string, chosen ...string) {
	had, holds := s.claims[claimant]
	ended := holds && (Told{Claim: had}).mayBeClosed(s.clock.Now())
	grant, refused := s.Choose("", claimant, chosen...)
	s.resync() // the request may have closed claims of other claimants
	if holds && !ended && (Told{Claim: had}).mayBeClosed(s.clock.Now()) {
		ended = refused != nil || grant.Claim.ID != had.ID // the claim ended during the request
	}
	if ended {
		s.close(had)
	}
	switch {
	case holds && !ended:
		if refused != nil || !reflect.DeepEqual(grant.Claim, had) {
			s.fail("%s holds %+v, and got %+v, %w", claimant, had, grant, refused)
		}
	case !s.open && !errors.Is(refused, itembank.ErrClosed):
		s.fail("the campaign is closed, and %s got %+v, %w", claimant, grant, refused)
	case refused == nil:
		for _, item := range grant.Claim.Items {
			if at := s.places[item]; at != isFree {
				s.fail("%s got %s, which is %s", claimant, item, at)
			}
			s.places[item] = heldBy(claimant)
		}
		s.claims[claimant] = grant.Claim
	case s.open && len(chosen) > 0 && errors.Is(refused, itembank.ErrItemTaken):
		if !slices.ContainsFunc(chosen, func(item string) bool { return s.places[item] != isFree }) {
			s.fail("%s chose %v, which are free: %w", claimant, chosen, refused)
		}
	case s.open && !errors.Is(refused, itembank.ErrSoldOut):
		s.fail("%s was refused: %w", claimant, refused)
	}
}

// compare compares the places of all items with the model.
func (s *sequence) compare() {
	found := map[string]string{}
	for _, i := range s.freeItems(s.c) {
		found[i.Value] += isFree
	}
	for _, claimant := range s.holders() {
		held, _, err := s.engine.Store.HeldClaim(s.ctx, keyOf(s.c, claimant), engine.Strong)
		s.must(err)
		if held != nil {
			for _, item := range held.Items() {
				found[item] += heldBy(claimant)
			}
		}
	}
	for item := range s.places {
		row, err := s.engine.Store.ItemRow(s.ctx, s.c.Name, engine.HashItem(item))
		s.must(err)
		if row == nil {
			found[item] += "not loaded"
		} else if row.State != "" {
			found[item] += isGone
		}
	}
	for _, item := range slices.Sorted(maps.Keys(s.places)) {
		if found[item] != s.places[item] {
			s.fail("%s is %q, and should be %q", item, found[item], s.places[item])
		}
	}
}
