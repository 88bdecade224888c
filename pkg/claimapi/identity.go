package claimapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// ClaimantFrom is the source of the claimant of a request; the package documentation lists the sources. The zero
// value has no source: with it, every claim is answered 401.
type ClaimantFrom struct {
	source string // one of the sources below
	part   string // with fromJWT: the name of the claim; with fromIAM: "", bySession or byRole
}

const (
	fromJWT     = "jwt"
	fromIAM     = "iam"
	fromLink    = "link"
	fromBody    = "body"
	fromContext = "context"
)

// The parts of the ARN of an IAM role's session that can be the claimant.
const (
	bySession = "session"
	byRole    = "role"
)

// claimantFromForms lists what ParseClaimantFrom reads, for messages.
const claimantFromForms = "jwt:CLAIM (a claim of the verified token, as in jwt:sub), " +
	"iam (the Cognito identity or IAM user that signed), " +
	"iam:session or iam:role (the same, and for sessions of IAM roles the session or the role), " +
	"link (the claimant of a personal link), " +
	"or body (the claimant that the request names)"

// callerAlias means the caller in a path, if the request has an identity.
const callerAlias = "me"

var (
	errUnauthenticated = errors.New("claimapi: no usable identity")
	errNotYours        = errors.New("claimapi: names another claimant")
)

// The kinds of errUnauthenticated. Clients get the same answer for all; the log distinguishes them.
var (
	errNoIdentity = fmt.Errorf("%w: the request has none of the kind in ONCEBOX_CLAIMANT_FROM, or in "+
		"claimapi.ParseClaimantFrom in a program of your own", errUnauthenticated)
	errNoContext = fmt.Errorf("%w: the request's context has none; put the caller there with claimapi.WithCaller, in a "+
		"middleware around the handler", errUnauthenticated)
	errBadIdentity = fmt.Errorf("%w: it is not a valid claimant", errUnauthenticated)
	errNoCaller    = fmt.Errorf("%w: the caller has no IAM identity, and ONCEBOX_CALLER is not any", errUnauthenticated)
	errUnverified  = fmt.Errorf("%w: the token does not say email_verified", errUnauthenticated)
	errRoleSession = fmt.Errorf("%w: the caller is a session of an IAM role; choose ONCEBOX_CLAIMANT_FROM=iam:session or "+
		"iam:role if that part of the ARN is the claimant", errUnauthenticated)
)

// ParseClaimantFrom reads `jwt:CLAIM`, `iam`, `iam:session`, `iam:role`, `link` or `body`. The error lists these forms
// and does not repeat the text.
func ParseClaimantFrom(text string) (ClaimantFrom, error) {
	if source, claim, _ := strings.Cut(text, ":"); source == fromJWT && claim != "" && strings.TrimSpace(claim) == claim {
		return ClaimantFrom{source, claim}, nil
	}
	switch text {
	case fromIAM, fromLink, fromBody:
		return ClaimantFrom{source: text}, nil
	case fromIAM + ":" + bySession:
		return ClaimantFrom{fromIAM, bySession}, nil
	case fromIAM + ":" + byRole:
		return ClaimantFrom{fromIAM, byRole}, nil
	}
	return ClaimantFrom{}, fmt.Errorf("must be %s", claimantFromForms)
}

// FromContext takes the claimant from the request's context, where WithCaller has put it. An answer 401 then has no
// header WWW-Authenticate: the middleware sets it, because it knows the scheme.
func FromContext() ClaimantFrom { return ClaimantFrom{source: fromContext} }

type callerKey struct{}

// WithCaller returns a context for a request of this caller. A server calls it in a middleware that has verified the
// caller. The Handler uses it only with FromContext.
func WithCaller(ctx context.Context, claimant string) context.Context {
	return context.WithValue(ctx, callerKey{}, claimant)
}

// String returns the text that ParseClaimantFrom reads.
func (f ClaimantFrom) String() string {
	if f.part != "" {
		return f.source + ":" + f.part
	}
	return f.source
}

// caller returns the verified identity of the caller, or "" if callers may name any claimant. The error wraps
// errUnauthenticated if the identity is missing or cannot be a claimant: a token without the claim must not make its
// bearer a claimant. caller also has the errors of linkHolder.
func (h *Handler) caller(ctx context.Context, c *call) (id string, err error) {
	switch h.from.source {
	case fromBody:
		return "", h.checkCaller(c.event)
	case fromLink:
		id, err = h.linkHolder(ctx, c)
	default:
		id, err = h.from.identity(ctx, c.event.RequestContext.Authorizer)
	}
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", errNoIdentity
	case ValidateClaimant(id) != nil:
		return "", errBadIdentity // not *InvalidError: the client cannot correct it
	}
	return id, nil
}

