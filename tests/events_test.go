package tests

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const claimEvents = "../events/claim"

// eventCase is the answer that the claim function must give to an event.
type eventCase struct {
	from   string // ONCEBOX_CLAIMANT_FROM
	status int    // or notHTTP
	slug   string // the slug of the problem; "": the answer is not a problem
}

// notHTTP marks an event that is not an HTTP request. Its invocation must fail.
const notHTTP = 0

// eventCases lists all events in events/claim by file name without .json. The answers hold
// for the campaigns of loadCampaigns, in any order of the events.
var eventCases = map[string]eventCase{
	"claim-body":              {"body", 201, ""},
	"claim-base64":            {"body", 201, ""},
	"claim-jwt":               {"jwt:sub", 201, ""},
	"claim-me-empty-body":     {"jwt:sub", 201, ""},
	"claim-iam":               {"iam", 201, ""},
	"claim-iam-cognito":       {"iam", 201, ""},
	"claim-iam-session":       {"iam:session", 201, ""},
	"claim-iam-role":          {"iam:role", 201, ""},
	"claim-link":              {"link", 201, ""},
	"claim-link-scope":        {"link", 201, ""},
	"stage-prefix":            {"body", 201, ""},
	"claim-again":             {"body", 200, ""},
	"claim-again-when-closed": {"body", 200, ""},
	"get-claim":               {"body", 200, ""},
	"get-claim-decoded-path":  {"body", 200, ""},
	"get-me":                  {"jwt:sub", 200, ""},
	"get-me-link":             {"link", 200, ""},
	"get-campaign":            {"body", 200, ""},
	"get-campaign-scheduled":  {"iam", 200, ""},
	"get-campaign-sold-out":   {"jwt:sub", 200, ""},
	"get-campaign-empty":      {"body", 200, ""},
	"get-openapi":             {"body", 200, ""},

	"claim-slot":   {"body", 201, ""},
	"claim-chosen": {"body", 201, ""},
	"get-slot":     {"body", 200, ""},
	"get-items":    {"body", 200, ""},
	"claim-hold":   {"body", 201, ""},
	"release-hold": {"body", 204, ""}, // the claimant holds another claim

	"choice-not-allowed":         {"body", 400, "invalid-request"},
	"not-published":              {"iam", 404, "not-published"},
	"item-taken":                 {"body", 409, "item-taken"},
	"confirm-without-id":         {"body", 400, "invalid-request"},
	"confirm-without-holds":      {"body", 400, "invalid-request"},
	"release-hold-without-id":    {"body", 400, "invalid-request"},
	"confirm-by-claimant":        {"jwt:sub", 403, "may-not-confirm"},
	"confirm-by-link":            {"link", 403, "may-not-confirm"},
	"confirm-no-claim":           {"body", 404, "no-claim"},
	"confirm-claim-ended":        {"body", 409, "claim-ended"},
	"prolong-without-end":        {"body", 400, "invalid-request"},
	"prolong-by-claimant":        {"jwt:sub", 404, "no-claim"}, // who may, and holds nothing
	"prolong-claim-ended":        {"body", 409, "claim-ended"},
	"replace-by-claimant":        {"jwt:sub", 403, "may-not-replace"},
	"replace-no-claim":           {"body", 404, "no-claim"},
	"malformed-json":             {"body", 400, "invalid-request"},
	"trailing-data":              {"body", 400, "invalid-request"},
	"not-an-object":              {"body", 400, "invalid-request"},
	"bad-base64":                 {"body", 400, "invalid-request"},
	"invalid-utf8":               {"body", 400, "invalid-request"},
	"empty-body":                 {"body", 400, "invalid-request"},
	"missing-claimant":           {"body", 400, "invalid-request"},
	"empty-claimant":             {"body", 400, "invalid-request"},
	"claimant-not-a-string":      {"body", 400, "invalid-request"},
	"duplicate-claimant":         {"body", 400, "invalid-request"},
	"overlong-claimant":          {"body", 400, "invalid-request"},
	"overlong-claimant-in-path":  {"body", 400, "invalid-request"},
	"control-character-claimant": {"body", 400, "invalid-request"},
	"lone-surrogate-claimant":    {"body", 400, "invalid-request"},
	"damaged-claimant":           {"body", 400, "invalid-request"},
	"bad-campaign-name":          {"body", 400, "invalid-request"},
	"unknown-member":             {"body", 400, "invalid-request"},
	"question-mark-in-claimant":  {"body", 400, "invalid-request"},
	"no-identity-body":           {"body", 401, "unauthenticated"},
	"no-identity-jwt":            {"jwt:sub", 401, "unauthenticated"},
	"no-identity-iam":            {"iam", 401, "unauthenticated"},
	"role-session-iam":           {"iam", 401, "unauthenticated"},
	"cognito-without-identity":   {"iam", 401, "unauthenticated"},
	"identity-without-the-claim": {"jwt:sub", 401, "unauthenticated"},
	"no-link":                    {"link", 401, "unauthenticated"},
	"forged-link":                {"link", 401, "invalid-link"},
	"unsigned-link":              {"link", 401, "invalid-link"},
	"expired-link":               {"link", 401, "link-expired"},
	"link-of-another-campaign":   {"link", 403, "other-campaign"},
	"link-of-another-scope":      {"link", 403, "other-campaign"},
	"other-claimant-with-link":   {"link", 403, "not-your-claim"},
	"other-claimant":             {"jwt:sub", 403, "not-your-claim"},
	"other-claimant-in-path":     {"jwt:sub", 403, "not-your-claim"},
	"unknown-route":              {"body", 404, "no-such-route"},
	"unknown-campaign":           {"body", 404, "no-such-campaign"},
	"no-claim":                   {"body", 404, "no-claim"},
	"get-me-without-identity":    {"body", 404, "no-claim"},
	"wrong-method":               {"body", 405, "method-not-allowed"},
	"sold-out":                   {"body", 409, "sold-out"},
	"not-open":                   {"body", 409, "not-open"},
	"closed":                     {"body", 409, "closed"},
	"claimed-elsewhere":          {"body", 409, "claimed-elsewhere"},
	"body-too-large":             {"body", 413, "body-too-large"},
	"not-json-content-type":      {"body", 415, "not-json"},
	"no-content-type":            {"body", 415, "not-json"},
	"payload-v1":                 {"body", notHTTP, ""},
	"kinesis":                    {"body", notHTTP, ""},
}

