package claimapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

func TestAllowOrigins(t *testing.T) {
	t.Parallel()
	const shop = "https://shop.example"
	reached := 0
	h := claimapi.AllowOrigins([]string{shop}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	for _, c := range []struct {
		method, origin, asks string
		allowed              string
		maxAge               string
		reaches              int
	}{
		{http.MethodOptions, shop, "POST", shop, "7200", 0},
		{http.MethodOptions, "https://other.example", "POST", "", "7200", 0},
		{http.MethodOptions, shop, "", shop, "", 1},
		{http.MethodPost, shop, "", shop, "", 1},
		{http.MethodPost, "https://shop.example.evil.example", "", "", "", 1},
		{http.MethodGet, "", "", "", "", 1},
	} {
		r := httptest.NewRequestWithContext(t.Context(), c.method, "/campaigns/spring", nil)
		r.Header.Set("Origin", c.origin)
		r.Header.Set("Access-Control-Request-Method", c.asks)
		w, before := httptest.NewRecorder(), reached
		h.ServeHTTP(w, r)
		equal(t, "allowed origin", w.Header().Get("Access-Control-Allow-Origin"), c.allowed)
		exposed := "date, idempotent-replayed, location, retry-after, x-request-id"
		if c.allowed == "" {
			exposed = ""
		}
		equal(t, "exposed headers", w.Header().Get("Access-Control-Expose-Headers"), exposed)
		equal(t, "max age", w.Header().Get("Access-Control-Max-Age"), c.maxAge)
		equal(t, "has an id", w.Header().Get("X-Request-Id") != "", c.reaches == 0) // else the handler sets one
		equal(t, "Vary", w.Header().Get("Vary"), "Origin")
		equal(t, "reaches the handler", reached-before, c.reaches)
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for origin, ok := range map[string]bool{
		"https://shop.example": true, "http://localhost:3000": true, "": false, "*": false, "https://*.example": false,
		"https://shop.example/": false, "shop.example": false, "ftp://shop.example": false, "https://Shop.example": false,
	} {
		equal(t, origin, claimapi.ValidateOrigin(origin) == nil, ok)
	}
}
