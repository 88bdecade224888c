package claimapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// serve answers one request of net/http.
func serve(t *testing.T, h http.Handler, method, target string, body io.Reader) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, target, body)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	a := answer{}
	a.StatusCode, a.Body, a.Headers = w.Code, w.Body.String(), map[string]string{}
	for name := range w.Header() {
		a.Headers[name] = w.Header().Get(name)
	}
	must(t, json.Unmarshal(w.Body.Bytes(), &a.members))
	return a
}

func TestServeHTTP(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	body := strings.NewReader(`{"claimant":"team/ann 50%"}`)
	made := serve(t, b, http.MethodPost, spring, body).wants(t, http.StatusCreated, "")
	equal(t, "item", made.text("item"), "SPRING-1")
	equal(t, "Location", made.Headers["Location"], spring+"/team%2Fann%2050%25")
	equal(t, "content type", made.Headers["Content-Type"], "application/json")
	equal(t, "Cache-Control", made.Headers["Cache-Control"], "no-store")
	found := serve(t, b, http.MethodGet, made.Headers["Location"], nil).wants(t, http.StatusOK, "")
	equal(t, "claim", found.text("claim_id"), made.text("claim_id"))
	equal(t, "Idempotent-Replayed", found.Headers["Idempotent-Replayed"], "true")

	head := serve(t, b, http.MethodHead, "/campaigns/spring", nil).wants(t, http.StatusOK, "") // the server drops its body
	equal(t, "content type of HEAD", head.Headers["Content-Type"], "application/json")
	other := serve(t, b, http.MethodDelete, "/campaigns/spring", nil)
	other.wants(t, http.StatusMethodNotAllowed, "method-not-allowed")
	equal(t, "Allow", other.Headers["Allow"], "GET, HEAD")

	lines := b.lines(t)
	equal(t, "log lines", len(lines), 4)
	for _, line := range lines {
		if id, _ := line["request_id"].(string); len(id) != 36 {
			t.Errorf("request id %q", id)
		}
	}
	equal(t, "instance", other.text("instance"), lines[3]["request_id"].(string))
}

// TestServeHTTPBodies: a body reaches the handler unchanged, and a body that is too large is refused.
func TestServeHTTPBodies(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	for body, c := range map[string]struct {
		status int
		slug   string
	}{
		"":                              {400, "invalid-request"},
		"{\"claimant\":\"jos\xe9\"}":    {400, "invalid-request"},
		strings.Repeat(" ", (16<<10)+1): {413, "body-too-large"},
		strings.Repeat("x", 1<<20):      {413, "body-too-large"},
		`{"claimant":"ada` + "é\"}":     {201, ""},
	} {
		serve(t, b, http.MethodPost, spring, strings.NewReader(body)).wants(t, c.status, c.slug)
	}
	cut := serve(t, b, http.MethodPost, spring, iotest.ErrReader(errors.New("cut"))).wants(t, 400, "invalid-request")
	equal(t, "pointers", cut.pointers(), "")
}

// TestRequestID: an id that a proxy has set is in the answer, the problem and the log. Another text gets a new id.
func TestRequestID(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	for given, taken := range map[string]bool{
		"JKJaXmPLvHcESHA=": true, "1-67891233-abcdef.x_y~z+": true, strings.Repeat("a", 128): true,
		"": false, "a b": false, "a\nb": false, `a"b`: false, "é": false, "a/b": false, strings.Repeat("a", 129): false,
	} {
		for _, target := range []string{"/campaigns/none", "http://other.example/campaigns/none"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, target, nil)
			r.Header["X-Request-Id"] = []string{given}
			w := httptest.NewRecorder()
			before := len(b.lines(t))
			b.AllowHosts([]string{"example.com"}, b).ServeHTTP(w, r)
			id := w.Header().Get("X-Request-Id")
			equal(t, "length of the id in the place of "+given, taken || len(id) == 36, true)
			equal(t, "taken over", id == given, taken)
			var problem struct{ Instance string }
			must(t, json.Unmarshal(w.Body.Bytes(), &problem))
			equal(t, "instance", problem.Instance, id)
			equal(t, "log", b.lines(t)[before]["request_id"].(string), id)
		}
	}
}

// TestFromContext: a middleware sets the caller, and a caller may name only itself.
func TestFromContext(t *testing.T) {
	t.Parallel()
	b := newBench(t, "body", "SPRING-1")
	var log bytes.Buffer
	h := claimapi.New(b.bank.Bank, claimapi.FromContext(), slog.New(slog.NewTextHandler(&log, nil)))
	as := func(caller string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r.WithContext(claimapi.WithCaller(r.Context(), caller)))
		})
	}
	serve(t, h, http.MethodPost, spring, strings.NewReader(`{"claimant":"ada"}`)).wants(t, 401, "unauthenticated")
	serve(t, as(""), http.MethodPost, spring, nil).wants(t, 401, "unauthenticated")
	if text := log.String(); strings.Count(text, "claimapi.WithCaller") != 2 || strings.Contains(text, "ONCEBOX_") {
		t.Errorf("the log does not say what the program should do: %s", text)
	}
	serve(t, as("ada"), http.MethodPost, spring, strings.NewReader(`{"claimant":"bob"}`)).wants(t, 403, "not-your-claim")
	made := serve(t, as("ada"), http.MethodPost, spring, nil).wants(t, 201, "")
	equal(t, "claimant", made.text("claimant"), "ada")
	found := serve(t, as("ada"), http.MethodGet, spring+"/me", nil).wants(t, 200, "")
	equal(t, "item", found.text("item"), "SPRING-1")
	serve(t, as("bob"), http.MethodGet, spring+"/ada", nil).wants(t, 403, "not-your-claim")
	if _, err := claimapi.ParseClaimantFrom(claimapi.FromContext().String()); err == nil {
		t.Error("a variable can choose the context, in which no function puts a caller")
	}
}
