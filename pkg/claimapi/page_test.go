package claimapi_test

import (
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// withPage returns a handler with the page, on the bench's store.
func (b *bench) withPage(t *testing.T, cache time.Duration) *claimapi.Handler {
	t.Helper()
	from, err := claimapi.ParseClaimantFrom("link")
	must(t, err)
	log := slog.New(slog.NewJSONHandler(b.log, nil))
	return claimapi.New(itembank.New(b.store, itembank.WithCampaignCache(0)), from, log, claimapi.WithPage(cache))
}

func (b *bench) setPage(t *testing.T, p claimpage.Page) {
	t.Helper()
	document, err := p.Encode()
	must(t, err)
	must(t, b.bank.SetPageDocument(t.Context(), "spring", document))
}

func TestPage(t *testing.T) {
	t.Parallel()
	b := newBench(t, "link", "SPRING-1")
	logo := "\x89PNG\r\n\x1a\n\x00\xff"
	b.setPage(t, claimpage.Page{
		Languages: map[string]claimpage.Texts{"de": {"title": "Frühling & mehr"}}, Theme: "h1 { color: red }", Logo: []byte(logo),
	})
	h := b.withPage(t, 3*time.Second)
	for path, want := range map[string]struct{ mediaType, text string }{
		"/c/spring":          {"text/html; charset=utf-8", "Frühling &amp; mehr"},
		"/c/spring/claim.js": {"text/javascript; charset=utf-8", `"token":true`},
		"/c/spring/page.css": {"text/css; charset=utf-8", "h1 { color: red }"},
		"/c/spring/logo":     {"image/png", logo},
	} {
		response, err := h.Handle(t.Context(), get(path))
		must(t, err)
		body := response.Body
		if response.IsBase64Encoded {
			decoded, err := base64.StdEncoding.DecodeString(body)
			must(t, err)
			body = string(decoded)
		}
		equal(t, path, response.StatusCode, http.StatusOK)
		equal(t, "content type", response.Headers["Content-Type"], want.mediaType)
		equal(t, "Referrer-Policy", response.Headers["Referrer-Policy"], "no-referrer")
		equal(t, "Cache-Control", response.Headers["Cache-Control"], "public, max-age=3")
		if !strings.Contains(body, want.text) || !strings.Contains(response.Headers["Content-Security-Policy"], "default-src 'none'") {
			t.Errorf("%s: %v\n%s", path, response.Headers, body)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		equal(t, "body over net/http", w.Body.String(), body)
	}
}

// TestPageRoutes: the page's routes serve only the page's files, and exist only if the page is on.
func TestPageRoutes(t *testing.T) {
	t.Parallel()
	b := newBench(t, "link")
	on := &bench{Handler: b.withPage(t, 0)}
	for path, slug := range map[string]string{
		"/c/winter/claim.js": "no-such-campaign", "/c/Spring/claim.js": "invalid-request",
		"/c/spring/claims": "no-such-route", "/c/spring/logo": "no-such-route", "/c/": "no-such-route",
		"/c/spring/../claim.js": "no-such-route",
	} {
		a := on.do(t, get(path))
		equal(t, path, a.slug(), slug)
	}
	for _, path := range []string{"/c/winter", "/c/Spring"} { // for visitors, a page
		response, err := on.Handle(t.Context(), get(path))
		must(t, err)
		equal(t, path, response.StatusCode, http.StatusNotFound)
		equal(t, "content type", response.Headers["Content-Type"], "text/html; charset=utf-8")
		equal(t, "Cache-Control", response.Headers["Cache-Control"], "no-store")
		equal(t, "it says so", strings.Contains(response.Body, "There is no such offer"), true)
	}
	for path, location := range map[string]string{ // the files of the page are relative to the path without the slash
		"/c/spring/": "../spring", "/c/spring/?utm=mail": "../spring?utm=mail", "/c/winter/": "../winter",
	} {
		rawPath, query, _ := strings.Cut(path, "?")
		r := get(rawPath)
		r.RawQueryString = query
		response, err := on.Handle(t.Context(), r)
		must(t, err)
		equal(t, path, response.StatusCode, http.StatusPermanentRedirect)
		equal(t, "Location", response.Headers["Location"], location)
	}
	equal(t, "Allow", on.do(t, post("/c/spring", "")).Headers["Allow"], "GET")
	b.do(t, get("/c/spring")).wants(t, http.StatusNotFound, "no-such-route")
}

// TestPageIsCached: a copy is used for the duration of the cache, and not longer.
func TestPageIsCached(t *testing.T) {
	t.Parallel()
	b := newBench(t, "link")
	kept, fresh := b.withPage(t, time.Hour), b.withPage(t, 0)
	titled := func(h *claimapi.Handler, title string) bool {
		response, err := h.Handle(t.Context(), get("/c/spring"))
		must(t, err)
		return strings.Contains(response.Body, title)
	}
	for i, title := range []string{"first", "second"} {
		b.setPage(t, claimpage.Page{Languages: map[string]claimpage.Texts{"en": {"title": title}}})
		equal(t, "copy of "+title, titled(kept, title), i == 0)
		equal(t, "no copy of "+title, titled(fresh, title), true)
	}
}
