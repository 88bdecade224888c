package oncehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

// TestReplay: every request with a key gets the response of the first, byte for byte, with the headers that are stored.
func TestReplay(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{Headers: []string{"etag", "X-Receipt"}},
		func(run int32) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				for name, value := range map[string]string{
					"Location": "/orders/7", "ETag": `"a"`, "Set-Cookie": "session=secret", "Authorization": "Bearer secret",
					"X-Other": "1", "Content-Length": "3", "Idempotency-Replayed": "false",
				} {
					w.Header().Set(name, value)
				}
				w.Header()["X-Receipt"] = []string{"one", "two"}
				w.WriteHeader(http.StatusEarlyHints)
				w.WriteHeader(http.StatusCreated)
				w.WriteHeader(http.StatusOK) // is ignored
				w.Header().Set("ETag", `"late"`)
				fmt.Fprintf(w, "<html>\xff run %d", run)
			}
		})
	first, again := b.send(order(`"key-1"`)), b.send(order(`"key-1"`))
	first.wants(t, http.StatusCreated, "<html>\xff run 1", false)
	again.wants(t, http.StatusCreated, "<html>\xff run 1", true)
	for _, name := range []string{"Location", "Etag", "X-Receipt", "Content-Type", "Content-Length"} {
		equal(t, name, fmt.Sprintf("%q", again.Header[name]), fmt.Sprintf("%q", first.Header[name]))
	}
	equal(t, "receipts", fmt.Sprint(again.Header["X-Receipt"]), "[one two]")
	equal(t, "type", again.Header.Get("Content-Type"), "text/html; charset=utf-8")
	equal(t, "ETag", again.Header.Get("Etag"), `"a"`)
	for _, name := range []string{"Set-Cookie", "Authorization", "X-Other"} {
		if first.Header.Get(name) == "" || again.Header.Get(name) != "" {
			t.Errorf("%s: first %q, then %q", name, first.Header.Get(name), again.Header.Get(name))
		}
	}
	if stored := string(b.row("key-1").Result.Body); strings.Contains(stored, "secret") {
		t.Errorf("the record has %q", stored)
	}
	b.send(order("key-1")).wants(t, http.StatusCreated, "<html>\xff run 1", true) // without quotes, it is the same key
	equal(t, "runs", b.runs.Load(), 1)
}

// TestHeadersOfOuterHandlers: a handler sees, extends and removes the headers that handlers before the Middleware have
// set, as with net/http. A record keeps only what the handler set: for a replay, the handlers before run again.
func TestHeadersOfOuterHandlers(t *testing.T) {
	t.Parallel()
	runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace, idempotency.Settings{})
	must(t, err)
	m, err := oncehttp.New(runner, callerOf, oncehttp.Settings{Headers: []string{"Vary", "X-Visit"}})
	must(t, err)
	inner := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept")
		w.Header().Add("Set-Cookie", "cart=7")
		w.Header().Del("X-Frame-Options")
		echo(1)(w, r)
	}))
	send := func(visit string) http.Header {
		w := httptest.NewRecorder()
		w.Header().Set("Vary", "Origin")
		w.Header().Set("Set-Cookie", "session="+visit)
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("X-Visit", visit)
		inner.ServeHTTP(w, order("key-1").toHTTP(t.Context(), "http://localhost"))
		return w.Result().Header
	}
	for _, want := range []struct{ visit, vary, cookies, frames, replayed string }{
		{"1", "[Origin Accept]", "[session=1 cart=7]", "[]", ""},
		{"2", "[Origin Accept]", "[session=2]", "[DENY]", "true"},
	} {
		got := send(want.visit)
		equal(t, "Vary", fmt.Sprint(got["Vary"]), want.vary)
		equal(t, "Set-Cookie", fmt.Sprint(got["Set-Cookie"]), want.cookies)
		equal(t, "X-Frame-Options", fmt.Sprint(got["X-Frame-Options"]), want.frames)
		equal(t, "X-Visit", got.Get("X-Visit"), want.visit)
		equal(t, "replayed", got.Get("Idempotency-Replayed"), want.replayed)
	}
}

