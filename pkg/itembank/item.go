package itembank

import (
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// maxName is the largest length of the name of a campaign or a scope.
const maxName = 63

// Claim says that a claimant holds an item.
type Claim struct {
	ID        string // random; never used again
	Campaign  string
	Scope     string // the name space in which the claimant holds one claim
	Claimant  string
	Item      string
	ClaimedAt time.Time // UTC, whole milliseconds
	EndsAt    time.Time // zero: never
}

// claimOf is the claim of a row.
func claimOf(row engine.Claim) Claim {
	return Claim{
		ID: row.ID, Campaign: row.Campaign, Scope: row.Scope, Claimant: row.Claimant, Item: row.Item,
		ClaimedAt: row.ClaimedAt, EndsAt: row.EndsAt,
	}
}

// endGrace is how much later than its end a claim may be closed. Clocks of two
// machines differ by less, so the holder's request, which found the claim alive, is
// over by then.
const endGrace = 10 * time.Second

// closable reports that the claim ended so long ago that whoever meets it closes it.
func closable(c engine.Claim, now time.Time) bool {
	return !c.EndsAt.IsZero() && c.EndsAt.Before(now.Add(-endGrace))
}

// ended reports that the item may not be handed out any more.
func ended(i engine.FreeItem, now time.Time) bool { return !i.EndsAt.IsZero() && !i.EndsAt.After(now) }

// ValidateClaimant checks a claimant: 1 to 256 bytes of UTF-8 without control
// characters. Claimants compare byte for byte.
func ValidateClaimant(claimant string) error {
	return validateText("claimant", claimant, engine.MaxClaimant)
}

// ValidateItem checks an item: 1 to 512 bytes of UTF-8 without control characters.
func ValidateItem(item string) error { return validateText("item", item, engine.MaxItem) }

func validateText(field, s string, limit int) error {
	switch {
	case s == "":
		return &InvalidError{field, "is empty"}
	case len(s) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)}
	case !utf8.ValidString(s):
		return &InvalidError{field, "is not valid UTF-8"}
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return &InvalidError{field, fmt.Sprintf("has a control character (%U) at byte %d", r, i+1)}
		}
	}
	return nil
}

// ValidateName checks the name of a campaign or scope: [a-z0-9][a-z0-9-]{0,62}.
func ValidateName(field, name string) error {
	if name == "" || len(name) > maxName || name[0] == '-' {
		return badName(field)
	}
	for i := range len(name) {
		c := name[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return badName(field)
		}
	}
	return nil
}

func badName(field string) error {
	return &InvalidError{field, "must be 1 to 63 characters, a-z, 0-9 or -, and not begin with -"}
}
