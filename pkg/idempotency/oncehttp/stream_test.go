package oncehttp_test

import (
	"bufio"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

// TestStreams: a request for a stream or a connection is refused before the handler runs.
func TestStreams(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	with := func(name string, values ...string) answer {
		r := order("key-1")
		r.header = http.Header{name: values}
		return b.send(r)
	}
	with("Accept", "text/event-stream").wantsProblem(t, http.StatusNotImplemented, "no-stream")
	with("Accept", " Text/Event-Stream ;q=1").wantsProblem(t, http.StatusNotImplemented, "no-stream")
	with("Upgrade", "WebSocket").wantsProblem(t, http.StatusNotImplemented, "no-stream")
	equal(t, "runs", b.runs.Load(), 0)
	with("Accept", "application/json, text/event-stream").wants(t, http.StatusCreated, "run 1 of coffee", false)
	with("Accept", "text/event-stream", "*/*").wants(t, http.StatusCreated, "run 1 of coffee", true)
	with("Upgrade", "h2c").wants(t, http.StatusCreated, "run 1 of coffee", true)
}

// TestConnect: a tunnel is refused, too. No client of net/http sends such a request to a path.
func TestConnect(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	w, r := httptest.NewRecorder(), order("key-1")
	r.method = http.MethodConnect
	wrapped(t, b.store, http.NotFound).ServeHTTP(w, r.toHTTP(t.Context(), "http://localhost"))
	equal(t, "status", w.Code, http.StatusNotImplemented)
}

// TestHandlerCannotStream: a handler cannot send anything before its response is stored, nor take the connection over.
func TestHandlerCannotStream(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, func(int32) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, flusher := w.(http.Flusher)
			_, hijacker := w.(http.Hijacker)
			_, pusher := w.(http.Pusher)
			_, stringWriter := w.(io.StringWriter)
			_, readerFrom := w.(io.ReaderFrom)
			_, unwrapper := w.(interface{ Unwrap() http.ResponseWriter })
			equal(t, "other methods", flusher || hijacker || pusher || stringWriter || readerFrom || unwrapper, false)

			_, err := io.WriteString(w, "one, ")
			must(t, err)
			control := http.NewResponseController(w)
			_, _, hijacked := control.Hijack()
			for name, err := range map[string]error{
				"Flush": control.Flush(), "Hijack": hijacked, "SetWriteDeadline": control.SetWriteDeadline(time.Now()),
				"SetReadDeadline": control.SetReadDeadline(time.Now()), "EnableFullDuplex": control.EnableFullDuplex(),
			} {
				equal(t, name, errors.Is(err, http.ErrNotSupported), true)
			}
			_, err = io.Copy(w, bufio.NewReader(strings.NewReader("two")))
			must(t, err)
		}
	})
	for _, replayed := range []bool{false, true} {
		b.send(order("key-1")).wants(t, http.StatusOK, "one, two", replayed)
	}
}

// TestBodyReadBefore: a body that an outer handler has read is no part of the fingerprint. So the request is refused.
func TestBodyReadBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	for name, read := range map[string]func(*http.Request){
		"whole":           func(r *http.Request) { _, _ = io.ReadAll(r.Body) },
		"its first bytes": func(r *http.Request) { _, _ = io.ReadFull(r.Body, make([]byte, 2)) },
		"form of unknown length": func(r *http.Request) {
			r.ContentLength = -1
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			must(t, r.ParseForm())
		},
	} {
		w := httptest.NewRecorder()
		r := order("key-1").toHTTP(t.Context(), "http://localhost")
		read(r)
		wrapped(t, b.store, http.NotFound).ServeHTTP(w, r)
		equal(t, name, w.Code, http.StatusInternalServerError)
	}
	if b.row("key-1") != nil {
		t.Error("there is a record")
	}
	empty := order("key-1")
	empty.body = ""
	w, r := httptest.NewRecorder(), empty.toHTTP(t.Context(), "http://localhost")
	must(t, r.ParseForm())
	wrapped(t, b.store, http.NotFound).ServeHTTP(w, r)
	equal(t, "a request without a body", w.Code, http.StatusNotFound)
}

// TestBodyCut: the body of a client that goes away is not taken for the whole.
func TestBodyCut(t *testing.T) {
	t.Parallel()
	b := newBench(t, idempotency.Settings{}, oncehttp.Settings{}, echo)
	w, r := httptest.NewRecorder(), order("key-1").toHTTP(t.Context(), "http://localhost")
	r.Body = io.NopCloser(io.MultiReader(strings.NewReader("cof"), cut{}))
	wrapped(t, b.store, http.NotFound).ServeHTTP(w, r)
	answer{w.Result(), w.Body.String()}.wantsProblem(t, http.StatusBadRequest, "body-cut")
}

type cut struct{}

func (cut) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
