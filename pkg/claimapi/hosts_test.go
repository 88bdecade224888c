package claimapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// TestAllowHosts: loopback names and the named hosts reach the handler, with any port. A web page whose name leads to
// this machine does not.
func TestAllowHosts(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	reached := 0
	h := claimapi.New(nil, claimapi.FromContext(), slog.New(slog.NewTextHandler(&log, nil))).AllowHosts([]string{"Claims.example"},
		http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for host, reaches := range map[string]int{
		"localhost": 1, "LocalHost:8080": 1, "127.0.0.1": 1, "127.9.9.9:1": 1, "[::1]": 1, "[::1]:8080": 1,
		"claims.example": 1, "CLAIMS.example:443": 1,
		"": 0, "rebound.attacker.example:8080": 0, "localhost.attacker.example": 0, "127.0.0.1.attacker.example": 0,
		"claims.example.attacker.example": 0, "sub.claims.example": 0, "192.168.0.7:8080": 0, "[::2]": 0, "localhost@attacker.example": 0,
		"0.0.0.0:8080": 0,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/campaigns/spring/claims/ann", nil)
		r.Host = host
		w, before := httptest.NewRecorder(), reached
		log.Reset()
		h.ServeHTTP(w, r)
		equal(t, host+" reaches the handler", reached-before, reaches)
		if reaches == 1 {
			continue
		}
		equal(t, host, w.Code, http.StatusMisdirectedRequest)
		equal(t, host, w.Header().Get("Content-Type"), "application/problem+json")
		if body := w.Body.String(); !strings.Contains(body, `docs/problems.md#other-host"`) || strings.Contains(body, "attacker") {
			t.Errorf("%s is answered %s", host, body)
		}
		if !strings.Contains(log.String(), "slug=other-host") || strings.Contains(log.String(), "attacker") != strings.Contains(host, "attacker") {
			t.Errorf("%s: the log is %s", host, log.String())
		}
	}
}
