package itembank

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// maxName is the largest length of the name of a campaign or a scope.
const maxName = 63

// ValidateName checks the name of a campaign or a scope: 1 to 63 characters of a-z, 0-9 and -, not beginning with -.
// The error is an *InvalidError with this field.
func ValidateName(field, name string) error {
	if name == "" || len(name) > maxName || name[0] == '-' {
		return invalidName(field)
	}
	for i := range len(name) {
		c := name[i]
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return invalidName(field)
		}
	}
	return nil
}

func invalidName(field string) error {
	return &InvalidError{field, "must be 1 to 63 characters, a-z, 0-9 or -, and not begin with -"}
}

// ValidateClaimant checks a claimant: 1 to 256 bytes of UTF-8 without control characters. ClaimantAs decides which
// claimants are the same one. The error is an *InvalidError.
func ValidateClaimant(claimant string) error {
	return validateText("claimant", claimant, engine.MaxClaimant)
}

// ValidateItem checks an item: 1 to 512 bytes of UTF-8 without control characters. The
// error is an *InvalidError.
func ValidateItem(item string) error { return validateText("item", item, engine.MaxItem) }

func validateText(field, s string, limit int) error {
	switch {
	case s == "":
		return &InvalidError{field, "is empty"}
	case len(s) > limit:
		return &InvalidError{field, fmt.Sprintf("has %d bytes, at most %d are allowed", len(s), limit)}
	}
	if detail := textProblem(s); detail != "" {
		return &InvalidError{field, detail}
	}
	return nil
}

// textProblem says why s is not UTF-8 without control characters, or returns "" if it is.
func textProblem(s string) string {
	if !utf8.ValidString(s) {
		return "is not valid UTF-8"
	}
	for i, r := range s {
		if unicode.IsControl(r) {
			return fmt.Sprintf("has a control character (%U) at byte %d", r, i+1)
		}
	}
	return ""
}

func validateRequest(campaign, claimant string) error {
	if err := ValidateName("campaign", campaign); err != nil {
		return err
	}
	return ValidateClaimant(claimant)
}
