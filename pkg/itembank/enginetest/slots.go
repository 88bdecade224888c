package enginetest

import (
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var slotCases = []testCase{
	{"slots-are-claims-of-their-own", slotsOfTheirOwn},
	{"slots-are-closed-one-by-one", slotsClosed},
}

// takeSlot takes an item into a slot of a claimant.
func (f *fixture) takeSlot(c engine.Campaign, claimant string, slot int, item string) engine.Claim {
	f.Helper()
	claim := enginerows.NewClaim(c, claimant, item)
	claim.Slot = slot
	f.wantTake(c, claim, engine.TakeResult{})
	return claim
}

func (f *fixture) wantTake(c engine.Campaign, claim engine.Claim, want engine.TakeResult) {
	f.Helper()
	got, err := f.Store.Take(f.Context(), []engine.FreeItem{enginerows.FreeItem(c, claim.Item)}, claim)
	f.Must(err)
	same := got.Held == nil && want.Held == nil || got.Held != nil && want.Held != nil && *got.Held == *want.Held
	got.Held, want.Held = nil, nil
	if !same || got != want {
		f.Errorf("%+v: want %+v, got %+v", claim.Key(), want, got)
	}
}

// wantSlot compares the claim in a slot; the zero claim means that the slot is free.
func (f *fixture) wantSlot(key engine.ClaimKey, want engine.Claim) {
	f.Helper()
	held, conflict, err := f.Store.HeldClaim(f.Context(), key, engine.Strong)
	f.Must(err)
	if held == nil {
		held = &engine.Claim{}
	}
	if conflict || *held != want {
		f.Errorf("%+v: want %+v, got %+v", key, want, held)
	}
}

// slotsOfTheirOwn: a claim is put if its own slot is free, whatever claims the other slots have.
func slotsOfTheirOwn(f *fixture) {
	c, items := f.stocked(6, 2)
	first, second := f.takeSlot(c, "ann", 1, items[0]), f.takeSlot(c, "ann", 2, items[1])
	tenth, twelfth := f.takeSlot(c, "ann", 10, items[2]), f.takeSlot(c, "2#ann", 1, items[3])
	for _, claim := range []engine.Claim{first, second, tenth, twelfth} {
		f.wantSlot(claim.Key(), claim)
		again := enginerows.NewClaim(c, claim.Claimant, items[4])
		again.Slot = claim.Slot
		f.wantTake(c, again, engine.TakeResult{Held: &claim})
		eventually, _, err := f.Store.HeldClaim(f.Context(), claim.Key(), engine.Eventual)
		f.Must(err)
		if eventually != nil && *eventually != claim {
			f.Errorf("%+v: want %+v, got %+v", claim.Key(), claim, eventually)
		}
	}
	f.wantSlot(engine.ClaimKey{Scope: c.Scope, Claimant: "ann", Slot: 3}, engine.Claim{})
	f.WantCounts(c, engine.Counts{Loaded: 6, Free: 2, Claimed: 4})
}

// slotsClosed: a change of a claim does not change the other slots of its claimant.
func slotsClosed(f *fixture) {
	c, items := f.stocked(3, 1)
	end := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	var claims []engine.Claim
	for i, item := range items {
		claim := enginerows.NewClaim(c, "ann", item)
		claim.Slot, claim.EndsAt = i+1, end
		f.wantTake(c, claim, engine.TakeResult{})
		claims = append(claims, claim)
	}
	page, err := f.Store.DueClaims(f.Context(), engine.Shard{Campaign: c.Name}, time.Time{}, end.Add(time.Second), 10)
	f.Must(err)
	for _, claim := range claims {
		if !slices.Contains(page.Claims, engine.DueClaim{ClaimKey: claim.Key(), EndsAt: end}) {
			f.Errorf("slot %d is not in the list of due claims: %+v", claim.Slot, page.Claims)
		}
	}

	otherSlot := claims[0]
	otherSlot.Slot = 2
	if r, err := f.Store.CloseClaim(f.Context(), enginerows.BurnOf(c, otherSlot)); !r.ClaimChanged || err != nil {
		f.Errorf("want another claim in the slot, got %+v, %v", r, err)
	}
	if r, err := f.Store.ConfirmClaim(f.Context(), otherSlot); r.Held == nil || *r.Held != claims[1] || err != nil {
		f.Errorf("want the claim in the slot, got %+v, %v", r, err)
	}
	confirmed, err := f.Store.ConfirmClaim(f.Context(), claims[1])
	f.Must(err)
	claims[1].EndsAt = time.Time{}
	if confirmed.Held == nil || *confirmed.Held != claims[1] {
		f.Errorf("want %+v, got %+v", claims[1], confirmed.Held)
	}
	f.Close(enginerows.BurnOf(c, claims[0]))
	f.wantSlot(claims[0].Key(), engine.Claim{})
	f.wantSlot(claims[1].Key(), claims[1])
	f.wantSlot(claims[2].Key(), claims[2])
	f.WantCounts(c, engine.Counts{Loaded: 3, Claimed: 2, Ended: 1})
}
