package oncehttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/internal/exchange"
)

// Settings are the choices of a Middleware. The zero value of each has its default.
type Settings struct {
	// Headers are the names of response headers that are stored and repeated, besides Content-Type, Content-Encoding,
	// Content-Language and Location. All other headers are sent once, by the call that ran the handler. New refuses
	// headers with credentials, such as Set-Cookie, and headers of one connection.
	Headers []string
	// MaxBody is the largest body of a request in bytes. The default is 1 MiB. A larger one is answered 413.
	MaxBody int
	// KeyOptional lets requests without the header Idempotency-Key through to the handler. Nothing protects them from a
	// repeat. By default they are answered 400.
	KeyOptional bool
	// Log gets a line for each request that is refused. The default is slog.Default().
	Log *slog.Logger
}

// Middleware runs handlers once for a key. It is safe for concurrent use.
type Middleware struct {
	exchange *exchange.Exchange
	caller   func(*http.Request) (string, error)
}

// New returns a Middleware. The Runner has a namespace of its own: the name of the API, or of the part of it that the
// Middleware wraps.
//
// caller returns who sent a request: the customer that an earlier middleware has authenticated. A key belongs to its
// caller, so that two customers who send the same key never get each other's response. The client must not be able to
// choose the name. If customers of two tenants can have the same name, the name needs the tenant, too. A request with
// the caller "" is answered 401, and an error of caller is answered 500. If the customers are not known, they share
// their keys: let caller return one constant name only if that does no harm.
//
// An error belongs to idempotency.ErrInvalid.
func New(
	runner *idempotency.Runner, caller func(*http.Request) (string, error), settings Settings,
) (*Middleware, error) {
	x, err := exchange.New(runner, caller != nil, exchange.Settings(settings))
	if err != nil {
		return nil, err
	}
	return &Middleware{x, caller}, nil
}

// Wrap returns a handler that runs next once for each key of each caller. The package documentation has the rules.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		keys := r.Header.Values(exchange.KeyHeader)
		if m.exchange.Passes(r.Method, keys) {
			next.ServeHTTP(w, r)
			return
		}
		running, end := detach(r.Context())
		defer end()
		contexts, request := exchange.Contexts{Waiting: r.Context(), Running: running}, m.requestOf(w, r, keys)
		run := func(ctx context.Context, body []byte) (exchange.Response, error) {
			return record(next, r.WithContext(ctx), body, w.Header()), nil
		}
		response, _, err := m.exchange.Answer(contexts, request, run)
		if err != nil { // another program has stored a failure under the key
			response = m.exchange.Refuse(r.Context(), request, err)
		}
		send(w, response)
	})
}

// detach returns a context with the values and the deadline of ctx, which does not end when the client goes away.
func detach(ctx context.Context) (context.Context, context.CancelFunc) {
	detached := context.WithoutCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(detached, deadline)
	}
	return detached, func() {}
}

func (m *Middleware) requestOf(w http.ResponseWriter, r *http.Request, keys []string) exchange.Request {
	return exchange.Request{
		Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Keys: keys, ID: uuid.NewString(),
		Streams: wantsStream(r),
		Caller:  func() (string, error) { return m.caller(r) },
		Body:    func(limit int) ([]byte, error) { return readBody(w, r, limit) },
	}
}

// wantsStream reports whether a request can only be answered with a stream or a connection. Clients that accept other
// types, too, or that offer an upgrade to HTTP/2, can be answered without.
func wantsStream(r *http.Request) bool {
	accepted := strings.TrimSpace(strings.Join(r.Header.Values("Accept"), ","))
	mediaType, _, _ := strings.Cut(accepted, ";")
	return r.Method == http.MethodConnect || strings.EqualFold(r.Header.Get("Upgrade"), "websocket") ||
		strings.EqualFold(strings.TrimSpace(mediaType), "text/event-stream") && !strings.Contains(accepted, ",")
}

var errReadBefore = errors.New("a handler before the Middleware has read the body; put the Middleware before that one")

// readBody reads the whole body. A body that something has read before would be no part of the fingerprint.
func readBody(w http.ResponseWriter, r *http.Request, limit int) ([]byte, error) {
	if r.ContentLength > int64(limit) {
		return nil, exchange.ErrBodyTooLarge
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(limit)))
	_, tooLarge := errors.AsType[*http.MaxBytesError](err)
	switch {
	case tooLarge:
		return nil, exchange.ErrBodyTooLarge
	case err != nil:
		return nil, fmt.Errorf("%w: %w", exchange.ErrBodyCut, err)
	case int64(len(body)) < r.ContentLength,
		len(body) == 0 && r.ContentLength < 0 && (r.PostForm != nil || r.MultipartForm != nil):
		return nil, errReadBefore
	}
	return body, nil
}

// record runs the handler, and returns its response. The handler sees the headers that others have set before.
func record(next http.Handler, r *http.Request, body []byte, outer http.Header) exchange.Response {
	r.Body, r.ContentLength, r.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	w := &recorder{outer: outer, header: outer.Clone()}
	next.ServeHTTP(w, r)
	return w.response()
}

// send sends a response. Its body is complete, so that its length is known.
func send(w http.ResponseWriter, r exchange.Response) {
	header := w.Header()
	for name, values := range r.Header {
		header[name] = values
	}
	if _, typed := header["Content-Type"]; !typed {
		header["Content-Type"] = nil // net/http does not guess: a handler without a type has chosen that
	}
	if hasBody(r.Status) {
		header.Set("Content-Length", strconv.Itoa(len(r.Body)))
	}
	w.WriteHeader(r.Status)
	_, _ = w.Write(r.Body) // after a failure the client can repeat the request
}

// ExecutionOf returns the execution in which a handler runs, from the context of its request. It returns false for a
// request that the Middleware has let through.
//
// Give what the handler calls a key that is the same in every execution: Execution.KeyFor("charge").
func ExecutionOf(ctx context.Context) (e idempotency.Execution, ok bool) {
	return exchange.ExecutionOf(ctx)
}

// KeyOf returns the key of the record of package idempotency for a key that a caller sent.
func KeyOf(caller, key string) string { return exchange.KeyOf(caller, key) }
