package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

func TestRoutes(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	bank := itembank.NewOperator(store)
	_, _, err = bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
	must(t, err)
	_, err = bank.Load(t.Context(), "spring", itembank.Items("SAVE-10"), nil)
	must(t, err)
	server := httptest.NewServer(routes(bank.Bank))
	t.Cleanup(server.Close)

	for _, c := range []struct {
		path, customer string
		status         int
		body           string
	}{
		{"/checkout", "ann", http.StatusOK, "your code is SAVE-10"},
		{"/checkout", "ann", http.StatusOK, "your code is SAVE-10"},
		{"/checkout", "bob", http.StatusOK, "all codes are gone"},
		{"/checkout", "", http.StatusBadRequest, "who are you?"},
		{"/campaigns/spring/claims", "ann", http.StatusOK, `"item":"SAVE-10"`},
		{"/campaigns/spring/claims", "bob", http.StatusConflict, "sold-out"},
		{"/campaigns/spring/claims", "", http.StatusUnauthorized, "unauthenticated"},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+c.path, http.NoBody)
		must(t, err)
		request.Header.Set("X-Customer", c.customer)
		response, err := server.Client().Do(request)
		must(t, err)
		body, err := io.ReadAll(response.Body)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != c.status || !strings.Contains(string(body), c.body) {
			t.Errorf("%s of %q: want %d and %q, got %d and %s", c.path, c.customer, c.status, c.body, response.StatusCode, body)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
