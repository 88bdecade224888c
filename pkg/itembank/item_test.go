package itembank_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

func TestHash(t *testing.T) {
	t.Parallel()
	// The first half of SHA-256("A-1"). If it changed, every stored item would be lost.
	const want = "bc4e7be982ab79ec4fb6388a6153e03b"
	h := engine.HashItem("A-1")
	if h.String() != want {
		t.Errorf("want %s, got %s", want, h)
	}
	if got, err := engine.ParseHash(h.String()); err != nil || got != h {
		t.Errorf("want %s, got %s, %v", h, got, err)
	}
	for _, bad := range []string{"", "81", want + "00", strings.Repeat("x", 32)} {
		if _, err := engine.ParseHash(bad); err == nil {
			t.Errorf("%q was read as a hash", bad)
		}
	}
}

func TestShardOf(t *testing.T) {
	t.Parallel()
	var first, last engine.Hash
	first[0], last[engine.HashSize-1] = 7, 7
	if first.ShardOf(16) != 0 || last.ShardOf(16) != 7 || last.ShardOf(5) != 2 {
		t.Errorf("the shard must come from the last 8 bytes: %d, %d, %d", first.ShardOf(16), last.ShardOf(16), last.ShardOf(5))
	}
}

func TestValidate(t *testing.T) {
	t.Parallel()
	name := func(s string) error { return itembank.ValidateName("campaign", s) }
	for _, test := range []struct {
		validate func(string) error
		input    string
		says     string // "" is valid
	}{
		{itembank.ValidateClaimant, "a", ""},
		{itembank.ValidateClaimant, strings.Repeat("é", 128), ""},
		{itembank.ValidateClaimant, strings.Repeat("é", 128) + "x", "claimant: has 257 bytes, at most 256"},
		{itembank.ValidateClaimant, "", "claimant: is empty"},
		{itembank.ValidateClaimant, "a\x00", "U+0000) at byte 2"},
		{itembank.ValidateClaimant, "é\u0085", "U+0085) at byte 3"},
		{itembank.ValidateClaimant, "\x80", "not valid UTF-8"},
		{itembank.ValidateItem, strings.Repeat("x", 512), ""},
		{itembank.ValidateItem, strings.Repeat("x", 513), "item: has 513 bytes, at most 512"},
		{itembank.ValidateItem, " 💶 ", ""},
		{name, "a", ""},
		{name, "0-a-", ""},
		{name, strings.Repeat("a", 63), ""},
		{name, strings.Repeat("a", 64), "campaign: must be"},
		{name, "", "campaign: must be"},
		{name, "-a", "campaign: must be"},
		{name, "A", "campaign: must be"},
		{name, "a#b", "campaign: must be"},
		{name, "é", "campaign: must be"},
	} {
		err := test.validate(test.input)
		if test.says == "" && err != nil || test.says != "" && (!errors.Is(err, itembank.ErrInvalid) || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%.20q: want %q, got %v", test.input, test.says, err)
		}
	}
}

func TestStateAt(t *testing.T) {
	t.Parallel()
	opens := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	closes := opens.Add(time.Hour)
	before, during, after := opens.Add(-1), closes.Add(-1), closes
	for _, test := range []struct {
		campaign itembank.Campaign
		want     [3]itembank.State
	}{
		{itembank.Campaign{}, [3]itembank.State{itembank.Open, itembank.Open, itembank.Open}},
		{itembank.Campaign{OpensAt: opens}, [3]itembank.State{itembank.Scheduled, itembank.Open, itembank.Open}},
		{itembank.Campaign{ClosesAt: closes}, [3]itembank.State{itembank.Open, itembank.Open, itembank.Closed}},
		{itembank.Campaign{OpensAt: opens, ClosesAt: closes}, [3]itembank.State{itembank.Scheduled, itembank.Open, itembank.Closed}},
		{itembank.Campaign{Override: itembank.Open, OpensAt: opens, ClosesAt: closes}, [3]itembank.State{itembank.Open, itembank.Open, itembank.Open}},
		{itembank.Campaign{Override: itembank.Closed, OpensAt: opens, ClosesAt: closes}, [3]itembank.State{itembank.Closed, itembank.Closed, itembank.Closed}},
	} {
		for i, now := range []time.Time{before, during, after} {
			if got := test.campaign.StateAt(now); got != test.want[i] {
				t.Errorf("%+v at %s: want %s, got %s", test.campaign, now, test.want[i], got)
			}
		}
	}
}

// TestLives: a life is 0, or from the minimum to a century.
func TestLives(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		field string
		least time.Duration
		of    func(life time.Duration) itembank.Settings
	}{
		{"item-life", time.Second, func(life time.Duration) itembank.Settings { return itembank.Settings{ItemLife: life} }},
		{"claim-life", 30 * time.Second, func(life time.Duration) itembank.Settings { return itembank.Settings{ClaimLife: life} }},
	} {
		for _, life := range []time.Duration{
			-1, time.Millisecond, test.least - time.Millisecond, test.least + time.Microsecond, 100*365*24*time.Hour + time.Millisecond,
		} {
			_, _, err := itembank.NewOperator(nil).CreateCampaign(t.Context(), "spring", test.of(life))
			var invalid *itembank.InvalidError
			if !errors.As(err, &invalid) || invalid.Field != test.field {
				t.Errorf("%s %s: want it invalid, got %v", test.field, life, err)
			}
		}
	}
	_, _, err := itembank.NewOperator(nil).CreateCampaign(t.Context(), "spring", itembank.Settings{OnEnd: "keep"})
	var invalid *itembank.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "on-end" {
		t.Errorf("want on-end invalid, got %v", err)
	}
}