// TestHeadersThatAreNeverStored: no setting can have credentials stored.
func TestHeadersThatAreNeverStored(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	runner, err := idempotency.New(b.store, namespace, idempotency.Settings{})
	must(t, err)
	for _, name := range []string{
		"Set-Cookie", "set-cookie", "SET-COOKIE2", "Authorization", "proxy-authorization", "Cookie", "WWW-Authenticate",
		"Authentication-Info", "Connection", "Content-Length", "Date", "Idempotency-Replayed", "", "a b", "ä",
	} {
		_, err := oncehttp.New(runner, callerOf, oncehttp.Settings{Headers: []string{"ETag", name}})
		if !errors.Is(err, idempotency.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("%q", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, err = oncehttp.New(nil, callerOf, oncehttp.Settings{})
	equal(t, "no runner", errors.Is(err, idempotency.ErrInvalid), true)
	_, err = oncehttp.New(runner, nil, oncehttp.Settings{})
	equal(t, "no caller", errors.Is(err, idempotency.ErrInvalid), true)
	_, err = oncehttp.New(runner, callerOf, oncehttp.Settings{MaxBody: -1})
	equal(t, "negative limit", errors.Is(err, idempotency.ErrInvalid), true)
}

// TestKeys: a request that changes something needs one valid key.
func TestKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	with := func(values ...string) answer {
		r := order("")
		r.header = http.Header{"Idempotency-Key": values}
		return b.send(r)
	}
	with().wantsProblem(t, http.StatusBadRequest, "key-missing")
	for _, values := range [][]string{
		{""}, {`""`}, {`"key-1`}, {strings.Repeat("k", 256)}, {"key-1", "key-1"}, {"key-1, key-2"}, {`"key-1", "key-2"`},
	} {
		with(values...).wantsProblem(t, http.StatusBadRequest, "key-invalid")
	}
	equal(t, "runs", b.runs.Load(), 0)
	with(strings.Repeat("k", 255)).wants(t, http.StatusCreated, "run 1 of coffee", false)
	if text := b.log.String(); strings.Contains(text, "key-1") || strings.Contains(text, "kkk") {
		t.Errorf("the log has a key: %s", text)
	}
}

// TestRequestsWithoutKey: safe methods pass, with a key or without. With KeyOptional, all requests without one pass.
func TestRequestsWithoutKey(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{KeyOptional: true}, func(int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, inExecution := oncehttp.ExecutionOf(r.Context())
			_, canFlush := w.(http.Flusher)
			equal(t, "in an execution", inExecution, false)
			equal(t, "can flush", canFlush, true)
		}
	})
	for _, r := range []request{
		{method: http.MethodGet, key: "key-1"}, {method: http.MethodHead}, {method: http.MethodOptions},
		{method: http.MethodTrace}, {method: http.MethodPost}, {method: http.MethodPatch},
	} {
		for range 2 {
			b.send(r).wants(t, http.StatusOK, "", false)
		}
	}
	equal(t, "runs", b.runs.Load(), 12)
	empty := order("")
	empty.header = http.Header{"Idempotency-Key": {""}}
	b.send(empty).wantsProblem(t, http.StatusBadRequest, "key-invalid")

	required := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "LOCK"} {
		required.send(request{method: method, caller: "ann"}).wantsProblem(t, http.StatusBadRequest, "key-missing")
	}
	equal(t, "runs", required.runs.Load(), 0)
}

