package itembank_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var holdCases = []testCase{
	{"holder-needs-no-fresh-rules-to-read", holderNeedsNoFreshRules},
	{"settings", holdSettings},
	{"confirm", confirm},
	{"confirm-in-a-shared-scope", confirmInSharedScope},
	{"confirm-of-a-hold-that-is-over", confirmOfHoldThatIsOver},
	{"confirm-meets-other-transactions", confirmMeetsOthers},
	{"prolong", prolong},
	{"prolong-until-it-is-closed", prolongUntilClosed},
	{"prolong-only-where-it-is-allowed", prolongOnlyAllowed},
	{"release-by-the-holder", releaseByHolder},
	{"only-where-there-are-holds", onlyHolds},
}

var holds = itembank.Settings{Shards: 1, Hold: time.Minute}

// holdSettings: a hold returns, and is the only end of a claim.
func holdSettings(f *fixture) {
	c, created, err := f.bank().CreateCampaign(f.ctx, f.name, holds)
	if err != nil || !created || c.Hold != time.Minute || c.OnEnd != itembank.Return {
		f.Fatalf("want holds that return, got %+v, created %t, %v", c, created, err)
	}
	same := holds
	same.OnEnd = itembank.Return
	if again, created, err := f.bank().CreateCampaign(f.ctx, f.name, same); err != nil || created || again != c {
		f.Errorf("again: want %+v, got %+v, created %t, %v", c, again, created, err)
	}
	if read, err := f.bank().Campaign(f.ctx, f.name); err != nil || read != c {
		f.Errorf("want %+v read, got %+v, %v", c, read, err)
	}
	for _, test := range []struct {
		settings itembank.Settings
		field    string
		says     string
	}{
		{itembank.Settings{Hold: time.Minute, OnEnd: itembank.Burn}, "on-end", "hold"},
		{itembank.Settings{Hold: time.Minute, ClaimLife: time.Minute}, "claim-life", "hold"},
		{itembank.Settings{Hold: 29 * time.Second}, "hold", "30s"},
		{itembank.Settings{Hold: -time.Minute}, "hold", "30s"},
		{itembank.Settings{Hold: time.Minute + time.Microsecond}, "hold", "milliseconds"},
		{itembank.Settings{Hold: 101 * 365 * 24 * time.Hour}, "hold", "100 years"},
		{itembank.Settings{MaxHold: time.Hour}, "max-hold", "needs `hold`"},
		{itembank.Settings{ClaimLife: time.Minute, MaxHold: time.Hour}, "max-hold", "needs `hold`"},
		{itembank.Settings{Hold: time.Minute, MaxHold: time.Minute}, "max-hold", "must be longer than `hold` (1m0s)"},
		{itembank.Settings{Hold: time.Minute, MaxHold: -time.Minute}, "max-hold", "must be longer than `hold` (1m0s)"},
		{itembank.Settings{Hold: time.Minute, MaxHold: time.Hour + time.Microsecond}, "max-hold", "milliseconds"},
	} {
		var invalid *itembank.InvalidError
		_, _, err := f.bank().CreateCampaign(f.ctx, f.name+"-other", test.settings)
		if !errors.As(err, &invalid) || invalid.Field != test.field || !strings.Contains(invalid.Detail, test.says) {
			f.Errorf("%+v: want %s refused with %q, got %v", test.settings, test.field, test.says, err)
		}
	}
	for _, change := range []func(*itembank.Settings){
		func(s *itembank.Settings) { s.Hold = time.Hour }, func(s *itembank.Settings) { s.MaxHold = time.Hour },
	} {
		other := holds
		change(&other)
		if _, _, err := f.bank().CreateCampaign(f.ctx, f.name, other); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("%+v: want it refused, got %v", other, err)
		}
	}
}