// checkCaller returns an error unless the caller may name any claimant. In AWS, that is a caller whose IAM identity API
// Gateway has verified. So an event from a route without that authorizer is refused, whatever the route should have. A
// server has decided for itself who may call it.
func (h *Handler) checkCaller(e event) error {
	a := e.RequestContext.Authorizer
	if h.anyCaller || e.served || a != nil && a.IAM != nil && a.IAM.UserARN != "" {
		return nil
	}
	return errNoCaller
}

// mayConfirm reports whether the caller may confirm holds of the claimant. caller is "" if the caller names the claimant.
func (h *Handler) mayConfirm(caller string) bool {
	return h.claimantsConfirm || caller == "" && !h.anyCaller
}

// identity returns the identity of the caller, or "" if the request has none.
func (f ClaimantFrom) identity(ctx context.Context, a *authorizer) (string, error) {
	switch {
	case f.source == fromContext:
		if caller, _ := ctx.Value(callerKey{}).(string); caller != "" {
			return caller, nil
		}
		return "", errNoContext
	case a == nil:
	case f.source == fromJWT && a.JWT != nil:
		return f.claimOf(a.JWT.Claims)
	case f.source == fromIAM && a.IAM != nil:
		return f.signer(a.IAM)
	}
	return "", nil
}

// The claims of a token about an e-mail address (OpenID Connect Core 1.0, section 5.1).
const (
	emailClaim    = "email"
	verifiedClaim = "email_verified"
)

// claimOf returns the claim that is the claimant. An e-mail address counts only if the issuer says that it is verified:
// a person who registers with the address of a customer must not get that customer's item.
func (f ClaimantFrom) claimOf(claims map[string]string) (string, error) {
	if f.part == emailClaim && claims[emailClaim] != "" && claims[verifiedClaim] != "true" {
		return "", errUnverified
	}
	return claims[f.part], nil
}

// signer returns the identity that signed a request. All credentials of a Cognito identity pool are sessions of one
// role with one session name, so for them the identity in the pool is the claimant. Any other session of a role is a
// claimant only if the operator says which part of its ARN names a customer.
func (f ClaimantFrom) signer(a *events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription) (string, error) {
	if id := a.CognitoIdentity.IdentityID; id != "" {
		return id, nil
	}
	kind, name := resourceOf(a.UserARN)
	role, session, _ := strings.Cut(name, "/")
	switch {
	case kind == "iam:root", kind == "iam:user" && name != "", kind == "sts:federated-user" && name != "":
		return a.UserARN, nil
	case kind != "sts:assumed-role" || role == "" || session == "":
		return "", nil
	case f.part == bySession:
		return a.UserARN, nil
	case f.part == byRole:
		return strings.TrimSuffix(a.UserARN, "/"+session), nil
	}
	return "", errRoleSession
}

// resourceOf returns the kind of an identity's ARN (service and type, as in iam:user), and its name (IAM User Guide, "IAM
// identifiers"). A text that is no ARN has neither.
func resourceOf(identity string) (kind, name string) {
	a, _ := arn.Parse(identity)
	resource, name, _ := strings.Cut(a.Resource, "/")
	return a.Service + ":" + resource, name
}

// challenge returns the header WWW-Authenticate, which belongs to every answer 401 (RFC 9110, section 15.5.2), or "" if
// only a middleware knows the scheme. A token that was refused gets the code of RFC 6750, section 3.1.
func (f ClaimantFrom) challenge(err error) string {
	switch {
	case f.source == fromIAM, f.source == fromBody:
		return "AWS4-HMAC-SHA256"
	case errors.Is(err, claimlink.ErrInvalid), errors.Is(err, claimlink.ErrExpired):
		return `Bearer error="invalid_token"`
	case f.source == fromJWT, f.source == fromLink:
		return `Bearer realm="oncebox"`
	}
	return ""
}

// claimantOf returns the claimant of a request. caller is "" without an identity. named is the claimant in the body
// or the path, or "" if there is none. A caller with an identity may name only itself, in any form that is the same
// claimant in the campaign.
func (h *Handler) claimantOf(ctx context.Context, campaign, caller, named string) (string, error) {
	switch {
	case caller == "" && named == "":
		return "", &itembank.InvalidError{Field: "claimant", Detail: "is missing"}
	case caller == "" || caller == named:
		return named, nil
	case named == "":
		return caller, nil
	}
	same, err := h.bank.SameClaimant(ctx, campaign, caller, named)
	if err == nil && !same || errors.Is(err, itembank.ErrNoCampaign) {
		err = errNotYours
	}
	return caller, err
}

// ValidateClaimant checks a claimant as itembank does, and also refuses U+FFFD. Decoders write this character for
// bytes that they cannot read: API Gateway does for text, and encoding/json does for half of a surrogate pair. If two
// claimants differed only in such bytes, they would become one, and the second would get the item of the first. The
// error is an *itembank.InvalidError.
func ValidateClaimant(claimant string) error {
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