// TestCallers: a key belongs to its caller. Without a caller nothing runs, and nothing is stored.
func TestCallers(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	by := func(caller string) answer {
		r := order("key-1")
		r.caller = caller
		return b.send(r)
	}
	by("").wantsProblem(t, http.StatusUnauthorized, "unauthenticated")
	by("unknown").wantsProblem(t, http.StatusInternalServerError, "internal")
	equal(t, "runs", b.runs.Load(), 0)
	if text := b.log.String(); !strings.Contains(text, "session store: out of reach") || strings.Contains(text, "key-1") {
		t.Errorf("the log has %s", text)
	}
	by("ann").wants(t, http.StatusCreated, "run 1 of coffee", false)
	by("bob").wants(t, http.StatusCreated, "run 2 of coffee", false)
	by("ann").wants(t, http.StatusCreated, "run 1 of coffee", true)
	by("").wantsProblem(t, http.StatusUnauthorized, "unauthenticated")
}

// TestOtherPayload: a key is refused for a request with another method, path, query or body.
func TestOtherPayload(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	b.send(order("key-1")).wants(t, http.StatusCreated, "run 1 of coffee", false)
	for _, change := range []func(*request){
		func(r *request) { r.method = http.MethodPut },
		func(r *request) { r.target = "/order?from=web" },
		func(r *request) { r.target = "/orders%3Ffrom=web" },
		func(r *request) { r.target = "/orders?from=app" },
		func(r *request) { r.target = "/orders" },
		func(r *request) { r.body = "tea" },
		func(r *request) { r.body = "" },
	} {
		r := order("key-1")
		change(&r)
		b.send(r).wantsProblem(t, http.StatusUnprocessableEntity, "key-reused")
	}
	equal(t, "runs", b.runs.Load(), 1)
}

// TestTwins: a request with the key of a running one waits for its response, or is answered 409.
func TestTwins(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{true, false} {
		running, finish := make(chan bool), make(chan bool)
		finished := sync.OnceFunc(func() { close(finish) })
		b := newBench(t, idempotency.Settings{DoNotWait: !wait}, oncehttp.Settings{}, func(run int32) http.HandlerFunc {
			running <- true
			<-finish
			return echo(run)
		})
		t.Cleanup(finished)
		first := make(chan answer)
		go func() { first <- b.send(order("key-1")) }()
		<-running
		if wait {
			twin := make(chan answer)
			go func() { twin <- b.send(order("key-1")) }()
			finished()
			(<-first).wants(t, http.StatusCreated, "run 1 of coffee", false)
			(<-twin).wants(t, http.StatusCreated, "run 1 of coffee", true)
			continue
		}
		refused := b.send(order("key-1"))
		refused.wantsProblem(t, http.StatusConflict, "in-progress")
		equal(t, "Retry-After", refused.Header.Get("Retry-After"), "5") // the lease has 30 seconds
		finished()
		(<-first).wants(t, http.StatusCreated, "run 1 of coffee", false)
		b.send(order("key-1")).wants(t, http.StatusCreated, "run 1 of coffee", true)
	}
}

// TestFailuresFreeTheKey: which responses are no results. The handler runs again.
func TestFailuresFreeTheKey(t *testing.T) {
	t.Parallel()
	var status int
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, func(run int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(status)
			fmt.Fprint(w, "run ", run)
		}
	})
	for status = range 600 {
		frees := status >= 500 || status == 408 || status == 409 || status == 423 || status == 425 || status == 429
		if status < 200 || http.StatusText(status) == "" {
			continue
		}
		b.runs.Store(0)
		first, again := b.send(order(fmt.Sprint(status))), b.send(order(fmt.Sprint(status)))
		equal(t, "status", first.StatusCode, status)
		equal(t, "status", again.StatusCode, status)
		equal(t, "Retry-After", first.Header.Get("Retry-After"), "7")
		if want := map[bool]int32{true: 2, false: 1}[frees]; b.runs.Load() != want {
			t.Errorf("%d: %d runs, want %d", status, b.runs.Load(), want)
		}
		equal(t, "replayed", again.Header.Get("Idempotency-Replayed") == "true", !frees)
	}
}

