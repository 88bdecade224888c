package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/claimlink"
)

// api sends requests to the claim function as API Gateway does. It also acts as the authorizer.
type api struct {
	client   Lambda
	function Function
	key      *claimlink.PrivateKey // the key of links; nil: the function has no links
}

// answer is an answer of the claim function. It has the members of all kinds of bodies.
type answer struct {
	status  int
	log     string            // the error in the log of the invocation
	ClaimID string            `json:"claim_id"`
	Columns map[string]string `json:"columns"`
	EndsAt  string            `json:"ends_at"`
	State   string            `json:"state"`
	Type    string            `json:"type"` // the type of a problem
}

// slug returns the last part of an answer's problem type.
func (a answer) slug() string {
	_, slug, _ := strings.Cut(a.Type, "#")
	return slug
}

// want returns an error unless the answer has the status.
func (a answer) want(status int) error {
	if a.status == status {
		return nil
	}
	return &invocationError{strings.TrimSpace(fmt.Sprintf("the claim function answered %d %s instead of %d",
		a.status, a.slug(), status)), a.log}
}

// granted returns an error unless the answer is a claim. A repeated claim is also accepted, because the answer to the
// first request may have been lost.
func (a answer) granted() error {
	if a.status == http.StatusOK {
		return nil
	}
	return a.want(http.StatusCreated)
}

// backEnd reports whether the callers of the API are back ends that name their customers. Other callers are the
// claimants, or may be.
func (a api) backEnd() bool {
	return a.function.Env["ONCEBOX_CLAIMANT_FROM"] == "body" && a.function.Env["ONCEBOX_CALLER"] != "any"
}

// event returns the request of a claimant, as API Gateway sends it after it has checked the caller.
func (a api) event(method, path, query, campaign, claimant string, body map[string]string) (
	e events.APIGatewayV2HTTPRequest, err error,
) {
	e = events.APIGatewayV2HTTPRequest{
		Version: "2.0", RawPath: path, RawQueryString: query, Headers: map[string]string{},
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			Stage: "$default", HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: method, Path: path},
		},
	}
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return e, err
		}
		e.Body, e.Headers["content-type"] = string(text), "application/json"
	}
	source, claim, _ := strings.Cut(a.function.Env["ONCEBOX_CLAIMANT_FROM"], ":")
	authorizer := &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{}
	switch source {
	case "jwt":
		authorizer.JWT = &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{
			Claims: map[string]string{claim: claimant},
		}
	case "iam": // in all forms, the identity of a Cognito pool is the claimant
		authorizer.IAM = &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{
			CognitoIdentity: events.APIGatewayV2HTTPRequestContextAuthorizerCognitoIdentity{IdentityID: claimant},
		}
	case "body": // any identity may name the claimant
		authorizer.IAM = &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{UserARN: doctorARN}
	case "link":
		token, err := a.key.Sign(claimlink.Claims{Claimant: claimant, Campaign: campaign, Expires: time.Now().Add(linkLife)})
		if err != nil {
			return e, err
		}
		e.Headers["authorization"] = "Bearer " + token
		return e, nil
	}
	e.RequestContext.Authorizer = authorizer
	return e, nil
}

// doctorARN stands for the back end that sends a request.
const doctorARN = "arn:aws:sts::000000000000:assumed-role/oncebox/doctor"

// linkLife is how long the link of a request is valid.
const linkLife = 5 * time.Minute

// do sends a request. If the answer is 503, it repeats the request, as callers do: a table may be throttled for a
// moment.
func (a api) do(
	ctx context.Context, method, path, query, campaign, claimant string, body map[string]string,
) (r answer, err error) {
	e, err := a.event(method, path, query, campaign, claimant, body)
	if err != nil {
		return r, err
	}
	for range tries {
		if r, err = a.send(ctx, e); err != nil || r.status != http.StatusServiceUnavailable {
			return r, err
		}
		if err := pause.For(ctx, between); err != nil {
			return r, err
		}
	}
	return r, nil
}

// send sends a request once.
func (a api) send(ctx context.Context, e events.APIGatewayV2HTTPRequest) (r answer, err error) {
	reply, log, err := a.function.invoke(ctx, a.client, e)
	if err != nil {
		return r, err
	}
	var response events.APIGatewayV2HTTPResponse
	if err := json.Unmarshal(reply, &response); err != nil || response.StatusCode == 0 {
		return r, fmt.Errorf("%w: %.200s", errNotExpected, reply)
	}
	if response.Body != "" {
		if err := json.Unmarshal([]byte(response.Body), &r); err != nil {
			return r, fmt.Errorf("%w: %.200s", errNotExpected, response.Body)
		}
	}
	r.status, r.log = response.StatusCode, log
	return r, nil
}

func (a api) state(ctx context.Context, campaign string) (answer, error) {
	return a.do(ctx, http.MethodGet, "/campaigns/"+campaign, "", campaign, claimantA, nil)
}

func (a api) claim(ctx context.Context, campaign, claimant string) (answer, error) {
	path, body := "/campaigns/"+campaign+"/claims", map[string]string{"claimant": claimant}
	return a.do(ctx, http.MethodPost, path, "", campaign, claimant, body)
}

func claimPath(campaign, claimant string) string {
	return "/campaigns/" + campaign + "/claims/" + claimant
}

func (a api) read(ctx context.Context, campaign, claimant string) (answer, error) {
	return a.do(ctx, http.MethodGet, claimPath(campaign, claimant), "", campaign, claimant, nil)
}

func (a api) release(ctx context.Context, campaign, claimant, id string) (answer, error) {
	return a.do(ctx, http.MethodDelete, claimPath(campaign, claimant), "claim_id="+id, campaign, claimant, nil)
}

func (a api) confirm(ctx context.Context, campaign, claimant, id string) (answer, error) {
	path := claimPath(campaign, claimant) + "/confirmation"
	return a.do(ctx, http.MethodPost, path, "", campaign, claimant, map[string]string{"claim_id": id})
}
