package itembank_test

import (
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var slotCases = []testCase{
	{"slots-that-there-are-not", noSuchSlot},
	{"scope-for-itself", scopeForItself},
	{"holds-in-slots", holdsInSlots},
	{"replay-and-forget", slotsReplayedAndForgotten},
}

// inSlot claims for ann in a slot, and fails the test if she gets no item.
func (f *fixture) inSlot(b *itembank.Operator, slot int) itembank.Grant {
	f.Helper()
	grant, err := b.Claim(f.ctx, f.name, "ann", itembank.InSlot(slot))
	if err != nil || grant.Claim.Slot != slot {
		f.Fatalf("slot %d: got %+v, %v", slot, grant, err)
	}
	return grant
}

func noSuchSlot(f *fixture) {
	f.stocked(2, itembank.Settings{PerClaimant: 2})
	one := f.named("one")
	one.stocked(1, itembank.Settings{})
	for _, test := range []struct {
		*fixture
		slot int
		want string
	}{{f, 0, "1 to 2"}, {f, -1, "1 to 2"}, {f, 3, "1 to 2"}, {one, 2, "one claim"}, {one, 0, "one claim"}} {
		b, slot := test.bank(), itembank.InSlot(test.slot)
		_, claim := b.Claim(f.ctx, test.name, "ann", slot)
		_, held := b.HeldClaim(f.ctx, test.name, "ann", slot)
		_, release := b.Release(f.ctx, test.name, "ann", "id", slot)
		for doing, err := range map[string]error{"claim": claim, "read": held, "release": release} {
			var invalid *itembank.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != "slot" || !strings.Contains(invalid.Detail, test.want) {
				f.Errorf("%s in slot %d: got %v", doing, test.slot, err)
			}
		}
	}
}

// scopeForItself: a campaign with several slots does not share its scope, because claimants of another campaign would
// have to read every slot.
func scopeForItself(f *fixture) {
	scope := f.name + "-scope"
	refused := func(field, name string, s itembank.Settings) {
		f.Helper()
		_, created, err := f.bank().CreateCampaign(f.ctx, name, s)
		var invalid *itembank.InvalidError
		if created || !errors.As(err, &invalid) || invalid.Field != field {
			f.Errorf("%s: want a refusal of %s, got %t, %v", name, field, created, err)
		}
	}
	f.createNamed(f.name+"-sole", itembank.Settings{Scope: scope, PerClaimant: 2})
	refused("scope", f.name+"-other", itembank.Settings{Scope: scope})
	refused("scope", f.name+"-other", itembank.Settings{Scope: scope, PerClaimant: 2})
	f.createNamed(f.name+"-shared", itembank.Settings{Scope: scope + "-2"})
	refused("per-claimant", f.name+"-third", itembank.Settings{Scope: scope + "-2", PerClaimant: 2})
	refused("per-claimant", f.name+"-fourth", itembank.Settings{PerClaimant: 101})
	refused("per-claimant", f.name+"-fourth", itembank.Settings{PerClaimant: -1})
}

func holdsInSlots(f *fixture) {
	f.stocked(2, itembank.Settings{PerClaimant: 2, Hold: time.Minute})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	first, second := f.inSlot(b, 1).Claim, f.inSlot(b, 2).Claim
	if _, err := b.Confirm(f.ctx, f.name, "ann", second.ID); !errors.Is(err, itembank.ErrClaimEnded) {
		f.Errorf("in another slot: want %v, got %v", itembank.ErrClaimEnded, err)
	}
	confirmed, err := b.Confirm(f.ctx, f.name, "ann", second.ID, itembank.InSlot(2))
	if err != nil || confirmed.Slot != 2 || !confirmed.EndsAt.IsZero() {
		f.Errorf("got %+v, %v", confirmed, err)
	}
	clock.Advance(2 * time.Minute)
	report, err := b.SweepDue(f.ctx, f.name, nil)
	if err != nil || report.Returned != 1 {
		f.Errorf("want one item returned, got %+v, %v", report, err)
	}
	if again := f.inSlot(b, 1); again.Claim.ID == first.ID {
		f.Errorf("the hold still exists: %+v", again)
	}
	if _, err := b.ReleaseHold(f.ctx, f.name, "ann", second.ID, itembank.InSlot(2)); !errors.Is(err, itembank.ErrConfirmed) {
		f.Errorf("want %v, got %v", itembank.ErrConfirmed, err)
	}
}

// slotsReplayedAndForgotten: a claim goes back into its slot, and Forget reads all slots.
func slotsReplayedAndForgotten(f *fixture) {
	f.stocked(3, itembank.Settings{PerClaimant: 3, OnEnd: itembank.Return})
	b := f.bank()
	first, third := f.inSlot(b, 1).Claim, f.inSlot(b, 3).Claim
	f.Must(b.CloseCampaign(f.ctx, f.name))
	for _, claim := range []itembank.Claim{first, third} {
		f.Must(f.raw.DropClaim(f.ctx, rowOf(claim).Key()))
	}
	if report := f.replay(first, third); report.Replayed != 2 {
		f.Errorf("want both claims, got %+v", report)
	}
	for _, claim := range []itembank.Claim{first, third} {
		if held, err := b.HeldClaim(f.ctx, f.name, "ann", itembank.InSlot(claim.Slot)); !reflect.DeepEqual(held, claim) || err != nil {
			f.Errorf("want %+v, got %+v, %v", claim, held, err)
		}
	}
	bad := third
	bad.Slot = 4
	if _, err := b.ReplayDryRun(f.ctx, f.name, replayOf(bad)); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("want %v, got %v", itembank.ErrInvalid, err)
	}
	forgotten, err := b.Forget(f.ctx, f.name, "ann", itembank.ForgetOptions{})
	if err != nil || len(forgotten.Released) != 2 {
		f.Errorf("want both claims, got %+v, %v", forgotten, err)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Free: 3})
}
