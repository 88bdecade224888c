package operate

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// TestLocalHosts: a web page whose name leads to this machine (DNS rebinding) reads no claim and not what is served
// here. The operator names the hosts of a proxy.
func TestLocalHosts(t *testing.T) {
	t.Parallel()
	bank := itembank.NewOperator(memstore.NewItems())
	_, _, err := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
	if err == nil {
		_, err = bank.Load(t.Context(), "spring", itembank.Items("CODE-1"), nil)
	}
	if err == nil {
		_, err = bank.Claim(t.Context(), "spring", "ann")
	}
	if err != nil {
		t.Fatal(err)
	}
	const rebound, proxy = "rebound.attacker.example:8080", "claims.example"
	for _, c := range []struct {
		name    string
		command localCommand
		refused []string
		served  []string
	}{
		{"loopback", localCommand{}, []string{rebound, proxy}, []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080"}},
		{"proxy", localCommand{AllowHost: []string{"other.example", proxy}}, []string{rebound}, []string{proxy, "localhost"}},
		{"remote", localCommand{AllowRemote: true}, nil, []string{rebound}},
		{"remote proxy", localCommand{AllowRemote: true, AllowHost: []string{proxy}}, []string{rebound}, []string{proxy}},
	} {
		o, err := handlerOptions([]string{"ONCEBOX_CORS_ORIGINS=http://" + rebound})
		if err != nil {
			t.Fatal(err)
		}
		log := slog.New(slog.DiscardHandler)
		h := c.command.handler(&cli.App{Globals: cli.Globals{Store: "dynamodb:"}}, bank, claimapi.New(bank.Bank, o.ClaimantFrom, log, o.HandlerOptions(nil)...), o)
		for _, host := range append(c.refused, c.served...) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
			r.Host = host
			reply := httptest.NewRecorder()
			if h.ServeHTTP(reply, r); reply.Code != http.StatusOK {
				t.Errorf("%s: GET /healthz for %s is answered %d %s", c.name, host, reply.Code, reply.Body)
			}
		}
		for status, hosts := range map[int][]string{http.StatusMisdirectedRequest: c.refused, http.StatusOK: c.served} {
			for _, host := range hosts {
				for path, says := range map[string]string{"/campaigns/spring/claims/ann": "CODE-1", "/": "dynamodb:"} {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
					r.Host = host
					reply := httptest.NewRecorder()
					h.ServeHTTP(reply, r)
					if reply.Code != status || strings.Contains(reply.Body.String(), says) != (status == http.StatusOK) {
						t.Errorf("%s: GET %s for %s is answered %d %s", c.name, path, host, reply.Code, reply.Body)
					}
				}
			}
		}
	}
}

// TestHealth: /healthz says to every host whether the store can be read. Callers cause one read a second at most.
func TestHealth(t *testing.T) {
	t.Parallel()
	reads, now, broken := 0, time.Now(), false
	store := &itembankfault.Store{Store: memstore.NewItems(), Before: func(string) error {
		if reads++; broken {
			return itembank.ErrTryAgain
		}
		return nil
	}}
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	h := withHealth(&storeHealth{bank: itembank.NewOperator(store), now: func() time.Time { return now }}, next)
	for _, step := range []struct {
		broken       bool
		after        time.Duration
		method, path string
		status       int
		body         string
		reads        int
	}{
		{false, 0, http.MethodGet, "/healthz", http.StatusOK, `{"status":"ok"}`, 1},
		{true, 0, http.MethodGet, "/healthz", http.StatusOK, `{"status":"ok"}`, 1},
		{true, time.Second, http.MethodGet, "/healthz", http.StatusServiceUnavailable, `{"status":"unavailable"}`, 2},
		{false, 0, http.MethodHead, "/healthz", http.StatusServiceUnavailable, `{"status":"unavailable"}`, 2},
		{false, time.Second, http.MethodHead, "/healthz", http.StatusOK, `{"status":"ok"}`, 3},
		{false, 0, http.MethodPost, "/healthz", http.StatusTeapot, "", 3},
		{false, 0, http.MethodGet, "/healthz/", http.StatusTeapot, "", 3},
	} {
		now, broken = now.Add(step.after), step.broken
		gone, cancel := context.WithCancel(t.Context())
		cancel() // a caller that goes away must not make the store look broken
		r := httptest.NewRequestWithContext(gone, step.method, step.path, nil)
		r.Header.Set("X-Request-Id", "of-the-proxy")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != step.status || strings.TrimSpace(w.Body.String()) != step.body || reads != step.reads ||
			w.Header().Get("X-Request-Id") != "of-the-proxy" {
			t.Errorf("%+v: got %d %s after %d reads", step, w.Code, w.Body, reads)
		}
	}
}

// TestLocalWithoutExample: the server goes on if the campaigns cannot be read for the example.
func TestLocalWithoutExample(t *testing.T) {
	t.Parallel()
	store := &itembankfault.Store{Store: memstore.NewItems(), Before: func(string) error { return itembank.ErrTryAgain }}
	var said strings.Builder
	a := &cli.App{Process: cli.Process{Stderr: &said}}
	remarkExample(t.Context(), a, itembank.NewOperator(store), "http://127.0.0.1:8080", claimapi.Options{})
	if want := "no example, because the campaigns could not be read: itembank: try again\n"; said.String() != want {
		t.Errorf("want %q, got %q", want, said.String())
	}
}

// TestOtherPort: the port that a hint proposes is not the one in use.
func TestOtherPort(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8081", "localhost:8081": "localhost:8082", "[::1]:80": "[::1]:8080", ":65535": ":8080",
	} {
		if got := otherPort(addr); got != want {
			t.Errorf("%s: want %s, got %s", addr, want, got)
		}
	}
}
