package itembank_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var claimantCases = []testCase{
	{"every-spelling-is-one-claimant", everySpelling},
	{"exact-claimants-are-not-changed", exactClaimants},
	{"scope-decides-for-later-campaigns", scopeDecides},
	{"forget-releases-all-claims", forgetReleasesAll},
	{"forget-keeps-what-contradicts-itself", forgetKeeps},
}

// everySpelling: every method accepts a claimant in every equal form, and returns the same form.
func everySpelling(f *fixture) {
	c := f.create(itembank.Settings{ClaimantAs: itembank.Email, Hold: time.Minute})
	if c.Claimants != "email/1" {
		f.Errorf("the row has %q", c.Claimants)
	}
	f.load("a", "b")
	b := f.bank()
	const want = "zo\u00eb@example.com"
	first := f.claim(b, "ZOE\u0308@Example.com ")
	if first.Claim.Claimant != want {
		f.Errorf("want the claim of %q, got %+v", want, first.Claim)
	}
	for _, spelling := range []string{want, "Zo\u00cb@EXAMPLE.com", "\u00a0zoe\u0308@example.com"} {
		if again := f.claim(b, spelling); !reflect.DeepEqual(again.Claim, first.Claim) || !again.Replayed {
			f.Errorf("%q: want %+v, got %+v", spelling, first, again)
		}
		if held, err := b.HeldClaim(f.ctx, f.name, spelling); !reflect.DeepEqual(held, first.Claim) || err != nil {
			f.Errorf("%q: want %+v, got %+v, %v", spelling, first.Claim, held, err)
		}
	}
	if _, err := b.Confirm(f.ctx, f.name, strings.ToUpper(want), first.Claim.ID); err != nil {
		f.Error(err)
	}
	if _, err := b.ReleaseHold(f.ctx, f.name, " "+want, first.Claim.ID); !errors.Is(err, itembank.ErrConfirmed) {
		f.Errorf("want %v, got %v", itembank.ErrConfirmed, err)
	}
	f.released(b, engine.Claim{Campaign: f.name, Claimant: strings.ToUpper(want), ID: first.Claim.ID, Item: first.Claim.Items[0]}, itembank.Released{Returned: true})

	f.Must(b.CloseCampaign(f.ctx, f.name))
	line := itembank.Claim{Claimant: "ANN", Items: []string{"a"}}
	report := f.replay(line, itembank.Claim{Claimant: " ann", Items: []string{"b"}})
	if held := f.Held(c, "ann"); held == nil || held.Item != "a" || report.Replayed != 1 || report.Refused != 1 {
		f.Errorf("replayed %+v, ann holds %+v", report, held)
	}
	for _, bad := range []string{" ", "\u3000"} {
		if _, err := b.Claim(f.ctx, f.name, bad); !errors.Is(err, itembank.ErrInvalid) {
			f.Errorf("%q: want %v, got %v", bad, itembank.ErrInvalid, err)
		}
	}
}

// replay replays claims in the fixture's campaign, which is closed.
func (f *fixture) replay(claims ...itembank.Claim) itembank.ReplayReport {
	f.Helper()
	b := f.bank(itembank.WithClock(itembankfault.NewClock()))
	report, err := b.Replay(f.ctx, f.name, replayOf(claims...))
	f.Must(err)
	return report
}

func exactClaimants(f *fixture) {
	f.stocked(4, itembank.Settings{})
	b := f.bank()
	items := map[string]bool{}
	for _, claimant := range []string{"ann", "Ann", " ann", "ann "} {
		grant := f.claim(b, claimant)
		items[grant.Claim.Items[0]] = true
		if grant.Claim.Claimant != claimant {
			f.Errorf("want the claim of %q, got %+v", claimant, grant.Claim)
		}
	}
	if len(items) != 4 {
		f.Errorf("4 claimants got %d items", len(items))
	}
}

