package infra

import (
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/jsii-runtime-go"
)

// Auth says who may call a [ClaimAPI]. It has no default: an API is open only if you choose [AuthOpen].
type Auth string

// The kinds of Auth.
const (
	// AuthIAM accepts callers whose IAM policies allow execute-api:Invoke.
	AuthIAM Auth = "iam"

	// AuthJWT accepts callers with a token of JWTIssuer for one of the audiences in JWTAudience.
	AuthJWT Auth = "jwt"

	// AuthLink accepts callers with a personal link that one of Settings.LinkKeys has signed. The function verifies the
	// links, so the routes have no authorizer, and a refused request costs an invocation.
	AuthLink Auth = "link"

	// AuthOpen accepts every caller, who may claim under any name. An HTTP API is always on the internet, so every program
	// there can call it. A challenge slows programs down, and does not stop them.
	AuthOpen Auth = "open"
)

// auths are the kinds of Auth, with the default of ONCEBOX_CLAIMANT_FROM.
var auths = map[Auth]string{AuthIAM: "body", AuthJWT: "jwt:sub", AuthLink: "link", AuthOpen: "body"}

// checkAuth refuses callers and tokens that do not fit together, and sources of the claimant: without an authorizer that
// verifies the identity, the function would find none in a request, and would refuse every request.
func (p ClaimAPIProps) checkAuth(wrong *problems) {
	auth := wrong.of("Auth")
	if p.Auth == "" {
		wrong.add("%s is missing; choose iam (callers have IAM permissions), jwt (tokens of an issuer), link (personal links) or "+
			"open (everybody may claim under any name)", auth)
		return
	}
	if auths[p.Auth] == "" {
		wrong.add("%s is %q; choose iam, jwt, link or open", auth, p.Auth)
		return
	}
	p.checkTokens(wrong)
	if p.Settings.LinkKeys != "" && p.Auth != AuthLink { // the value may be secret by mistake
		wrong.add("%s needs %s=link, and %[2]s is %s", wrong.of("LinkKeys"), auth, p.Auth)
	}
	from := wrong.of("ClaimantFrom") + "=" + p.Settings.ClaimantFrom
	switch source, _, _ := strings.Cut(p.Settings.ClaimantFrom, ":"); {
	case source == "body" && p.Auth == AuthJWT:
		wrong.add("%s with %s=jwt would let everybody with a token claim under any name; for a back end choose %[2]s=iam", from, auth)
	case source == "body" && p.Auth == AuthLink:
		wrong.add("%s with %s=link would let everybody claim under any name; for a back end choose %[2]s=iam", from, auth)
	case source == "link" && p.Auth != AuthLink:
		wrong.add("%s needs %s=link", from, auth)
	case source == "iam" && p.Auth != AuthIAM:
		wrong.add("%s needs %s=iam: %[2]s=%s verifies no IAM identity", from, auth, p.Auth)
	case source == "jwt" && p.Auth != AuthJWT:
		wrong.add("%s needs %s=jwt: %[2]s=%s verifies no token", from, auth, p.Auth)
	}
}

// checkTokens refuses settings of tokens that API Gateway cannot use.
func (p ClaimAPIProps) checkTokens(wrong *problems) {
	auth, issuer, audience, scopes := wrong.of("Auth"), wrong.of("JWTIssuer"), wrong.of("JWTAudience"), wrong.of("JWTScopes")
	if p.Auth != AuthJWT {
		for _, set := range []struct {
			name string
			is   bool
		}{{issuer, p.JWTIssuer != ""}, {audience, p.JWTAudience != nil}, {scopes, p.JWTScopes != nil}} {
			if set.is {
				wrong.add("%s needs %s=jwt, and %[2]s is %s", set.name, auth, p.Auth)
			}
		}
		return
	}
	text := token.ReplaceAllString(p.JWTIssuer, "stand-in")
	if u, err := url.Parse(text); text == "" {
		wrong.add("%s=jwt needs %s: the https URL of the issuer of the tokens", auth, issuer)
	} else if text != "stand-in" && (err != nil || u.Scheme != "https" || u.Host == "") {
		wrong.add("%s=jwt needs %s that is an https URL, not %q", auth, issuer, p.JWTIssuer)
	}
	if len(p.JWTAudience) == 0 {
		wrong.add("%s=jwt needs %s: without one, the API would accept every token of the issuer", auth, audience)
	} else if slices.Contains(p.JWTAudience, "") {
		wrong.add("%s=jwt needs %s without empty names", auth, audience)
	}
	if slices.ContainsFunc(p.JWTScopes, wrongScope) {
		wrong.add("%s are %q; write scopes without white space and without empty ones", scopes, p.JWTScopes)
	}
}

// caller returns ONCEBOX_CALLER: whom the routes let name a claimant. The function compares it with each event, so that
// while a deployment changes the routes, no caller gets through by the old ones. "" means that callers are claimants.
func (p ClaimAPIProps) caller() string {
	switch {
	case p.Settings.ClaimantFrom != "body":
		return ""
	case p.Auth == AuthOpen:
		return "any"
	}
	return "iam"
}

// wrongScope reports whether a text cannot be a scope: white space separates the scopes of a token (RFC 6749, 3.3).
func wrongScope(scope string) bool { return scope == "" || strings.ContainsAny(scope, " \t\r\n\"\\") }

// authorizer returns the authorizer of all routes. With AuthLink, the function itself checks the callers.
func (p ClaimAPIProps) authorizer() awsapigatewayv2.IHttpRouteAuthorizer {
	switch p.Auth {
	case AuthIAM:
		return awsapigatewayv2authorizers.NewHttpIamAuthorizer()
	case AuthJWT:
		return awsapigatewayv2authorizers.NewHttpJwtAuthorizer(jsii.String("Authorizer"), &p.JWTIssuer,
			&awsapigatewayv2authorizers.HttpJwtAuthorizerProps{JwtAudience: jsii.Strings(p.JWTAudience...)})
	}
	return awsapigatewayv2.NewHttpNoneAuthorizer()
}

// routeScopes returns the scopes of a route, or nil without scopes.
func (p ClaimAPIProps) routeScopes() *[]*string {
	if len(p.JWTScopes) == 0 {
		return nil
	}
	return jsii.Strings(p.JWTScopes...)
}
