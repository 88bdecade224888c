package operate

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
		h := c.command.handler(&cli.App{Globals: cli.Globals{Store: "dynamodb:"}}, claimapi.New(bank.Bank, o.ClaimantFrom, log, o.HandlerOptions()...), o)
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
