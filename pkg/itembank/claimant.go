package itembank

import (
	"context"
	"fmt"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// ClaimantAs says how claimants are compared. It is fixed for a scope: a change would make every claimant a new one.
type ClaimantAs string

// The ways to compare claimants.
const (
	// Exact: two claimants are the same if their bytes are equal.
	Exact ClaimantAs = "exact"

	// Email: two claimants are the same if they differ only in white space at the ends, in the case of letters, and
	// in how Unicode encodes a character (canonical equivalence: "é" is one code point or two). A Bank normalizes the
	// claimant before it looks for a claim, and returns it normalized: " Ann@Example.com" is "ann@example.com" in
	// every answer.
	//
	// These stay different: ann+news@example.com and ann@example.com, a.nn@gmail.com and ann@gmail.com,
	// googlemail.com and gmail.com, a host name and its Punycode, full-width letters and ASCII, and ς at the end of a
	// Greek word and Σ. Email does not check that a claimant is an e-mail address.
	Email ClaimantAs = "email"
)

// emailRow is Email as rows store it, with the version of its rules. Other rules need another version, and a Bank
// that knows both.
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
	return ClaimantAs(row) // of a later version of oncebox
}

// claimant returns a claimant as the campaign's scope stores it. Every method of a Bank that takes a claimant calls
// it, and no other code normalizes claimants.
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

// normalEmail applies the rules of emailRow. It lower-cases letters while their accents are separate code points:
// then U+0130 becomes an i with a dot, which differs from i. The result is NFC, with one exception: package norm
// composes U+10041 and U+0301 to U+00C1, as if the first were A. Then the result stays decomposed.
func normalEmail(s string) string {
	apart := norm.NFD.String(strings.TrimFunc(s, unicode.IsSpace))
	apart = strings.Map(unicode.ToLower, apart)
	if composed := norm.NFC.String(apart); norm.NFD.String(composed) == apart {
		return composed
	}
	return apart
}

// Spellings returns the forms in which a Bank may store a claimant: as given, and as each ClaimantAs normalizes it.
// Use it to keep claimants out of logs.
func Spellings(claimant string) []string {
	spellings := []string{claimant}
	if normal := normalEmail(claimant); normal != claimant && normal != "" {
		spellings = append(spellings, normal)
	}
	return spellings
}

// SameClaimant reports whether two claimants are the same one in a campaign, by its ClaimantAs. The methods of a Bank
// take a claimant in any form, so only callers that compare claimants themselves need it.
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
