package claimapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

const (
	theSecret = "hunter2"
	secretARN = "arn:aws:secretsmanager:eu-west-1:123456789012:secret:turnstile-a1B2c3"
)

// provider answers siteverify calls with a status and a text.
func provider(t *testing.T, status int, answer string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("secret") != theSecret || r.FormValue("response") != "solution" || r.Method != http.MethodPost {
			t.Errorf("%s with %v", r.Method, r.Form)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// silentProvider accepts requests and answers none.
func silentProvider(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees that the client has gone when it has read the body
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestChallenge: a claim needs a right solution. In all other cases it is refused, and nothing is claimed.
func TestChallenge(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	// The hosts allow shop.example. A case without a status must not ask the provider.
	for name, c := range map[string]struct {
		solution string
		status   int
		answer   string
		slug     string
	}{
		"right":            {`"solution"`, 200, `{"success":true,"hostname":"shop.example"}`, ""},
		"right, Turnstile": {`"solution"`, 200, `{"success":true,"hostname":"Shop.example","action":"oncebox-claim","error-codes":[]}`, ""},
		"of another host":  {`"solution"`, 200, `{"success":true,"hostname":"blog.example"}`, "challenge-failed"},
		"of no host":       {`"solution"`, 200, `{"success":true,"hostname":"not-provided"}`, "challenge-failed"},
		"of a login":       {`"solution"`, 200, `{"success":true,"hostname":"shop.example","action":"login"}`, "challenge-failed"},
		"wrong":            {`"solution"`, 200, `{"success":false,"error-codes":["timeout-or-duplicate"]}`, "challenge-failed"},
		"no success":       {`"solution"`, 200, `{"hostname":"shop.example"}`, "challenge-failed"},
		"none":             {`""`, 0, "", "challenge-failed"},
		"not a string":     {`1`, 0, "", "invalid-request"},
		"wrong secret":     {`"solution"`, 200, `{"success":false,"error-codes":["invalid-input-secret"]}`, "challenge-unavailable"},
		"another site key": {`"solution"`, 200, `{"success":false,"error-codes":["sitekey-secret-mismatch"]}`, "challenge-unavailable"},
		"not JSON":         {`"solution"`, 500, `<html>`, "challenge-unavailable"},
		"of a proxy":       {`"solution"`, 502, `{"success":true,"hostname":"shop.example"}`, "challenge-unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := gone.URL
			if c.status != 0 {
				address = provider(t, c.status, c.answer)
			}
			wantChallenge(t, claimapi.Challenge{URL: address, Secret: ownSecret, Hosts: []string{"www.shop.example", "shop.example"}}, c.solution, c.slug)
		})
	}
	redirected := httptest.NewServer(http.RedirectHandler(provider(t, 200, `{"success":true}`), http.StatusTemporaryRedirect))
	t.Cleanup(redirected.Close)
	const unavailable = "challenge-unavailable"
	for name, c := range map[string]struct {
		challenge claimapi.Challenge
		slug      string
	}{
		"any host":           {claimapi.Challenge{URL: provider(t, 200, `{"success":true,"hostname":"blog.example"}`), Secret: ownSecret}, ""},
		"no provider":        {claimapi.Challenge{URL: gone.URL, Secret: ownSecret}, unavailable},
		"a silent provider":  {claimapi.Challenge{URL: silentProvider(t), Secret: ownSecret}, unavailable},
		"a redirect":         {claimapi.Challenge{URL: redirected.URL, Secret: ownSecret}, unavailable},
		"no secret":          {claimapi.Challenge{URL: gone.URL, Secret: noSecret}, unavailable},
		"no secret reader":   {claimapi.Challenge{URL: gone.URL, SecretARN: secretARN}, unavailable},
		"time-out of secret": {claimapi.Challenge{URL: gone.URL, Secret: timedOut}, unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantChallenge(t, c.challenge, `"solution"`, c.slug)
		})
	}
}

// wantChallenge claims with a solution, and expects the claim, or a problem and no claim.
func wantChallenge(t *testing.T, challenge claimapi.Challenge, solution, slug string) {
	t.Helper()
	wantOfOptions(t, solution, slug, claimapi.WithChallenge(challenge))
}

func wantOfOptions(t *testing.T, solution, slug string, options ...claimapi.Option) {
	t.Helper()
	b := newBench(t, "body", "SPRING-1")
	from, err := claimapi.ParseClaimantFrom("body")
	must(t, err)
	b.Handler = claimapi.New(itembank.New(b.store), from, slog.New(slog.NewJSONHandler(b.log, nil)), options...)
	a := b.do(t, post(spring, `{"claimant":"ada","challenge":`+solution+`}`))
	equal(t, "problem", a.slug(), slug)
	_, err = b.bank.HeldClaim(t.Context(), "spring", "ada")
	equal(t, "claimed", err == nil, slug == "")
	if log := b.log.String(); strings.Contains(log, theSecret) || strings.Contains(log, "solution\"") {
		t.Errorf("the log has a secret: %s", log)
	}
}

func ownSecret(context.Context) (string, error) { return theSecret, nil }

func noSecret(context.Context) (string, error) { return "", errors.New("no secret") }

func timedOut(context.Context) (string, error) { return "", context.DeadlineExceeded }

func TestChallengeSettings(t *testing.T) {
	t.Parallel()
	const on = "hcaptcha?site-key=site"
	_, s, err := claimapi.ParseSettings(with("ONCEBOX_CHALLENGE=" + on + "&secret-arn=" + secretARN +
		"&url=" + provider(t, 200, `{"success":true}`)))
	must(t, err)
	equal(t, "provider and site", s.Challenge.Provider+" "+s.Challenge.SiteKey, "hcaptcha site")
	wantOfOptions(t, `"solution"`, "challenge-unavailable", s.HandlerOptions(nil)...)
	wantOfOptions(t, `"solution"`, "", s.HandlerOptions(func(arn string) func(context.Context) (string, error) {
		equal(t, "ARN", arn, secretARN)
		return ownSecret
	})...)
	_, s, err = claimapi.ParseSettings(with("ONCEBOX_CHALLENGE=" + on + "&secret-file=x&hosts=a.example,b.example&url=http://x/?y=1%262"))
	must(t, err)
	equal(t, "hosts and URL", fmt.Sprint(s.Challenge.Hosts, s.Challenge.URL), "[a.example b.example]http://x/?y=1&2")
	for _, hosts := range []string{"shop.example:443", "https://shop.example", "*.shop.example", "Shop.example", "shop.example/x"} {
		if _, _, err := claimapi.ParseSettings(with("ONCEBOX_CHALLENGE=" + on + "&secret-arn=" + secretARN + "&hosts=" + hosts)); err == nil {
			t.Errorf("%s is taken for a host name", hosts)
		}
	}
	for want, environ := range map[string][]string{
		"option secret-arn is missing, and so is secret-file":                            with("ONCEBOX_CHALLENGE=" + on),
		"option secret-arn is given, and so is secret-file":                              with("ONCEBOX_CHALLENGE=" + on + "&secret-file=x&secret-arn=" + secretARN),
		"option secret-arn is not":                                                       with("ONCEBOX_CHALLENGE=" + on + "&secret-arn=turnstile"),
		"ONCEBOX_CHALLENGE is not a provider (allowed: turnstile, hcaptcha or recaptcha": with("ONCEBOX_CHALLENGE=captcha?site-key=x&secret-file=x"),
		"ONCEBOX_CHALLENGE is not":                                                       with("ONCEBOX_CHALLENGE=hcaptcha:x?site-key=x&secret-file=x"),
		"option site-key is missing":                                                     with("ONCEBOX_CHALLENGE=turnstile"),
		"option url is not":                                                              with("ONCEBOX_CHALLENGE=" + on + "&secret-file=x&url=x"),
		"option hosts has a value":                                                       with("ONCEBOX_CHALLENGE=" + on + "&secret-file=x&hosts=shop.example,"),
		"option sitekey is not a known setting, did you mean site-key?":                  with("ONCEBOX_CHALLENGE=turnstile?sitekey=x"),
		"ONCEBOX_CHALLENGE_SITE_KEY is not a known setting":                              with("ONCEBOX_CHALLENGE_SITE_KEY=x"),
		"ONCEBOX_CORS_ORIGINS is not for the function: API Gateway has the origi":        with("ONCEBOX_CORS_ORIGINS=https://shop.example"),
	} {
		if _, _, err := claimapi.ParseSettings(environ); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