// TestPanics: a handler that panics or aborts frees the key. The connection ends as without the middleware.
func TestPanics(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, func(run int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			switch run {
			case 1:
				_, _ = io.WriteString(w, "half of a response")
				panic("oops")
			case 2:
				panic(http.ErrAbortHandler)
			case 3:
				w.WriteHeader(0) // panics, as with net/http
			}
			echo(run)(w, r)
		}
	})
	for range 3 {
		response, err := b.client.Do(order("key-1").toHTTP(t.Context(), b.url))
		if err == nil {
			t.Errorf("the client got %s", response.Status)
			_ = response.Body.Close()
		}
	}
	b.send(order("key-1")).wants(t, http.StatusCreated, "run 4 of coffee", false)
	b.send(order("key-1")).wants(t, http.StatusCreated, "run 4 of coffee", true)
}

// TestClientGoesAway: the handler goes on, and its response is for the client that comes again.
func TestClientGoesAway(t *testing.T) {
	t.Parallel()
	running, finish := make(chan context.Context), make(chan bool)
	finished := sync.OnceFunc(func() { close(finish) })
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, func(run int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			running <- r.Context()
			<-finish
			if err := r.Context().Err(); err != nil {
				w.WriteHeader(http.StatusInternalServerError)
			}
			echo(run)(w, r)
		}
	})
	t.Cleanup(finished)
	gone := make(chan error)
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		response, err := b.client.Do(order("key-1").toHTTP(ctx, b.url))
		if err == nil {
			_ = response.Body.Close()
		}
		gone <- err
	}()
	inHandler := <-running
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if server, _ := inHandler.Value(http.ServerContextKey).(*http.Server); server == nil {
		t.Error("the context of the handler has lost its values")
	}
	<-b.ended // the server has seen it
	must(t, inHandler.Err())
	finished()
	b.send(order("key-1")).wants(t, http.StatusCreated, "run 1 of coffee", true)
}

// TestLimits: what is too large is found before the handler runs, or given to the first caller only.
func TestLimits(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{MaxBody: 10}, echo)
	body := func(key, body string) *http.Request {
		r := order(key)
		r.body = body
		return r.toHTTP(t.Context(), b.url)
	}
	b.sendHTTP(body("key-1", "01234567890")).wantsProblem(t, http.StatusRequestEntityTooLarge, "body-too-large")
	chunked := body("key-1", "01234567890")
	chunked.ContentLength = -1
	b.sendHTTP(chunked).wantsProblem(t, http.StatusRequestEntityTooLarge, "body-too-large")
	equal(t, "runs", b.runs.Load(), 0)
	b.sendHTTP(body("key-1", "0123456789")).wants(t, http.StatusCreated, "run 1 of 0123456789", false)
	chunked = body("key-2", "0123456789")
	chunked.ContentLength = -1
	b.sendHTTP(chunked).wants(t, http.StatusCreated, "run 2 of 0123456789", false)

	large := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, func(int32) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, strings.Repeat("x", 2000)) }
	})
	large.send(order("key-1")).wants(t, http.StatusOK, strings.Repeat("x", 2000), false)
	for range 2 {
		later := large.send(order("key-1"))
		later.wantsProblem(t, http.StatusInternalServerError, "result-not-stored")
		equal(t, "Retry-After", later.Header.Get("Retry-After"), "")
	}
	equal(t, "runs", large.runs.Load(), 1)
}

// TestExecutionOf: a handler knows its execution.
func TestExecutionOf(t *testing.T) {
	t.Parallel()
	keys := make(chan string, 2)
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, func(run int32) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			e, ok := oncehttp.ExecutionOf(r.Context())
			equal(t, "in an execution", ok && e.Number > 0, true)
			keys <- e.KeyFor("charge")
			w.WriteHeader(map[int32]int{1: http.StatusBadGateway, 2: http.StatusOK}[run])
		}
	})
	b.send(order("key-1"))
	b.send(order("key-1"))
	equal(t, "key of the second execution", <-keys, <-keys)
}