// confirmed confirms a claim, which must succeed, and returns the confirmed claim.
func (f *fixture) confirmed(b *itembank.Operator, hold itembank.Claim) itembank.Claim {
	f.Helper()
	want := hold
	want.EndsAt = time.Time{}
	if got, err := b.Confirm(f.ctx, hold.Campaign, hold.Claimant, hold.ID); err != nil || !reflect.DeepEqual(got, want) {
		f.Fatalf("confirm for %s: want %+v, got %+v, %v", hold.Claimant, want, got, err)
	}
	return want
}

// notConfirmed tries to confirm a claim of ann's, and expects the refusal.
func (f *fixture) notConfirmed(b *itembank.Operator, id string, want error) {
	f.Helper()
	if claim, err := b.Confirm(f.ctx, f.name, "ann", id); !errors.Is(err, want) || !errors.Is(err, itembank.ErrRefused) {
		f.Errorf("confirm for ann: want %v, got %+v, %v", want, claim, err)
	}
}

// sweptDue runs SweepDue, and compares the report.
func (f *fixture) sweptDue(b *itembank.Operator, want itembank.SweepReport) {
	f.Helper()
	if got, err := b.SweepDue(f.ctx, f.name, nil); err != nil || got != want {
		f.Errorf("sweep of what is due: want %+v, got %+v, %v", want, got, err)
	}
}

// confirm: a confirmed hold stays; a hold that is not confirmed goes back.
func confirm(f *fixture) {
	c, _ := f.stocked(2, holds)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	ann, bob := f.claim(b, "ann").Claim, f.claim(b, "bob").Claim
	if want := ann.ClaimedAt.Add(time.Minute); !ann.EndsAt.Equal(want) {
		f.Fatalf("want a hold that ends at %s, got %+v", want, ann)
	}
	permanent := f.confirmed(b, ann)
	f.confirmed(b, ann) // again
	if again := f.claim(b, "ann"); !reflect.DeepEqual(again.Claim, permanent) || !again.Replayed {
		f.Errorf("want %+v, got %+v", permanent, again)
	}
	clock.SetTo(bob.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{Returned: 1})
	f.swept(b, itembank.SweepReport{})
	f.WantWhere("free", c, bob.Items[0], "ann", "bob")
	f.WantWhere("held by ann", c, ann.Items[0], "ann", "bob")
	f.confirmed(b, ann)
	f.released(b, rowOf(permanent), itembank.Released{Returned: true}) // by an operator
	f.notConfirmed(b, ann.ID, itembank.ErrNoClaim)
}

// confirmInSharedScope: a hold is confirmed through its own campaign only.
func confirmInSharedScope(f *fixture) {
	s := holds
	s.Scope = f.name + "-scope"
	f.stocked(1, s)
	other := f.createNamed(f.name+"-other", s)
	b := f.bank()
	hold := f.claim(b, "ann").Claim
	var elsewhere *itembank.ClaimedElsewhereError
	if _, err := b.Confirm(f.ctx, other.Name, "ann", hold.ID); !errors.As(err, &elsewhere) || elsewhere.Campaign != f.name {
		f.Errorf("want it said that the claim is of %s, got %v", f.name, err)
	}
	if _, err := b.ReleaseHold(f.ctx, other.Name, "ann", hold.ID); !errors.As(err, &elsewhere) || elsewhere.Campaign != f.name {
		f.Errorf("want it said that the claim is of %s, got %v", f.name, err)
	}
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, hold) {
		f.Errorf("want %+v, got %+v, %v", hold, held, err)
	}
}

// confirmOfHoldThatIsOver: it does not confirm a later hold.
func confirmOfHoldThatIsOver(f *fixture) {
	c, _ := f.stocked(2, holds)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	f.notConfirmed(b, "no-such-id", itembank.ErrNoClaim)
	first := f.claim(b, "ann").Claim
	clock.SetTo(first.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{Returned: 1})
	f.notConfirmed(b, first.ID, itembank.ErrNoClaim)
	clock.Advance(2 * time.Second)
	second := f.claim(b, "ann").Claim
	for _, other := range []string{first.ID, "", "no-such-id"} {
		f.notConfirmed(b, other, itembank.ErrClaimEnded)
	}
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, second) {
		f.Errorf("want the hold %+v as it was, got %+v, %v", second, held, err)
	}
	clock.SetTo(second.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{Returned: 1})
	f.WantWhere("free", c, second.Items[0], "ann")
}