// wantRefusedScope tries to create a campaign that does not agree with its scope, and expects a refusal.
func (f *fixture) wantRefusedScope(name string, s itembank.Settings) {
	f.Helper()
	_, created, err := f.bank().CreateCampaign(f.ctx, name, s)
	var invalid *itembank.InvalidError
	if created || !errors.As(err, &invalid) || invalid.Field != "claimant-as" || !strings.Contains(invalid.Detail, s.Scope) {
		f.Errorf("want a refusal that names the scope %s, got %t, %v", s.Scope, created, err)
	}
	if none, err := f.Store.Campaign(f.ctx, name); none != nil || err != nil {
		f.Errorf("the campaign exists: %+v, %v", none, err)
	}
}

func scopeDecides(f *fixture) {
	scope := f.name + "-scope"
	email := itembank.Settings{Scope: scope, ClaimantAs: itembank.Email}
	f.createNamed(f.name+"-1", email)
	f.wantRefusedScope(f.name+"-2", itembank.Settings{Scope: scope})
	f.createNamed(f.name+"-2", email)
	if _, created, err := f.bank().CreateCampaign(f.ctx, f.name+"-2", email); created || err != nil {
		f.Errorf("a repeat: got %t, %v", created, err)
	}
	f.createNamed(f.name+"-exact", itembank.Settings{Scope: scope + "-exact"})
	f.wantRefusedScope(f.name+"-3", itembank.Settings{Scope: scope + "-exact", ClaimantAs: itembank.Email})
	if _, _, err := f.bank().CreateCampaign(f.ctx, f.name+"-4", itembank.Settings{ClaimantAs: "phone"}); !errors.Is(err, itembank.ErrInvalid) {
		f.Errorf("want %v, got %v", itembank.ErrInvalid, err)
	}
}

func forgetReleasesAll(f *fixture) {
	scope := f.name + "-scope"
	burns, returns := f.named("burns"), f.named("returns")
	burns.create(itembank.Settings{Scope: scope, ClaimantAs: itembank.Email})
	burns.load("code")
	returns.create(itembank.Settings{Scope: scope, ClaimantAs: itembank.Email, OnEnd: itembank.Return})
	returns.load("seat", "seat-2")
	b := f.bank()
	returns.claim(b, "bob")
	for n, one := range []*fixture{burns, returns} {
		claim := one.claim(b, "ann").Claim
		report, err := b.Forget(f.ctx, scope, " ANN ", itembank.ForgetOptions{})
		f.Must(err)
		want := itembank.ForgottenClaim{Claim: claim, Released: itembank.Released{Ended: "burned"}}
		if n == 1 {
			want.Released = itembank.Released{Returned: true}
		}
		if report.Claimant != "ann" || len(report.Kept) > 0 || len(report.Released) != 1 || !reflect.DeepEqual(report.Released[0], want) {
			f.Errorf("want %+v, got %+v", want, report)
		}
		one.refused(b, "Ann", itembank.ErrNotEligible)
		again, err := b.Forget(f.ctx, scope, "ann", itembank.ForgetOptions{})
		if err != nil || len(again.Released)+len(again.Kept) > 0 {
			f.Errorf("a repeat: got %+v, %v", again, err)
		}
		if report, err := b.Unblock(f.ctx, scope, "ANN"); err != nil || report.Changed != 1 {
			f.Errorf("unblock: got %+v, %v", report, err)
		}
	}
	if _, err := b.HeldClaim(f.ctx, returns.name, "bob"); err != nil {
		f.Errorf("bob's claim: %v", err)
	}
	if _, err := b.Forget(f.ctx, f.name+"-other", "ann", itembank.ForgetOptions{}); !errors.Is(err, itembank.ErrNoCampaign) {
		f.Errorf("want %v, got %v", itembank.ErrNoCampaign, err)
	}
}

