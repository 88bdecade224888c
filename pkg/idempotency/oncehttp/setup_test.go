package oncehttp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

const namespace = "shop"

// bench is a server of net/http whose handler is wrapped.
type bench struct {
	t      *testing.T
	store  *memstore.Calls
	url    string
	client *http.Client // of this server only: the end of another one closes the connections of the default client
	runs   atomic.Int32 // of the handler
	log    safeBuffer
	ended  chan bool // gets a value when the server sees the end of a request or of its client
}

// callerHeader names the caller in tests. In a real server an earlier middleware has authenticated it.
const callerHeader = "X-Test-Caller"

func callerOf(r *http.Request) (string, error) {
	caller := r.Header.Get(callerHeader)
	if caller == "unknown" {
		return "", errors.New("session store: out of reach")
	}
	return caller, nil
}

// newBench starts a server. The first request is request 1 for the handler.
func newBench(
	t *testing.T, r idempotency.Settings, s oncehttp.Settings, handler func(run int32) http.HandlerFunc,
) *bench {
	t.Helper()
	b := &bench{t: t, store: memstore.NewCalls(time.Now), ended: make(chan bool, 1000)}
	runner, err := idempotency.New(b.store, namespace, r)
	must(t, err)
	s.Log = slog.New(slog.NewJSONHandler(&b.log, nil))
	m, err := oncehttp.New(runner, callerOf, s)
	must(t, err)
	wrapped := m.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(b.runs.Add(1))(w, r) }))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		context.AfterFunc(r.Context(), func() { b.ended <- true })
		wrapped.ServeHTTP(w, r)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // for handlers that panic
	server.Start()
	t.Cleanup(server.Close)
	b.url, b.client = server.URL, server.Client()
	return b
}

// wrapped returns a handler in a process of its own.
func wrapped(t *testing.T, store engine.Store, handler http.HandlerFunc) http.Handler {
	t.Helper()
	runner, err := idempotency.New(store, namespace, idempotency.Settings{})
	must(t, err)
	m, err := oncehttp.New(runner, callerOf, oncehttp.Settings{Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return m.Wrap(handler)
}

// echo answers 201 with the body of the request and the number of the run.
func echo(run int32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "run %d of %s", run, body)
	}
}

// answer is a response with its whole body.
type answer struct {
	*http.Response
	body string
}

// request has the parts of a request that tests change.
type request struct {
	method, target, key, caller, body string
	header                            http.Header
}

func order(key string) request {
	return request{method: http.MethodPost, target: "/orders?from=web", key: key, caller: "ann", body: "coffee"}
}

func (r request) toHTTP(ctx context.Context, url string) *http.Request {
	made, err := http.NewRequestWithContext(ctx, r.method, url+r.target, strings.NewReader(r.body))
	if err != nil {
		panic(err)
	}
	for name, values := range r.header {
		made.Header[name] = values
	}
	if r.key != "" {
		made.Header.Set("Idempotency-Key", r.key)
	}
	made.Header.Set(callerHeader, r.caller)
	return made
}

// send sends a request and reads its answer.
func (b *bench) send(r request) answer {
	b.t.Helper()
	return b.sendHTTP(r.toHTTP(b.t.Context(), b.url))
}

func (b *bench) sendHTTP(r *http.Request) answer {
	b.t.Helper()
	response, err := b.client.Do(r)
	must(b.t, err)
	body, err := io.ReadAll(response.Body)
	must(b.t, err)
	must(b.t, response.Body.Close())
	return answer{response, string(body)}
}

// wants checks a response that is not a problem.
func (a answer) wants(t *testing.T, status int, body string, replayed bool) {
	t.Helper()
	equal(t, "status", a.StatusCode, status)
	equal(t, "body", a.body, body)
	equal(t, "Idempotency-Replayed", a.Header.Get("Idempotency-Replayed"), map[bool]string{true: "true"}[replayed])
}

// wantsProblem checks a problem. No problem has the key.
func (a answer) wantsProblem(t *testing.T, status int, slug string) {
	t.Helper()
	var problem struct {
		Type, Title, Detail, Instance string
		Status                        int
	}
	must(t, json.Unmarshal([]byte(a.body), &problem))
	equal(t, "status", a.StatusCode, status)
	equal(t, "status in the body", problem.Status, status)
	equal(t, "content type", a.Header.Get("Content-Type"), "application/problem+json")
	equal(t, "type", problem.Type, "https://github.com/oncebox/oncebox/blob/main/docs/idempotency-problems.md#"+slug)
	if problem.Title == "" || problem.Detail == "" || len(problem.Instance) != 36 || strings.Contains(a.body, "key-1") {
		t.Errorf("the problem is %s", a.body)
	}
}

// row returns the record of ann's key.
func (b *bench) row(key string) *engine.Record {
	return b.store.Row(engine.Key{Namespace: namespace, Name: oncehttp.KeyOf("ann", key)})
}

// safeBuffer is a buffer for several goroutines.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(data []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(data)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: want %v, got %v", what, want, got)
	}
}