// confirmMeetsOthers: a confirmation waits a limited number of times while another transaction works on the claim.
func confirmMeetsOthers(f *fixture) {
	f.stocked(1, holds)
	for _, test := range []struct {
		conflicts int
		want      error
	}{{16, nil}, {17, itembank.ErrTryAgain}} {
		left := test.conflicts
		busy := &itembankfault.Store{Store: f.Store, Plan: func(_ int, method string) itembankfault.Fault {
			if method != "ConfirmClaim" || left == 0 {
				return itembankfault.None
			}
			left--
			return itembankfault.ClaimConflict
		}}
		b := itembank.NewOperator(busy, itembank.WithClock(itembankfault.NewClock()))
		hold := f.claim(b, "ann").Claim
		if _, err := b.Confirm(f.ctx, f.name, "ann", hold.ID); !errors.Is(err, test.want) || left > 0 {
			f.Errorf("%d conflicts: want %v, got %v, and %d are left", test.conflicts, test.want, err, left)
		}
	}
}

// prolonged prolongs a hold that the caller saw. It must then have this end, which it returns with the new end.
func (f *fixture) prolonged(b *itembank.Operator, seen itembank.Claim, end time.Time) itembank.Claim {
	f.Helper()
	want := seen
	want.EndsAt = end
	got, err := b.Prolong(f.ctx, seen.Campaign, seen.Claimant, seen.ID, seen.EndsAt)
	if err != nil || !reflect.DeepEqual(got, want) {
		f.Fatalf("prolong for %s: want %+v, got %+v, %v", seen.Claimant, want, got, err)
	}
	if held, err := b.HeldClaim(f.ctx, seen.Campaign, seen.Claimant); err != nil || !reflect.DeepEqual(held, want) {
		f.Fatalf("want %+v held by %s, got %+v, %v", want, seen.Claimant, held, err)
	}
	return want
}

// prolong: the end of a hold moves once for each end that the caller saw, never back, and never past the maximum.
func prolong(f *fixture) {
	s := holds
	s.MaxHold = 150 * time.Second
	c, _ := f.stocked(1, s)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	made := f.claim(b, "ann").Claim
	at := func(after time.Duration) time.Time { return made.ClaimedAt.Add(after) }

	clock.SetTo(at(-20 * time.Second))
	f.prolonged(b, made, made.EndsAt)
	clock.SetTo(at(40 * time.Second))
	once := f.prolonged(b, made, at(100*time.Second))
	clock.SetTo(at(45 * time.Second))
	f.prolonged(b, made, once.EndsAt) // again, because the reply was lost
	clock.SetTo(made.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{})
	f.swept(b, itembank.SweepReport{})
	clock.SetTo(at(95 * time.Second))
	longest := f.prolonged(b, once, at(s.MaxHold))
	clock.SetTo(at(120 * time.Second))
	for _, seen := range []itembank.Claim{made, once, longest} {
		f.prolonged(b, seen, longest.EndsAt)
	}
	clock.SetTo(longest.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{Returned: 1})
	f.WantWhere("free", c, made.Items[0], "ann")

	second := f.claim(b, "ann").Claim
	f.confirmed(b, second)
	f.prolonged(b, second, time.Time{}) // a confirmed claim gets no end
}