func forgetKeeps(f *fixture) {
	c, _ := f.stocked(1, itembank.Settings{})
	held := f.claim(f.bank(), "ann").Claim
	f.dropItemRow(c, held.Items[0])
	report, err := f.bank().Forget(f.ctx, f.name, "ann", itembank.ForgetOptions{})
	f.Must(err)
	if len(report.Released) > 0 || len(report.Kept) != 1 || !reflect.DeepEqual(report.Kept[0].Claim, held) || !errors.Is(report.Kept[0].Err, itembank.ErrInconsistent) {
		f.Errorf("want the claim kept, got %+v", report)
	}
}

// TestEmails lists claimants that are the same by Email, and claimants that are not.
func TestEmails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, itembankengines.Memory(t))
	f.create(itembank.Settings{ClaimantAs: itembank.Email})
	b := f.bank()
	for _, test := range []struct {
		one, other string
		same       bool
	}{
		{"ann@example.com", "ANN@EXAMPLE.COM", true},
		{"ann@example.com", "\u2003 ann@example.com \u00a0", true},
		{"zo\u00eb@x.org", "ZOE\u0308@x.org", true},
		{"\u03a3@x.org", "\u03c3@x.org", true},
		{"\u03a3@x.org", "\u03c2@x.org", false},         // the form of sigma at the end of a word
		{"\u212angstrom@x.org", "kngstrom@x.org", true}, // the Kelvin sign is a K by canonical equivalence
		{"ann@example.com", "ann+news@example.com", false},
		{"a.nn@gmail.com", "ann@gmail.com", false},
		{"ann@gmail.com", "ann@googlemail.com", false},
		{"ann@b\u00fccher.de", "ann@xn--bcher-kva.de", false},
		{"\uff41nn@example.com", "ann@example.com", false},       // full width
		{"\u0131rma@x.org", "irma@x.org", false},                 // dotless i
		{"\u0130rma@x.org", "irma@x.org", false},                 // I with a dot
		{"stra\u00dfe@x.org", "strasse@x.org", false},            // sharp s
		{"\ufb01n@x.org", "fin@x.org", false},                    // ligature
		{"ann@example.com", "ann@ example.com", false},           // white space inside
		{"ann@example.com", "ann@example.com\u200b", false},      // zero width
		{"\u0430nn@example.com", "ann@example.com", false},       // a Cyrillic letter that looks alike
		{"ann\u2460@example.com", "ann1@example.com", false},     // a circled digit
		{"ann@example.com", "\"ann\"@example.com", false},        // quoted
		{"\u017fam@example.com", "sam@example.com", false},       // long s
		{"ann@example.com", "ann@example.com.", false},           // a dot at the end of the host
		{"ann@example.com", "mailto:ann@example.com", false},     // a URL
		{"ann@example.com", "Ann <ann@example.com>", false},      // with a name
		{"\U00010041\u0301@x.org", "A\u0301@x.org", false},       // package norm confuses these two
		{"\u01c4@x.org", "\u01c6@x.org", true},                   // one letter of two
		{"\u0345\u0301ann@x.org", "\u0301\u0345ann@x.org", true}, // marks in another order
	} {
		if same, err := b.SameClaimant(t.Context(), f.name, test.one, test.other); same != test.same || err != nil {
			t.Errorf("%+q and %+q: want the same %t, got %t, %v", test.one, test.other, test.same, same, err)
		}
	}
}

// TestEmailsKeepTheirForm: normalizing a normalized claimant does not change it.
func TestEmailsKeepTheirForm(t *testing.T) {
	t.Parallel()
	for r := range unicode.MaxRune + 1 {
		if testing.Short() && !unicode.IsGraphic(r) {
			continue // six of seven, nearly all of them not assigned
		}
		for _, claimant := range []string{string(r), "a" + string(r) + "\u0301"} {
			once, ok := itembank.NormalEmail(claimant)
			if twice, _ := itembank.NormalEmail(once); ok && once != twice {
				t.Fatalf("%+q becomes %+q, and that %+q", claimant, once, twice)
			}
		}
	}
}
