package infra

import (
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/jsii-runtime-go"
)

// Auth says who may call a [ClaimAPI]. The zero value is refused: an API is open only if you choose [AuthOpen].
type Auth struct {
	kind         authKind
	issuer       string
	audience     []string
	scopes       []string // the scopes of tokens
	linkKeys     string   // ONCEBOX_LINK_KEYS
	claimantFrom string   // the default of ONCEBOX_CLAIMANT_FROM
}

type authKind string

const (
	authIAM  authKind = "AuthIAM"
	authJWT  authKind = "AuthJWT"
	authLink authKind = "AuthLink"
	authOpen authKind = "AuthOpen"
)

// AuthIAM accepts callers whose IAM policies allow execute-api:Invoke.
func AuthIAM() Auth { return Auth{kind: authIAM, claimantFrom: "body"} }

// AuthJWT accepts callers with a token of the issuer for one of the audiences. The issuer is an https URL.
func AuthJWT(issuer string, audience ...string) Auth {
	return Auth{kind: authJWT, issuer: issuer, audience: audience, claimantFrom: "jwt:sub"}
}

// WithScopes accepts only tokens that have at least one of the scopes, in their claim scope or scp. It is for
// [AuthJWT]. API Gateway tests the scopes on all routes, except those of the claim page.
func (a Auth) WithScopes(scopes ...string) Auth {
	a.scopes = scopes
	return a
}

// routeScopes returns the scopes of a route, or nil without scopes.
func (a Auth) routeScopes() *[]*string {
	if len(a.scopes) == 0 {
		return nil
	}
	return jsii.Strings(a.scopes...)
}

// AuthLink accepts callers with a personal link that one of the keys has signed. The keys are keys of package
// claimlink, separated by commas or white space. They must be public keys, because every user who may read the
// stack's template sees them. The function verifies the links, so the routes have no authorizer, and a refused
// request costs an invocation.
func AuthLink(publicKeys string) Auth {
	return Auth{kind: authLink, linkKeys: strings.TrimSpace(publicKeys), claimantFrom: "link"}
}

// AuthOpen accepts every caller, who may claim under any name. An HTTP API is always on the internet, so every program
// there can call it. A challenge slows programs down, and does not stop them.
func AuthOpen() Auth { return Auth{kind: authOpen, claimantFrom: "body"} }

// check returns all problems, including problems with the source of the claimant: without an authorizer that verifies
// the identity, the function would find none in a request, and would refuse every request.
func (a Auth) check(names naming, claimantFrom string) error {
	p := problems{naming: names}
	from, jwt := p.of("ClaimantFrom")+"="+claimantFrom, p.of(string(authJWT))
	switch a.kind {
	case "":
		p.add("Auth is missing; choose AuthIAM, AuthJWT, AuthLink, or AuthOpen for an API that everybody may call")
		return p.err()
	case authJWT:
		issuer := token.ReplaceAllString(a.issuer, "stand-in")
		if u, err := url.Parse(issuer); issuer == "" {
			p.add("%s needs %s: the https URL of the issuer of the tokens", jwt, p.of("an issuer"))
		} else if issuer != "stand-in" && (err != nil || u.Scheme != "https" || u.Host == "") {
			p.add("%s needs %s that is an https URL, not %q", jwt, p.of("an issuer"), a.issuer)
		}
		if len(a.audience) == 0 {
			p.add("%s needs %s: without one, the API would accept every token of the issuer", jwt, p.of("an audience"))
		} else if slices.Contains(a.audience, "") {
			p.add("%s needs %s without empty names", jwt, p.of("an audience"))
		}
	}
	if len(a.scopes) > 0 && a.kind != authJWT {
		p.add("%s need %s: %s verifies no token", p.of("scopes"), jwt, p.of(string(a.kind)))
	} else if slices.ContainsFunc(a.scopes, wrongScope) {
		p.add("%s are %q; write scopes without white space and without empty ones", p.of("scopes"), a.scopes)
	}
	switch source, _, _ := strings.Cut(claimantFrom, ":"); {
	case source == "body" && a.kind == authJWT:
		p.add("%s with %s would let everybody with a token claim under any name; for a back end choose %s",
			from, jwt, p.of(string(authIAM)))
	case source == "body" && a.kind == authLink:
		p.add("%s with %s would let everybody claim under any name; for a back end choose %s",
			from, p.of(string(authLink)), p.of(string(authIAM)))
	case source == "link" && a.kind != authLink:
		p.add("%s needs %s", from, p.of(string(authLink)))
	case source == "iam" && a.kind != authIAM:
		p.add("%s needs %s: %s verifies no IAM identity", from, p.of(string(authIAM)), p.of(string(a.kind)))
	case source == "jwt" && a.kind != authJWT:
		p.add("%s needs %s: %s verifies no token", from, jwt, p.of(string(a.kind)))
	}
	return p.err()
}

// caller returns ONCEBOX_CALLER: whom the routes let name a claimant. The function compares it with each event, so that
// while a deployment changes the routes, no caller gets through by the old ones. "" means that callers are claimants.
func (a Auth) caller(claimantFrom string) string {
	switch {
	case claimantFrom != "body":
		return ""
	case a.kind == authOpen:
		return "any"
	}
	return "iam"
}

// wrongScope reports whether a text cannot be a scope: white space separates the scopes of a token (RFC 6749, 3.3).
func wrongScope(scope string) bool { return scope == "" || strings.ContainsAny(scope, " \t\r\n\"\\") }

// authorizer returns the authorizer of all routes. With AuthLink, the function itself checks the callers.
func (a Auth) authorizer() awsapigatewayv2.IHttpRouteAuthorizer {
	switch a.kind {
	case authIAM:
		return awsapigatewayv2authorizers.NewHttpIamAuthorizer()
	case authJWT:
		return awsapigatewayv2authorizers.NewHttpJwtAuthorizer(jsii.String("Authorizer"), &a.issuer,
			&awsapigatewayv2authorizers.HttpJwtAuthorizerProps{JwtAudience: jsii.Strings(a.audience...)})
	}
	return awsapigatewayv2.NewHttpNoneAuthorizer()
}
