package infra

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/jsii-runtime-go"
)

// Auth is who may call a [ClaimAPI]. The zero value is none: an API is open only
// if it is named so.
type Auth struct {
	kind         authKind
	issuer       string
	audience     []string
	claimantFrom string // the default of ONCEBOX_CLAIMANT_FROM
}

type authKind string

const (
	authIAM  authKind = "AuthIAM"
	authJWT  authKind = "AuthJWT"
	authOpen authKind = "AuthOpen"
)

// AuthIAM lets those call the API whose IAM policies allow execute-api:Invoke.
func AuthIAM() Auth { return Auth{kind: authIAM, claimantFrom: "body"} }

// AuthJWT lets those call the API who carry a token of the issuer, an https URL,
// for one of the audiences.
func AuthJWT(issuer string, audience ...string) Auth {
	return Auth{kind: authJWT, issuer: issuer, audience: audience, claimantFrom: "jwt:sub"}
}

// AuthOpen lets everybody call the API, and claim under any name: for a private
// network or a test.
func AuthOpen() Auth { return Auth{kind: authOpen, claimantFrom: "body"} }

// check says all that is wrong, also with where the claimant comes from: of what
// the authorizer does not verify the function would find nothing, and refuse every
// request.
func (a Auth) check(claimantFrom string) error {
	var wrong []error
	switch a.kind {
	case "":
		return errors.New("the Auth is missing, want AuthIAM, AuthJWT or, for an API that everybody may call, AuthOpen")
	case authJWT:
		issuer := token.ReplaceAllString(a.issuer, "stand-in")
		if u, err := url.Parse(issuer); issuer != "stand-in" && (err != nil || u.Scheme != "https" || u.Host == "") {
			wrong = append(wrong, fmt.Errorf("the issuer of AuthJWT is %q, want an https URL", a.issuer))
		}
		if len(a.audience) == 0 {
			wrong = append(wrong, errors.New("the AuthJWT has no audience: every token of the issuer would do"))
		}
		if slices.Contains(a.audience, "") {
			wrong = append(wrong, errors.New("the AuthJWT has an empty audience"))
		}
	}
	if claimantFrom == "body" && a.kind == authJWT {
		wrong = append(wrong, errors.New("a ClaimantFrom of body with AuthJWT lets whoever has a token claim under any name; for a back end use AuthIAM"))
	}
	if claimantFrom == "iam" && a.kind != authIAM {
		wrong = append(wrong, fmt.Errorf("a ClaimantFrom of iam needs AuthIAM, not %s, which verifies no IAM identity", a.kind))
	}
	if strings.HasPrefix(claimantFrom, "jwt:") && a.kind != authJWT {
		wrong = append(wrong, fmt.Errorf("a ClaimantFrom of %s needs AuthJWT, not %s, which verifies no token", claimantFrom, a.kind))
	}
	return errors.Join(wrong...)
}

// authorizer makes the authorizer of all routes.
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