// loadCampaigns makes the campaigns that the events name.
func loadCampaigns(t testing.TB, bank *itembank.Operator) {
	t.Helper()
	workshops := itembank.Settings{Scope: "workshops"}
	addCampaign(t, bank, "spring", itembank.Settings{}, 20)
	addCampaign(t, bank, "empty", itembank.Settings{}, 0)
	addCampaign(t, bank, "summer", itembank.Settings{}, 2)
	addCampaign(t, bank, "winter", itembank.Settings{OpensAt: time.Date(2099, 12, 1, 0, 0, 0, 0, time.UTC)}, 1)
	addCampaign(t, bank, "seats", itembank.Settings{Hold: 15 * time.Minute, MaxHold: time.Hour}, 3)
	addCampaign(t, bank, "tickets", itembank.Settings{PerClaimant: 2}, 3)
	addCampaign(t, bank, "hall", itembank.Settings{Choice: true, Publish: true, OnEnd: itembank.Return}, 5)
	addCampaign(t, bank, "morning", workshops, 1)
	addCampaign(t, bank, "evening", workshops, 1)
	for _, c := range [][2]string{
		{"spring", "customer-17"}, {"spring", "team/ann 50%41"}, {"spring", "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44"},
		{"summer", "customer-17"}, {"seats", "customer-17"}, {"morning", "customer-30"}, {"tickets", "customer-17"},
	} {
		_, err := bank.Claim(t.Context(), c[0], c[1])
		must(t, err)
	}
	_, err := bank.Claim(t.Context(), "hall", "customer-17", itembank.Choosing("HALL-A"))
	must(t, err)
	must(t, bank.CloseCampaign(t.Context(), "summer"))
}

// addCampaign makes a campaign with two shards and n items. The items of "spring" are
// SPRING-A, SPRING-B and so on.
func addCampaign(t testing.TB, bank *itembank.Operator, name string, s itembank.Settings, n int) {
	t.Helper()
	s.Shards = 2
	_, _, err := bank.CreateCampaign(t.Context(), name, s)
	must(t, err)
	items := make([]string, n)
	for i := range items {
		items[i] = strings.ToUpper(name) + "-" + string(rune('A'+i))
	}
	if n > 0 {
		_, err = bank.Load(t.Context(), name, itembank.Items(items...), nil)
		must(t, err)
	}
}

func TestEveryClaimEventIsInTheTable(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(claimEvents + "/*")
	must(t, err)
	found := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if _, ok := eventCases[name]; !ok {
			t.Errorf("%s is not in the table of events_test.go", file)
		}
		found[name] = true
	}
	for name := range eventCases {
		if !found[name] {
			t.Errorf("%s/%s.json of the table does not exist", claimEvents, name)
		}
	}
}

// TestClaimEvents gives every event to the handler on SQLite.
func TestClaimEvents(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "bank.db"))
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	bank := itembank.NewOperator(store)
	loadCampaigns(t, bank)
	for name, want := range eventCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, err := claimapi.ParseClaimantFrom(want.from)
			must(t, err)
			keys, err := claimlink.ParseKeys(eventLinkKeys(t))
			must(t, err)
			var log bytes.Buffer
			handler := claimapi.New(bank.Bank, from, slog.New(slog.NewJSONHandler(&log, nil)), claimapi.WithLinkKeys(keys))
			response, err := invokeHandler(t, handler, readEvent(t, name))
			if want.status == notHTTP {
				if !errors.Is(err, claimapi.ErrNotHTTP) {
					t.Errorf("want %v, got %v and %+v", claimapi.ErrNotHTTP, err, response)
				}
				return
			}
			must(t, err)
			checkReply(t, readEvent(t, name), response, want)
			checkDocument(t, log.Bytes(), response)
		})
	}
}

