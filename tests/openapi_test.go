package tests

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/openapitest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

const openAPI = "../pkg/claimapi/openapi.json"

// checkDocument checks an answer against the OpenAPI document. The log line of the request has its route. Each path has
// the answers to requests without a route.
func checkDocument(t testing.TB, log []byte, r events.APIGatewayV2HTTPResponse) {
	t.Helper()
	var line struct{ Route string }
	must(t, json.Unmarshal(log, &line))
	document, err := openapitest.Parse([]byte(read(t, openAPI)))
	must(t, err)
	must(t, document.Check(openapitest.Answer{
		Operation: cmp.Or(line.Route, "GET /campaigns/{campaign}"), Status: r.StatusCode, Headers: r.Headers, Body: r.Body,
	}))
}

// TestDocumentIsLinted checks that Redocly has no findings in the OpenAPI document, and that its examples are valid.
func TestDocumentIsLinted(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	lint := exec.CommandContext(t.Context(), testengine.Tool(t, "redocly"), "lint", "--extends=recommended-strict", openAPI)
	if out, err := lint.CombinedOutput(); err != nil {
		t.Errorf("redocly: %v\n%s", err, out)
	}
}

// TestAnswersAreInTheDocument makes Schemathesis send valid and invalid requests from the document, and follow its
// links from a claim to the claim's confirmation and release. The document must describe all answers, and invalid
// requests must be refused. Every operation and every kind of claim must succeed at least once. It leaves prolongations
// and replacements out: with more links for each claim, its few requests follow none of them. TestProlong and TestReplace
// of pkg/claimapi compare their answers with the document.
func TestAnswersAreInTheDocument(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	tool := testengine.Tool(t, "schemathesis")
	t.Run("oncebox local", func(t *testing.T) {
		t.Parallel()
		url := startLocal(t)
		document := narrowed(t, fetch(t, url+"/openapi.json"), "claimant")
		delete(member(document, "components", "schemas", "ClaimRequest", "properties"), "challenge") // which it ignores
		checkReached(t, document, schemathesis(t, tool, url, document),
			`^POST \S+/claims .*"slot": 2`, `^POST \S+/claims .*"items": \[`, `^GET \S+/claims/\S+[?&]slot=2`,
			`^DELETE \S+[?&]slot=2`, `^GET \S+/items\?\S*limit=\d`, `^GET \S+/items\?\S*cursor=\d`)
	})
	t.Run("handler with links and a challenge", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(handlerWithLinks(t))
		t.Cleanup(server.Close)
		token, err := eventLinkKey(t).Sign(claimlink.Claims{Claimant: "customer-17", Campaign: "spring", Expires: farFuture})
		must(t, err)
		document := narrowed(t, fetch(t, server.URL+"/openapi.json"), "challenge")
		checkReached(t, document, schemathesis(t, tool, server.URL, document, "--header=Authorization: Bearer "+token),
			`^POST \S+/claims .*"challenge": "`)
	})
}

// schemathesis tests a server with a document. It returns the requests that were answered 2xx, as "METHOD /path?query
// body". The requests are few and always the same.
func schemathesis(t *testing.T, tool, url string, document map[string]any, arguments ...string) (succeeded []string) {
	t.Helper()
	config, err := filepath.Abs("testdata/schemathesis.toml")
	must(t, err)
	folder := t.TempDir()
	file, report := filepath.Join(folder, "openapi.json"), filepath.Join(folder, "report.har")
	encoded, err := json.Marshal(document)
	must(t, err)
	must(t, os.WriteFile(file, encoded, 0o600))
	run := exec.CommandContext(t.Context(), tool, append([]string{
		"--config-file=" + config, "run", file, "--url=" + url, "--no-color", "--report-har-path=" + report,
	}, arguments...)...)
	run.Dir = folder // it keeps notes there
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
	var har struct {
		Log struct {
			Entries []struct {
				Request struct {
					Method, URL string
					PostData    struct{ Text string }
				}
				Response struct{ Status int }
			}
		}
	}
	must(t, json.Unmarshal([]byte(read(t, report)), &har))
	for _, e := range har.Log.Entries {
		if path, found := strings.CutPrefix(e.Request.URL, url); found && e.Response.Status/100 == 2 {
			succeeded = append(succeeded, e.Request.Method+" "+path+" "+e.Request.PostData.Text)
		}
	}
	return succeeded
}

