package claimapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// ClaimantFrom says where the claimant of a request comes from; the package documentation lists the sources. The zero
// value has no source: with it, every claim is answered 401.
type ClaimantFrom struct {
	source string // one of the sources below
	claim  string // with fromJWT: the name of the claim
}

const (
	fromJWT     = "jwt"
	fromIAM     = "iam"
	fromBody    = "body"
	fromContext = "context"
)

// claimantFromForms lists what ParseClaimantFrom reads, for messages.
const claimantFromForms = "jwt:CLAIM (a claim of the verified token, as in jwt:sub), iam (the ARN of the signer), " +
	"or body (the claimant that the request names)"

// callerAlias stands for the caller in a path, where an identity says who the caller is.
const callerAlias = "me"

var (
	errUnauthenticated = errors.New("claimapi: no usable identity")
	errNotYours        = errors.New("claimapi: names another claimant")
)

// ParseClaimantFrom reads `jwt:CLAIM`, `iam` or `body`. The error lists these forms and does not repeat the text.
func ParseClaimantFrom(text string) (ClaimantFrom, error) {
	source, claim, named := strings.Cut(text, ":")
	jwt := source == fromJWT && claim != ""
	other := (source == fromIAM || source == fromBody) && !named
	if !jwt && !other {
		return ClaimantFrom{}, fmt.Errorf("must be %s", claimantFromForms)
	}
	return ClaimantFrom{source, claim}, nil
}

// FromContext takes the claimant from the request's context, where WithCaller has put it.
func FromContext() ClaimantFrom { return ClaimantFrom{source: fromContext} }

type callerKey struct{}

// WithCaller returns a context for a request of this caller. A server calls it in a middleware that has verified who
// the caller is; the Handler needs FromContext to look at it.
func WithCaller(ctx context.Context, claimant string) context.Context {
	return context.WithValue(ctx, callerKey{}, claimant)
}

// String returns the text that ParseClaimantFrom reads.
func (f ClaimantFrom) String() string {
	if f.source == fromJWT {
		return f.source + ":" + f.claim
	}
	return f.source
}

// caller returns the verified identity of the caller, or "" if callers name claimants freely. The error is
// errUnauthenticated if the identity is missing or cannot be a claimant: a token without the claim must not make its
// bearer a claimant.
func (f ClaimantFrom) caller(ctx context.Context, e events.APIGatewayV2HTTPRequest) (string, error) {
	if f.source == fromBody {
		return "", nil
	}
	id := f.identity(ctx, e.RequestContext.Authorizer)
	if validateClaimant(id) != nil {
		return "", errUnauthenticated // not *InvalidError: the client cannot correct it
	}
	return id, nil
}

func (f ClaimantFrom) identity(
	ctx context.Context, a *events.APIGatewayV2HTTPRequestContextAuthorizerDescription,
) string {
	switch {
	case f.source == fromContext:
		caller, _ := ctx.Value(callerKey{}).(string)
		return caller
	case a == nil:
	case f.source == fromJWT && a.JWT != nil:
		return a.JWT.Claims[f.claim]
	case f.source == fromIAM && a.IAM != nil:
		return a.IAM.UserARN
	}
	return ""
}

// claimantOf returns the claimant of a request, given the caller ("" without an identity) and the claimant that the
// body or the path names ("" if none). A caller with an identity may name only itself.
func claimantOf(caller, named string) (string, error) {
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

// validateClaimant checks a claimant as itembank does, and refuses U+FFFD. A decoder writes this character for bytes
// that it cannot read: API Gateway does, which passes on text, and encoding/json for half of a surrogate pair. Two
// claimants who differ only in such bytes would become one, and the second would get the item of the first.
func validateClaimant(claimant string) error {
	if err := itembank.ValidateClaimant(claimant); err != nil {
		return err
	}
	if strings.ContainsRune(claimant, utf8.RuneError) {
		return &itembank.InvalidError{
			Field: "claimant", Detail: "has the character U+FFFD, which stands for damaged text; send valid UTF-8",
		}
	}
	return nil
}
