package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

// TestEndpoint sends a payment twice, another amount under its key, and a payment without a key.
func TestEndpoint(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.OpenMemory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	handler := endpoint(store)
	var first string
	for _, c := range []struct {
		key, amount, replayed string
		status                int
	}{
		{"order-1", "19.90", "", http.StatusOK},
		{"order-1", "19.90", "true", http.StatusOK},
		{"order-1", "99.00", "", http.StatusUnprocessableEntity},
		{"", "19.90", "", http.StatusBadRequest},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/payments", strings.NewReader(c.amount))
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if first == "" {
			first = w.Body.String()
		}
		if w.Code != c.status || w.Header().Get("Idempotency-Replayed") != c.replayed ||
			c.status == http.StatusOK && w.Body.String() != first {
			t.Errorf("%s %s: got %d %q %s", c.key, c.amount, w.Code, w.Header().Get("Idempotency-Replayed"), w.Body)
		}
	}
	if !strings.HasPrefix(first, "paid in execution 1") {
		t.Errorf("the first answer is %q", first)
	}
}
