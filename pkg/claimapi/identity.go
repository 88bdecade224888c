package claimapi

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// ClaimantFrom says where a request's claimant comes from: from an identity
// that API Gateway has verified, or from whoever asks. The zero value trusts
// nothing: with it every claim is unauthenticated.
type ClaimantFrom struct {
	source string // one of the sources below
	claim  string // with fromJWT: the name of the claim
}

const (
	fromJWT  = "jwt"
	fromIAM  = "iam"
	fromBody = "body"
)

// claimantFromForms is what ParseClaimantFrom takes, for messages.
const claimantFromForms = "jwt:CLAIM (a claim of the verified token, as in jwt:sub), iam (the signer's ARN) or body (whatever the caller says)"

// callerAlias is the path's name for the caller, where an identity tells who that is.
const callerAlias = "me"

var (
	errUnauthenticated = errors.New("claimapi: no usable identity")
	errNotYours        = errors.New("claimapi: names another claimant")
)

// ParseClaimantFrom reads `jwt:CLAIM`, `iam` or `body`. The error says what is
// allowed and does not repeat the text.
func ParseClaimantFrom(text string) (ClaimantFrom, error) {
	source, claim, named := strings.Cut(text, ":")
	jwt := source == fromJWT && claim != ""
	other := (source == fromIAM || source == fromBody) && !named
	if !jwt && !other {
		return ClaimantFrom{}, fmt.Errorf("must be %s", claimantFromForms)
	}
	return ClaimantFrom{source, claim}, nil
}

// String returns the text that ParseClaimantFrom reads.
func (f ClaimantFrom) String() string {
	if f.source == fromJWT {
		return f.source + ":" + f.claim
	}
	return f.source
}

// caller returns who asks, as API Gateway's authorizer verified it; "" if
// callers name claimants freely. An identity that is missing or cannot be a
// claimant is errUnauthenticated: nobody may become a claimant by a token that
// lacks the claim.
func (f ClaimantFrom) caller(e events.APIGatewayV2HTTPRequest) (string, error) {
	if f.source == fromBody {
		return "", nil
	}
	id := f.identity(e.RequestContext.Authorizer)
	if validateClaimant(id) != nil {
		return "", errUnauthenticated // not *InvalidError: the client cannot repair it
	}
	return id, nil
}

func (f ClaimantFrom) identity(a *events.APIGatewayV2HTTPRequestContextAuthorizerDescription) string {
	switch {
	case a == nil:
	case f.source == fromJWT && a.JWT != nil:
		return a.JWT.Claims[f.claim]
	case f.source == fromIAM && a.IAM != nil:
		return a.IAM.UserARN
	}
	return ""
}

// speaksFor settles the claimant from the caller ("" if there is no identity)
// and the name in body or path ("" if there is none). With an identity a name
// is allowed if it is the caller's own.
func speaksFor(caller, named string) (string, error) {
	switch {
	case caller == "" && named == "":
		return "", &itembank.InvalidError{Field: "claimant", Detail: "is missing"}
	case caller == "" || caller == named:
		return named, nil
	case named == "":
		return caller, nil
	}
	return "", errNotYours
}

// validateClaimant checks a claimant as itembank does, and refuses U+FFFD. A
// decoder puts that character in the place of bytes it cannot read: API
// Gateway, which hands over text, encoding/json with a lone surrogate. Two
// claimants who differ only there would be one, and the second would be given
// the first one's item.
func validateClaimant(claimant string) error {
	if err := itembank.ValidateClaimant(claimant); err != nil {
		return err
	}
	if strings.ContainsRune(claimant, utf8.RuneError) {
		return &itembank.InvalidError{Field: "claimant", Detail: "has the character U+FFFD, which stands for text that was damaged on its way; send UTF-8"}
	}
	return nil
}