func readEvent(t testing.TB, name string) []byte {
	t.Helper()
	event, err := os.ReadFile(filepath.Join(claimEvents, name+".json"))
	must(t, err)
	return event
}

// invokeHandler calls the handler as the Lambda runtime does.
func invokeHandler(t testing.TB, h *claimapi.Handler, event []byte) (events.APIGatewayV2HTTPResponse, error) {
	t.Helper()
	raw, err := h.Invoke(context.WithoutCancel(t.Context()), event)
	var response events.APIGatewayV2HTTPResponse
	if err == nil {
		err = json.Unmarshal(raw, &response)
	}
	return response, err
}

// answerBody has the members of all kinds of answers that the tests compare.
type answerBody struct {
	Type, Title, Detail, Instance     string
	OpenAPI                           string
	Status                            int
	Errors                            []struct{ Pointer, Detail string }
	Campaign, Claimant, Item, ClaimID string
	ClaimedAt                         time.Time `json:"claimed_at"`
	State                             itembank.State
	Replayed                          *bool
	Items                             json.RawMessage
}

// isList reports whether the answer lists free items, and is not a claim.
func (b answerBody) isList() bool { return b.Items != nil && b.Claimant == "" }

// checkReply checks the status, the problem, and the contract's rules for all answers.
func checkReply(t testing.TB, event []byte, r events.APIGatewayV2HTTPResponse, want eventCase) {
	t.Helper()
	if want.status == http.StatusNoContent {
		equal(t, "body of "+http.StatusText(r.StatusCode), r.Body, "")
		equal(t, "status", r.StatusCode, want.status)
		return
	}
	var body answerBody
	must(t, json.Unmarshal([]byte(r.Body), &body))
	if _, slug, _ := strings.Cut(body.Type, "#"); r.StatusCode != want.status || slug != want.slug {
		t.Fatalf("answered %d %q, want %d %q; body %s", r.StatusCode, slug, want.status, want.slug, r.Body)
	}
	cache := "no-store"
	if body.isList() {
		cache = "public, max-age=1"
	}
	equal(t, "Cache-Control", r.Headers["Cache-Control"], cache)
	if want.slug != "" {
		checkProblem(t, event, r, body)
		return
	}
	equal(t, "Content-Type", r.Headers["Content-Type"], "application/json")
	if body.State == "" && body.OpenAPI == "" && !body.isList() {
		checkClaim(t, r, body)
	}
}

func checkClaim(t testing.TB, r events.APIGatewayV2HTTPResponse, body answerBody) {
	t.Helper()
	created := r.StatusCode == http.StatusCreated
	equal(t, "Location is present", r.Headers["Location"] != "", created)
	equal(t, "Idempotent-Replayed is true", r.Headers["Idempotent-Replayed"] == "true", !created)
	if body.Replayed == nil || *body.Replayed == created || body.Item == "" || body.Claimant == "" || body.ClaimedAt.IsZero() {
		t.Errorf("the claim lacks members: %s", r.Body)
	}
}

func checkProblem(t testing.TB, event []byte, r events.APIGatewayV2HTTPResponse, body answerBody) {
	t.Helper()
	equal(t, "Content-Type", r.Headers["Content-Type"], "application/problem+json")
	equal(t, "status member", body.Status, r.StatusCode)
	equal(t, "Allow is present", r.Headers["Allow"] != "", r.StatusCode == http.StatusMethodNotAllowed)
	equal(t, "WWW-Authenticate is present", r.Headers["WWW-Authenticate"] != "", r.StatusCode == http.StatusUnauthorized)
	equal(t, "Retry-After is present", r.Headers["Retry-After"] != "", r.StatusCode == http.StatusServiceUnavailable)
	equal(t, "errors are there", len(body.Errors) > 0, r.StatusCode == http.StatusBadRequest)
	equal(t, "campaign is present", body.Campaign != "", strings.HasSuffix(body.Type, "#claimed-elsewhere"))
	if body.Title == "" || body.Detail == "" || body.Item != "" || !strings.HasPrefix(body.Type, "https://github.com/oncebox/oncebox/blob/main/docs/problems.md#") {
		t.Errorf("the problem lacks members or has wrong ones: %s", r.Body)
	}
	var request events.APIGatewayV2HTTPRequest
	must(t, json.Unmarshal(event, &request))
	if id := request.RequestContext.RequestID; id != "" {
		equal(t, "instance", body.Instance, id)
	}
}

// eventNames returns the sorted names of the events for a value of ONCEBOX_CLAIMANT_FROM.
func eventNames(from string) []string {
	var names []string
	for name, c := range eventCases {
		if c.from == from {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	return string(raw)
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