// prolongUntilClosed: the row decides. A hold that ended can be prolonged until a request closes it, also while the
// campaign is closed. A later hold is not prolonged.
func prolongUntilClosed(f *fixture) {
	s := holds
	s.MaxHold = 24 * time.Hour
	c, _ := f.stocked(2, s)
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	hold := f.claim(b, "ann").Claim
	f.Must(b.CloseCampaign(f.ctx, f.name))
	clock.SetTo(hold.EndsAt.Add(time.Hour))
	hold = f.prolonged(b, hold, clock.Now().UTC().Truncate(time.Millisecond).Add(time.Minute))
	f.sweptDue(b, itembank.SweepReport{})
	f.WantWhere("held by ann", c, hold.Items[0], "ann")
	f.Must(b.OpenCampaign(f.ctx, f.name))
	clock.SetTo(hold.EndsAt.Add(endGrace + time.Millisecond))
	f.sweptDue(b, itembank.SweepReport{Returned: 1})
	if _, err := b.Prolong(f.ctx, f.name, "ann", hold.ID, hold.EndsAt); !errors.Is(err, itembank.ErrNoClaim) {
		f.Errorf("a hold that was closed: %v", err)
	}
	clock.Advance(2 * time.Second)
	later := f.claim(b, "ann").Claim
	if _, err := b.Prolong(f.ctx, f.name, "ann", hold.ID, later.EndsAt); !errors.Is(err, itembank.ErrClaimEnded) {
		f.Errorf("a later hold: %v", err)
	}
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, later) {
		f.Errorf("want %+v, got %+v, %v", later, held, err)
	}
}

// prolongOnlyAllowed: only holds of campaigns with a maximum are prolonged, through their own campaign.
func prolongOnlyAllowed(f *fixture) {
	for field, s := range map[string]itembank.Settings{
		"has no holds": {OnEnd: itembank.Return, ClaimLife: time.Minute}, "holds that are not prolonged": holds,
	} {
		one := f.named(fmt.Sprint(s.Hold == 0))
		one.stocked(1, s)
		b := f.bank()
		claim := one.claim(b, "ann").Claim
		var invalid *itembank.InvalidError
		_, err := b.Prolong(f.ctx, one.name, "ann", claim.ID, claim.EndsAt)
		if !errors.As(err, &invalid) || !strings.Contains(invalid.Detail, field) {
			f.Errorf("%+v: want the prolongation refused, got %v", s, err)
		}
	}
	s := holds
	s.Scope, s.MaxHold = f.name+"-scope", time.Hour
	f.stocked(1, s)
	other, b := f.createNamed(f.name+"-other", s), f.bank()
	hold := f.claim(b, "ann").Claim
	var invalid *itembank.InvalidError
	if _, err := b.Prolong(f.ctx, f.name, "ann", hold.ID, time.Time{}); !errors.As(err, &invalid) || invalid.Field != "ends_at" {
		f.Errorf("no end: %v", err)
	}
	var elsewhere *itembank.ClaimedElsewhereError
	if _, err := b.Prolong(f.ctx, other.Name, "ann", hold.ID, hold.EndsAt); !errors.As(err, &elsewhere) {
		f.Errorf("another campaign of the scope: %v", err)
	}
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, hold) {
		f.Errorf("want %+v, got %+v, %v", hold, held, err)
	}
}

// releasedHold releases a hold for its holder, and compares the result.
func (f *fixture) releasedHold(b *itembank.Operator, hold itembank.Claim, want itembank.Released, wantErr error) {
	f.Helper()
	got, err := b.ReleaseHold(f.ctx, hold.Campaign, hold.Claimant, hold.ID)
	if !errors.Is(err, wantErr) || got != want {
		f.Errorf("release of %s by %s: want %+v, %v; got %+v, %v", hold.Items[0], hold.Claimant, want, wantErr, got, err)
	}
}

