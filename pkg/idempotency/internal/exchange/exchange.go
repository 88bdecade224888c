// Package exchange answers HTTP requests once for a key, wherever they come from: it has the rules that package
// oncehttp and package oncelambda share.
//
// To follow a request, read exchange.go (the order of the checks), begin.go (contexts and executions), key.go (the
// header, the name of the record, the fingerprint), stored.go (what a record keeps) and problem.go (the answers to
// errors).
package exchange

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"

	"github.com/oncebox/oncebox/internal/aws/traceid"
	"github.com/oncebox/oncebox/pkg/idempotency"
)

// KeyHeader is the request header with the key.
const KeyHeader = "Idempotency-Key"

// ReplayedHeader says that a response comes from a record.
const ReplayedHeader = "Idempotency-Replayed"

// Settings are documented in package oncehttp, which has the same fields.
type Settings struct {
	Headers     []string
	MaxBody     int
	KeyOptional bool
	Log         *slog.Logger
}

const defaultMaxBody = 1 << 20

// Exchange answers requests. It is safe for concurrent use.
type Exchange struct {
	runner      *idempotency.Runner
	stored      []string // the names of the headers that records keep
	maxBody     int
	keyOptional bool
	log         *slog.Logger
	intN        func(n int) int // a random number from 0 to n-1
}

// New returns an Exchange. hasCaller says whether its user has a function that names callers. An error belongs to
// idempotency.ErrInvalid.
func New(runner *idempotency.Runner, hasCaller bool, s Settings) (*Exchange, error) {
	stored, err := storedHeaders(s.Headers)
	switch {
	case runner == nil:
		return nil, &idempotency.InvalidError{Field: "runner", Detail: "it is nil"}
	case !hasCaller:
		return nil, &idempotency.InvalidError{
			Field: "caller", Detail: "it is nil: without the caller, two customers with one key would share a response",
		}
	case s.MaxBody < 0:
		return nil, &idempotency.InvalidError{Field: "MaxBody", Detail: fmt.Sprintf("it is %d: use 1 or more", s.MaxBody)}
	case err != nil:
		return nil, err
	}
	x := &Exchange{
		runner: runner, stored: stored, maxBody: s.MaxBody, keyOptional: s.KeyOptional, log: s.Log, intN: rand.IntN,
	}
	if x.maxBody == 0 {
		x.maxBody = defaultMaxBody
	}
	if x.log == nil {
		x.log = slog.Default()
	}
	x.log = traceid.Log(x.log)
	return x, nil
}

// Request is what the rules need from a request.
type Request struct {
	Method, Path, Query string
	Keys                []string // the values of the header Idempotency-Key
	Streams             bool     // the client wants a connection or a stream, which no record can keep
	ID                  string   // for the log and for the body of a problem
	Caller              func() (string, error)
	// Body reads the body. Its errors are ErrBodyTooLarge, ErrBodyCut, or a fault of the server.
	Body func(limit int) ([]byte, error)
}

// Response is a complete response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Run is what handles a request, with its body. An error frees the key.
type Run func(ctx context.Context, body []byte) (Response, error)

// safeMethods change nothing, so that their requests need no key (RFC 9110, section 9.2.1).
var safeMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}

// Passes reports whether a request goes to its handler as it is.
func (x *Exchange) Passes(method string, keys []string) bool {
	return slices.Contains(safeMethods, method) || x.keyOptional && len(keys) == 0
}

// Answer returns the response to a request that does not pass. own says that run made it in this call. The error is an
// error of run, as run returned it, or an *idempotency.FailedError if run has said in any call that its error is final.
func (x *Exchange) Answer(c Contexts, r Request, run Run) (response Response, own bool, err error) {
	response, own, err = x.answer(c, r, run)
	if failed, ok := errors.AsType[*runError](err); ok {
		return Response{}, true, failed.error
	}
	if failed, ok := errors.AsType[*idempotency.FailedError](err); ok {
		return Response{}, false, failed
	}
	if err != nil {
		return x.Refuse(c.Running, r, err), false, nil
	}
	return response, own, nil
}

// runError marks an error of run.
type runError struct{ error }

func (e *runError) Unwrap() error { return e.error }

// errFreed says that the status of a response frees the key.
var errFreed = errors.New("the response is a failure, not a result")

// answer makes all checks that need no record before the function runs.
func (x *Exchange) answer(c Contexts, r Request, run Run) (response Response, own bool, err error) {
	key, err := parseKey(r.Keys)
	if err != nil {
		return Response{}, false, err
	}
	if r.Streams {
		return Response{}, false, errStream
	}
	caller, err := r.Caller()
	switch {
	case err != nil:
		return Response{}, false, fmt.Errorf("the caller is not known: %w", err)
	case caller == "":
		return Response{}, false, errNoCaller
	}
	body, err := r.Body(x.maxBody)
	if err != nil {
		return Response{}, false, err
	}
	return x.once(c, KeyOf(caller, key), fingerprint(r, body), func(ctx context.Context) (Response, error) {
		return run(ctx, body)
	})
}

// once runs the function once for the name of a record.
func (x *Exchange) once(
	c Contexts, name string, payload []byte, run func(context.Context) (Response, error),
) (response Response, own bool, err error) {
	call, err := Begin(c, x.runner, name)
	if err != nil {
		return Response{}, false, err
	}
	defer call.End()
	function := func(ctx context.Context, e idempotency.Execution) (idempotency.Result, error) {
		ctx, err := call.Enter(ctx, e)
		if err != nil {
			return idempotency.Result{}, err
		}
		if response, err = run(ctx); err != nil {
			return idempotency.Result{}, &runError{err}
		}
		if frees(response.Status) {
			return idempotency.Result{}, errFreed
		}
		return x.encode(response), nil
	}
	outcome, err := x.runner.Do(call.Context, name, payload, function)
	switch {
	case errors.Is(err, errFreed):
		return response, true, nil
	case err != nil:
		return Response{}, false, err
	case !outcome.Replayed:
		return response, true, nil
	}
	if response, err = decode(outcome.Value); err != nil {
		return Response{}, false, err
	}
	response.Header.Set(ReplayedHeader, "true")
	return response, false, nil
}

// frees reports whether a status says that the request failed and can be repeated. The response is no result.
func frees(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusLocked, http.StatusTooEarly,
		http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}
