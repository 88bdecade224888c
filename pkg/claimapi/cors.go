package claimapi

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORSRequestHeaders returns the request headers that browsers may send from a page of another origin.
func CORSRequestHeaders() []string { return []string{"authorization", "content-type"} }

// CORSResponseHeaders returns the response headers that scripts of another origin may read.
func CORSResponseHeaders() []string {
	return []string{"date", "idempotent-replayed", "location", "retry-after", "x-request-id"}
}

// CORSMaxAge is how long a browser remembers which requests an origin may send, before it asks again. It is the longest
// time that any browser accepts.
const CORSMaxAge = 2 * time.Hour

// ValidateOrigin checks that a text is an origin as browsers send it: a scheme and a host, with nothing after it. It
// refuses * (all origins), because the operator must list the sites that embed the page.
func ValidateOrigin(origin string) error {
	u, err := url.Parse(origin)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Contains(u.Host, "*") ||
		u.Scheme+"://"+strings.ToLower(u.Host) != origin {
		return errors.New("is not an origin; write it as https://shop.example, without a path")
	}
	return nil
}

// AllowOrigins lets scripts of these origins call a handler from a browser. Use it in servers. In AWS, API Gateway
// does this, and removes the headers of a function.
func AllowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Add("Vary", "Origin")
		if origin := r.Header.Get("Origin"); slices.Contains(origins, origin) {
			header.Set("Access-Control-Allow-Origin", origin)
			header.Set("Access-Control-Expose-Headers", strings.Join(CORSResponseHeaders(), ", "))
		}
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			next.ServeHTTP(w, r)
			return
		}
		RequestID(w, r)
		header.Set("Access-Control-Max-Age", strconv.Itoa(int(CORSMaxAge.Seconds())))
		header.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
		header.Set("Access-Control-Allow-Headers", strings.Join(CORSRequestHeaders(), ", "))
		w.WriteHeader(http.StatusNoContent)
	})
}