// releaseByHolder: a hold goes back to the bank; a confirmed claim stays.
func releaseByHolder(f *fixture) {
	c, _ := f.stocked(1, holds)
	b := f.bank()
	first := f.claim(b, "ann").Claim
	f.releasedHold(b, first, itembank.Released{Returned: true}, nil)
	f.WantWhere("free", c, first.Items[0], "ann")
	f.releasedHold(b, first, itembank.Released{Already: true}, nil)
	second := f.claim(b, "ann").Claim
	f.releasedHold(b, first, itembank.Released{Already: true}, nil) // the new claim stays
	f.confirmed(b, second)
	f.releasedHold(b, second, itembank.Released{}, itembank.ErrConfirmed)
	f.WantWhere("held by ann", c, second.Items[0], "ann")
	if !errors.Is(itembank.ErrConfirmed, itembank.ErrRefused) {
		f.Errorf("%v is not of the family %v", itembank.ErrConfirmed, itembank.ErrRefused)
	}
}

// onlyHolds: claims that are not holds can be neither confirmed nor released by their holders.
func onlyHolds(f *fixture) {
	for i, s := range []itembank.Settings{{}, {OnEnd: itembank.Return}, {OnEnd: itembank.Return, ClaimLife: time.Minute}} {
		one := f.named(fmt.Sprint(i))
		c, _ := one.stocked(1, s)
		b := f.bank()
		claim := one.claim(b, "ann").Claim
		var invalid *itembank.InvalidError
		if _, err := b.Confirm(f.ctx, one.name, "ann", claim.ID); !errors.As(err, &invalid) || !strings.Contains(invalid.Detail, "hold") {
			f.Errorf("%+v: want the confirmation refused, got %v", s, err)
		}
		if _, err := b.ReleaseHold(f.ctx, one.name, "ann", claim.ID); !errors.As(err, &invalid) || !strings.Contains(invalid.Detail, "hold") {
			f.Errorf("%+v: want the release refused, got %v", s, err)
		}
		if held, err := b.HeldClaim(f.ctx, one.name, "ann"); err != nil || !reflect.DeepEqual(held, claim) {
			f.Errorf("want %+v, got %+v, %v", claim, held, err)
		}
		one.WantWhere("held by ann", c, claim.Items[0], "ann")
	}
	for _, test := range []struct {
		campaign, claimant string
		want               error
	}{
		{f.name, "", itembank.ErrInvalid}, {"No-Such", "ann", itembank.ErrInvalid}, {f.name + "-none", "ann", itembank.ErrNoCampaign},
	} {
		_, confirm := f.bank().Confirm(f.ctx, test.campaign, test.claimant, "id")
		_, release := f.bank().ReleaseHold(f.ctx, test.campaign, test.claimant, "id")
		if !errors.Is(confirm, test.want) || !errors.Is(release, test.want) {
			f.Errorf("%s, %q: want %v, got %v and %v", test.campaign, test.claimant, test.want, confirm, release)
		}
	}
}

// holderNeedsNoFreshRules: if the campaign row cannot be read any more, a holder can still see the claim, by the fixed
// settings of the campaign. A confirmation and a release need to know that the campaign was not moved.
func holderNeedsNoFreshRules(f *fixture) {
	f.stocked(2, itembank.Settings{Hold: time.Hour})
	clock, broken := itembankfault.NewClock(), f.counted()
	b := itembank.NewOperator(broken, itembank.WithClock(clock))
	ann, bob := f.claim(b, "ann").Claim, f.claim(b, "bob").Claim
	clock.Advance(time.Minute)
	broken.Before = func(method string) error {
		if method == "Campaign" {
			return engine.ErrThrottled
		}
		return nil
	}
	if held, err := b.HeldClaim(f.ctx, f.name, "ann"); err != nil || !reflect.DeepEqual(held, ann) {
		f.Errorf("want %+v, got %+v, %v", ann, held, err)
	}
	if _, err := b.Confirm(f.ctx, f.name, "ann", ann.ID); !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("confirm: %v", err)
	}
	if released, err := b.ReleaseHold(f.ctx, f.name, "bob", bob.ID); !errors.Is(err, itembank.ErrTryAgain) {
		f.Errorf("release: got %+v, %v", released, err)
	}
}
