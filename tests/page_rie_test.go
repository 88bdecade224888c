package tests

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// pageEvent returns a request for a path of the claim page of spring, as API Gateway sends it.
func pageEvent(t *testing.T, path string) []byte {
	t.Helper()
	event := bytes.ReplaceAll(readEvent(t, "get-campaign"), []byte("/campaigns/{campaign}"), []byte("/c/{campaign}"))
	return bytes.ReplaceAll(event, []byte("/campaigns/spring"), []byte("/c/spring"+path))
}

// TestPageInTheEmulator checks that the built function serves the page with its headers if the page is on, and does
// not serve it if it is off.
func TestPageInTheEmulator(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	endpoint, own := testengine.Dynoxide(t), newTables()
	bank := own.create(t, endpoint)
	addCampaign(t, bank, "spring", itembank.Settings{}, 1)
	const logo = "\x89PNG\r\n\x1a\n\x00\xff"
	document, err := claimpage.Page{
		Languages: map[string]claimpage.Texts{"en": {"title": "Spring <sale>"}}, Theme: "h1 { color: red }", Logo: []byte(logo),
	}.Encode()
	must(t, err)
	must(t, bank.SetPageDocument(t.Context(), "spring", document))
	settings := append(own.settings(endpoint, "link"), linkSettings(t, "link")...)
	on := startFunction(t, append(settings, "ONCEBOX_PAGE=on", "ONCEBOX_CAMPAIGN_CACHE=4s")...)
	const alone, page = "default-src 'none'; frame-ancestors 'none'", "default-src 'none'; script-src 'self'; style-src 'self'; " +
		"img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	for path, want := range map[string]struct{ mediaType, policy, text string }{
		"":          {"text/html; charset=utf-8", page, "<h1 lang=\"en\">Spring &lt;sale&gt;</h1>"},
		"/claim.js": {"text/javascript; charset=utf-8", alone, `"campaign":"spring"`},
		"/page.css": {"text/css; charset=utf-8", alone, "h1 { color: red }"},
		"/logo":     {"image/png", alone, logo},
	} {
		r := on.do(t, pageEvent(t, path))
		equal(t, "status of "+path, r.StatusCode, http.StatusOK)
		for name, value := range map[string]string{
			"Content-Type": want.mediaType, "Content-Security-Policy": want.policy, "Cache-Control": "public, max-age=4",
			"Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
		} {
			equal(t, name+" of "+path, r.Headers[name], value)
		}
		if body := bodyOf(t, r); !strings.Contains(body, want.text) {
			t.Errorf("%s has no %q:\n%s", path, want.text, body)
		}
	}
	checkReply(t, pageEvent(t, "/page.js"), on.do(t, pageEvent(t, "/page.js")), eventCase{status: 404, slug: "no-such-route"})

	off := startFunction(t, settings...)
	for _, path := range []string{"", "/claim.js"} {
		event := pageEvent(t, path)
		checkReply(t, event, off.do(t, event), eventCase{status: 404, slug: "no-such-route"})
	}
}

func bodyOf(t *testing.T, r events.APIGatewayV2HTTPResponse) string {
	t.Helper()
	if !r.IsBase64Encoded {
		return r.Body
	}
	body, err := base64.StdEncoding.DecodeString(r.Body)
	must(t, err)
	return string(body)
}

// TestChallengeInTheEmulator checks that the built function reads the secret of its challenge by the ARN, and sends
// it to the provider. Neither the secret nor a solution may be in the log.
func TestChallengeInTheEmulator(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	const arn = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:turnstile-a1B2c3"
	var refuses atomic.Bool // Secrets Manager
	refuses.Store(true)
	secrets := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" {
			http.Error(w, `{"__type":"AccessDeniedException"}`, http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"SecretString":"hunter2"}`)
	}))
	t.Cleanup(secrets.Close)
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		right := r.FormValue("secret") == "hunter2" && r.FormValue("response") == "right-solution"
		fmt.Fprintf(w, `{"success":%t,"hostname":"shop.example","action":"oncebox-claim"}`, right)
	}))
	t.Cleanup(provider.Close)
	endpoint, own := testengine.Dynoxide(t), newTables()
	addCampaign(t, own.create(t, endpoint), "spring", itembank.Settings{}, 1)
	f := startFunction(t, append(own.settings(endpoint, "body"),
		"AWS_ENDPOINT_URL_SECRETS_MANAGER="+secrets.URL,
		"ONCEBOX_CHALLENGE=turnstile?site-key=site&secret-arn="+arn+"&url="+provider.URL+"&hosts=shop.example")...)
	claim := func(solution string) []byte {
		body := fmt.Sprintf(`{\"claimant\":\"ann\",\"challenge\":\"%s\"}`, solution)
		return bytes.Replace(readEvent(t, "claim-body"), []byte(`{\"claimant\": \"customer-1\"}`), []byte(body), 1)
	}
	for _, step := range []struct {
		solution string
		refuses  bool
		want     eventCase
	}{
		{"right-solution", true, eventCase{status: 503, slug: "challenge-unavailable"}},
		{"wrong-solution", false, eventCase{status: 403, slug: "challenge-failed"}},
		{"right-solution", false, eventCase{status: 201}},
		{"right-solution", true, eventCase{status: 200}}, // the secret is kept for a while
	} {
		refuses.Store(step.refuses)
		event := claim(step.solution)
		checkReply(t, event, f.do(t, event), step.want)
	}
	if log := f.output(t); strings.Contains(log, "hunter2") || strings.Contains(log, "-solution") || !strings.Contains(log, arn) {
		t.Errorf("the log has the secret or a solution, or does not name the secret:\n%s", log)
	}
}
