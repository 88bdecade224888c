package itembank

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// ClaimantAs says which claimants are the same one. It is fixed with a scope: a change would make
// every claimant a new one.
type ClaimantAs string

// The ways to compare claimants.
const (
	// Exact: two claimants are the same if their bytes are equal.
	Exact ClaimantAs = "exact"

	// Email: two claimants are the same if they differ only in white space at the ends, in the case
	// of letters, and in how Unicode writes a character (canonical equivalence: "é" is one character
	// or two). A Bank removes that before it looks for a claim, and a claim has the claimant without
	// it: " Ann@Example.com" is "ann@example.com" in every answer.
	//
	// Nothing else is the same: not ann+news@example.com and ann@example.com, not a.nn@gmail.com and
	// ann@gmail.com, not googlemail.com and gmail.com, not a host name and its Punycode, not full-width
	// letters and ASCII, not ς at the end of a Greek word and Σ. Email does not check that a claimant is an
	// address.
	Email ClaimantAs = "email"
)

// emailRow is Email in rows, with the version of its rules. Rules that make other claimants the same
// need another version, and a Bank that has both.
const emailRow = "email/1"

func (a ClaimantAs) row() string {
	switch a {
	case Exact:
		return ""
	case Email:
		return emailRow
	}
	return string(a)
}

func claimantAsOf(row string) ClaimantAs {
	switch row {
	case "":
		return Exact
	case emailRow:
		return Email
	}
	return ClaimantAs(row) // of a later version
}

// claimant returns a claimant as the campaign's scope has it. Every method of a Bank that takes a claimant calls it,
// and no other code does.
func (c Campaign) claimant(given string) (string, error) {
	switch c.ClaimantAs {
	case Exact:
		return given, nil
	case Email:
		normal := normalEmail(given)
		return normal, ValidateClaimant(normal)
	}
	const form = "the scope %q compares claimants as %q, which this version of oncebox does not know; use a later version"
	return "", fmt.Errorf(form, c.Scope, c.ClaimantAs)
}

// normalEmail applies the rules of emailRow. Letters are lower-cased while their accents are apart:
// U+0130 is an i with a dot then, and not the same as i. The result is NFC, unless package norm composes a
// character that is not the same: of U+10041 and U+0301 it makes U+00C1, as of A and U+0301.
func normalEmail(s string) string {
	apart := norm.NFD.String(strings.TrimFunc(s, unicode.IsSpace))
	apart = strings.Map(unicode.ToLower, apart)
	if composed := norm.NFC.String(apart); norm.NFD.String(composed) == apart {
		return composed
	}
	return apart
}

// Spellings returns the forms in which a Bank can have a claimant: as given, and as any ClaimantAs normalises it.
// This is for callers that keep claimants out of logs.
func Spellings(claimant string) []string {
	spellings := []string{claimant}
	if normal := normalEmail(claimant); normal != claimant && normal != "" {
		spellings = append(spellings, normal)
	}
	return spellings
}

// SameClaimant reports that two claimants are the same one in a campaign, by its ClaimantAs. The methods
// of a Bank take a claimant in any form; this is for callers that compare claimants themselves.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) SameClaimant(ctx context.Context, campaign, one, other string) (bool, error) {
	if err := ValidateClaimant(other); err != nil {
		return false, err
	}
	if err := validateRequest(campaign, one); err != nil {
		return false, err
	}
	c, err := b.fixedRules(ctx, campaign)
	if err != nil {
		return false, err
	}
	if one, err = c.claimant(one); err != nil {
		return false, err
	}
	other, err = c.claimant(other)
	return one == other, err
}
