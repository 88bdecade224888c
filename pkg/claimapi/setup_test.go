package claimapi_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// bench is a handler with a real engine, and the faults that a test sets.
type bench struct {
	*claimapi.Handler
	signed bool               // requests without an identity are of a back end, as behind an IAM authorizer
	bank   *itembank.Operator // without the faults
	store  *faults
	log    *bytes.Buffer
}

// newBench makes a handler over a bank with the campaign spring and its items.
func newBench(t testing.TB, from string, items ...string) *bench {
	t.Helper()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "bank.db"))
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	b := &bench{signed: from == "body", bank: itembank.NewOperator(store), store: &faults{Store: store}, log: &bytes.Buffer{}}
	b.campaign(t, "spring", itembank.Settings{}, items...)
	f, err := claimapi.ParseClaimantFrom(from)
	must(t, err)
	log := slog.New(slog.NewJSONHandler(b.log, nil))
	b.Handler = claimapi.New(itembank.New(b.store, itembank.WithCampaignCache(0)), f, log)
	return b
}

// campaign makes a campaign with few shards, so that tests are fast.
func (b *bench) campaign(t testing.TB, name string, s itembank.Settings, items ...string) {
	t.Helper()
	s.Shards = 2
	_, _, err := b.bank.CreateCampaign(t.Context(), name, s)
	must(t, err)
	if len(items) > 0 {
		_, err = b.bank.Load(t.Context(), name, itembank.Items(items...), nil)
		must(t, err)
	}
}

// faults is a store between the handler and the engine. A nil field means no fault.
type faults struct {
	engine.Store
	take func(context.Context, []engine.FreeItem, engine.Claim) error
}

func (f *faults) Take(ctx context.Context, items []engine.FreeItem, c engine.Claim) (engine.TakeResult, error) {
	if f.take != nil {
		if err := f.take(ctx, items, c); err != nil {
			return engine.TakeResult{}, err
		}
	}
	return f.Store.Take(ctx, items, c)
}

type request = events.APIGatewayV2HTTPRequest

// newRequest makes a request as API Gateway does, with a decoded path.
func newRequest(method, path string) request {
	return request{
		Version: "2.0", RouteKey: "$default", RawPath: path,
		RequestContext: events.APIGatewayV2HTTPRequestContext{
			Stage: "$default", RequestID: "request-1",
			HTTP: events.APIGatewayV2HTTPRequestContextHTTPDescription{Method: method, Path: path},
		},
	}
}

func get(path string) request { return newRequest(http.MethodGet, path) }

func post(path, body string) request {
	r := newRequest(http.MethodPost, path)
	r.Headers = map[string]string{"content-type": "application/json"}
	r.Body = body
	return r
}

func postBase64(path string, body []byte) request {
	r := post(path, base64.StdEncoding.EncodeToString(body))
	r.IsBase64Encoded = true
	return r
}

func withJWT(r request, claims map[string]string) request {
	r.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
		JWT: &events.APIGatewayV2HTTPRequestContextAuthorizerJWTDescription{Claims: claims},
	}
	return r
}

func withSub(r request, sub string) request { return withJWT(r, map[string]string{"sub": sub}) }

func withARN(r request, arn string) request { return withCognito(r, arn, "") }

// withCognito makes a request with the credentials of a Cognito identity pool.
func withCognito(r request, arn, identity string) request {
	r.RequestContext.Authorizer = &events.APIGatewayV2HTTPRequestContextAuthorizerDescription{
		IAM: &events.APIGatewayV2HTTPRequestContextAuthorizerIAMDescription{
			UserARN:         arn,
			CognitoIdentity: events.APIGatewayV2HTTPRequestContextAuthorizerCognitoIdentity{IdentityID: identity},
		},
	}
	return r
}

// backEnd is the identity of a back end that names its customers.
const backEnd = "arn:aws:sts::123456789012:assumed-role/shop/back-end"

// Handle gives a request to the handler, as the authorizer of its route lets it through.
func (b *bench) Handle(ctx context.Context, r request) (events.APIGatewayV2HTTPResponse, error) {
	if b.signed && r.RequestContext.Authorizer == nil {
		r = withARN(r, backEnd)
	}
	return b.Handler.Handle(ctx, r)
}

// answer is a response with its body decoded.
type answer struct {
	events.APIGatewayV2HTTPResponse
	members map[string]any
}

func (b *bench) do(t testing.TB, r request) answer {
	t.Helper()
	return b.doIn(t.Context(), t, r)
}

func (b *bench) doIn(ctx context.Context, t testing.TB, r request) answer {
	t.Helper()
	response, err := b.Handle(ctx, r)
	must(t, err)
	a := answer{APIGatewayV2HTTPResponse: response}
	must(t, json.Unmarshal([]byte(response.Body), &a.members))
	return a
}

// slug returns the slug of a problem, or "" for another answer.
func (a answer) slug() string {
	kind, _ := a.members["type"].(string)
	_, slug, _ := strings.Cut(kind, "#")
	return slug
}

func (a answer) text(member string) string {
	s, _ := a.members[member].(string)
	return s
}

// wants fails the test unless the answer has this status and problem.
func (a answer) wants(t testing.TB, status int, slug string) answer {
	t.Helper()
	if a.StatusCode != status || a.slug() != slug {
		t.Fatalf("answered %d %q, want %d %q; body %s", a.StatusCode, a.slug(), status, slug, a.Body)
	}
	return a
}

// pointers returns the pointers of an invalid-request answer, separated by commas.
func (a answer) pointers() string {
	var all []string
	list, _ := a.members["errors"].([]any)
	for _, e := range list {
		m, _ := e.(map[string]any)
		p, _ := m["pointer"].(string)
		all = append(all, p)
	}
	return strings.Join(all, ",")
}

// lines returns the log lines so far.
func (b *bench) lines(t testing.TB) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for d := json.NewDecoder(bytes.NewReader(b.log.Bytes())); d.More(); {
		var line map[string]any
		must(t, d.Decode(&line))
		lines = append(lines, line)
	}
	return lines
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

// parseTime reads a time of an answer.
func parseTime(t testing.TB, s string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339, s)
	must(t, err)
	return parsed
}