// TestOtherSettingsAreNamed: a campaign that exists is not created again with another value of any setting, and the error
// has both values.
func TestOtherSettingsAreNamed(t *testing.T) {
	t.Parallel()
	b := itembank.NewOperator(memstore.NewItems())
	at := time.Date(2027, 3, 1, 8, 0, 0, 0, time.UTC)
	own := itembank.Settings{Choice: true, MaxItems: 2, Scope: "term"}
	create := func(s itembank.Settings) error {
		_, _, err := b.CreateCampaign(t.Context(), "spring", s)
		return err
	}
	if err := create(own); err != nil {
		t.Fatal(err)
	}
	different := map[string]func(*itembank.Settings){
		"`opens` is at once, not 2027-03-01T08:00:00Z":         func(s *itembank.Settings) { s.OpensAt = at },
		"`closes` is never, not 2027-03-01T08:00:00Z":          func(s *itembank.Settings) { s.ClosesAt = at },
		"`page-size` is 30, not 7":                             func(s *itembank.Settings) { s.PageSize = 7 },
		"`scope` is term, not other":                           func(s *itembank.Settings) { s.Scope = "other" },
		"`shards` is 16, not 7":                                func(s *itembank.Settings) { s.Shards = 7 },
		"`item-life` is forever, not 1h":                       func(s *itembank.Settings) { s.ItemLife = time.Hour },
		"`claim-life` is forever, not 1h":                      func(s *itembank.Settings) { s.ClaimLife = time.Hour },
		"`hold` is none, not 1h; `on-end` is burn, not return": func(s *itembank.Settings) { s.Hold = time.Hour },
		"`hold` is none, not 1h; `max-hold` is none, not 2h; `on-end` is burn, not return": func(s *itembank.Settings) {
			s.Hold, s.MaxHold = time.Hour, 2*time.Hour
		},
		"`on-end` is burn, not return":                         func(s *itembank.Settings) { s.OnEnd = itembank.Return },
		"`max-items` is 2, not 3":                              func(s *itembank.Settings) { s.MaxItems = 3 },
		"`choice` is true, not false; `max-items` is 2, not 1": func(s *itembank.Settings) { s.Choice, s.MaxItems = false, 1 },
		"`publish-items` is false, not true":                   func(s *itembank.Settings) { s.Publish = true },
		"`columns` is false, not true":                         func(s *itembank.Settings) { s.Columns = true },
	}
	for want, change := range different {
		s := own
		change(&s)
		if err := create(s); err == nil || err.Error() != `campaign: "spring" exists with other settings: `+want {
			t.Errorf("want %s, got %v", want, err)
		}
	}
	const ofTheScope = 2 // ClaimantAs and PerClaimant, which are refused before
	if n := reflect.TypeFor[itembank.Settings]().NumField(); n != len(different)+ofTheScope {
		t.Errorf("of %d settings %d are tested", n, len(different)+ofTheScope)
	}
	if err := create(own); err != nil {
		t.Error(err)
	}
}

// TestErrorFamilies: each error belongs to exactly one family, which says what to do.
func TestErrorFamilies(t *testing.T) {
	t.Parallel()
	families := []error{itembank.ErrInvalid, itembank.ErrRefused, itembank.ErrTryAgain, itembank.ErrInconsistent}
	for family, members := range map[error][]error{
		itembank.ErrInvalid: {&itembank.InvalidError{}, &itembank.LineError{Err: &itembank.InvalidError{}}},
		itembank.ErrRefused: {
			itembank.ErrSoldOut, itembank.ErrNotOpen, itembank.ErrClosed, itembank.ErrNoCampaign, itembank.ErrNoClaim,
			itembank.ErrClaimedElsewhere, &itembank.ClaimedElsewhereError{},
		},
		itembank.ErrInconsistent: {
			&itembank.InconsistentError{Kind: "free-not-loaded"}, itembank.ErrInputChanged, &itembank.InconsistentError{Kind: "held-not-loaded"},
			&itembank.InconsistentError{Kind: "held-and-free"}, &itembank.InconsistentError{Kind: "held-and-ended"}, itembank.ErrReopened,
		},
	} {
		for _, member := range members {
			in := slices.DeleteFunc(slices.Clone(families), func(f error) bool { return !errors.Is(member, f) })
			if len(in) != 1 || in[0] != family { //nolint:errorlint // the very sentinel is meant
				t.Errorf("%T %v: want family %v, got %v", member, member, family, in)
			}
		}
	}
	if !errors.Is(&itembank.ClaimedElsewhereError{}, itembank.ErrClaimedElsewhere) {
		t.Error("a ClaimedElsewhereError is not ErrClaimedElsewhere")
	}
}