// checkReached checks that a request to each operation of the document succeeded, and a request that matches each
// expression.
func checkReached(t *testing.T, document map[string]any, succeeded []string, expressions ...string) {
	t.Helper()
	for path, item := range member(document, "paths") {
		for method := range item.(map[string]any) {
			if method != "parameters" {
				path = parameter.ReplaceAllString(path, "[^/?]+")
				expressions = append(expressions, "^"+strings.ToUpper(method)+" "+path+`[? ]`)
			}
		}
	}
	for _, e := range expressions {
		if !slices.ContainsFunc(succeeded, regexp.MustCompile(e).MatchString) {
			t.Errorf("of %d requests that succeeded, none is %s", len(succeeded), e)
		}
	}
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// narrowed changes the document for one API. It requires a member of a claim's body, and lists the cursors of a
// campaign with two shards.
func narrowed(t *testing.T, document []byte, required string) (d map[string]any) {
	t.Helper()
	must(t, json.Unmarshal(document, &d))
	schemas := member(d, "components", "schemas")
	member(schemas, "ClaimRequest")["required"] = []string{required}
	member(schemas, "Cursor")["pattern"] = "^([01](-[0-9a-f]{32})?)?$"
	member(d, "paths", "/campaigns/{campaign}/claims", "post", "requestBody")["required"] = true
	for _, answer := range []string{"Claimed", "Held"} {
		links := member(d, "components", "responses", answer, "links")
		delete(links, "prolong")
		delete(links, "replace")
	}
	delete(member(d, "paths"), "/campaigns/{campaign}/claims/{claimant}/prolongation")
	delete(member(d, "paths"), "/campaigns/{campaign}/claims/{claimant}/replacement")
	return d
}

func member(object map[string]any, path ...string) map[string]any {
	for _, name := range path {
		object, _ = object[name].(map[string]any)
	}
	return object
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	body, err := io.ReadAll(response.Body)
	must(t, errors.Join(err, response.Body.Close()))
	return body
}

// newSpring makes a store with the campaign in the examples of the document's parameters. All requests of the
// document's other examples work with it, too: it has holds, slots, and items that are chosen and listed.
func newSpring(t *testing.T) (path string, bank *itembank.Operator) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "bank.db")
	store, err := sqlitestore.Create(t.Context(), path)
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	bank = itembank.NewOperator(store)
	addCampaign(t, bank, "spring", itembank.Settings{
		Hold: time.Hour, MaxHold: 2 * time.Hour, OnEnd: itembank.Return, PerClaimant: 100, Choice: true, MaxItems: 20, Publish: true,
	}, 20)
	_, err = bank.Load(t.Context(), "spring", itembank.Items("12A", "12B"), nil)
	must(t, err)
	return path, bank
}

// handlerWithLinks also has a challenge, for which every solution is correct.
func handlerWithLinks(t *testing.T) http.Handler {
	t.Helper()
	_, bank := newSpring(t)
	from, err := claimapi.ParseClaimantFrom("link")
	must(t, err)
	keys, err := claimlink.ParseKeys(eventLinkKeys(t))
	must(t, err)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"success": true}`)
	}))
	t.Cleanup(provider.Close)
	challenge := claimapi.Challenge{
		Provider: "turnstile", URL: provider.URL, Secret: func(context.Context) (string, error) { return "secret", nil },
	}
	return claimapi.New(bank.Bank, from, slog.New(slog.DiscardHandler), claimapi.WithLinkKeys(keys),
		claimapi.WithClaimantsConfirm(true), claimapi.WithChallenge(challenge))
}

// startLocal builds oncebox and runs `oncebox local` until the test ends. It returns the address from the command's
// first line.
func startLocal(t *testing.T) (url string) {
	t.Helper()
	path, _ := newSpring(t)
	program := filepath.Join(t.TempDir(), "oncebox")
	must(t, testengine.BuildOncebox(program))
	local := exec.CommandContext(t.Context(), program, "--store", "sqlite:"+path, "--log-level=error", "local", "--addr=127.0.0.1:0")
	output, err := local.StderrPipe()
	must(t, err)
	must(t, local.Start())
	t.Cleanup(func() {
		_ = local.Process.Kill()
		_ = local.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	must(t, err)
	_, url, _ = strings.Cut(strings.TrimSpace(line), " on ")
	return url
}
