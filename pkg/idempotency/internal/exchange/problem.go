package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/internal/shared/problemjson"
	"github.com/oncebox/oncebox/pkg/idempotency"
)

// The errors of requests that are refused before their key is looked up.
var (
	errKeyMissing = errors.New("the request has no header " + KeyHeader)
	errNoCaller   = errors.New("the request has no caller")
	errStream     = errors.New("the client wants a stream or a connection")
	// ErrBodyTooLarge says that a body is larger than the limit.
	ErrBodyTooLarge = errors.New("the body is too large")
	// ErrBodyCut says that the body of the client did not come to its end.
	ErrBodyCut = errors.New("the body could not be read to its end")
)

// problemDocs is the page that explains every problem, under the heading of its slug.
const problemDocs = problemjson.Docs + "idempotency-problems.md#"

// problem is the part of an error that a client gets. The texts are fixed, so that nothing from the error can leak.
type problem struct {
	causes []error // matched by errors.Is
	status int
	slug   string
	title  string
	detail string
}

// problems maps errors to answers. The first match counts. An error without a match becomes internal. The titles of the
// first three come from the draft.
var problems = []problem{
	{
		causes: []error{errKeyMissing},
		status: http.StatusBadRequest, slug: "key-missing", title: "Idempotency-Key is missing",
		detail: "The request needs the header Idempotency-Key. Use a new key for each operation, and the same key to repeat it.",
	},
	{
		causes: []error{idempotency.ErrOtherPayload},
		status: http.StatusUnprocessableEntity, slug: "key-reused", title: "Idempotency-Key is already used",
		detail: "The key was used for another request: the method, the path, the query or the body differs. Use a new key for a " +
			"new operation.",
	},
	{
		causes: []error{idempotency.ErrInProgress},
		status: http.StatusConflict, slug: "in-progress", title: "A request is outstanding for this Idempotency-Key",
		detail: "Another request with the key is being processed. Send the same request with the same key again.",
	},
	{
		causes: []error{errNoCaller},
		status: http.StatusUnauthorized, slug: "unauthenticated", title: "Not authenticated",
		detail: "The request has no caller to whom its key could belong.",
	},
	{
		causes: []error{ErrBodyTooLarge},
		status: http.StatusRequestEntityTooLarge, slug: "body-too-large", title: "Body too large",
		detail: "The body of the request is larger than the server allows. The request was not processed.",
	},
	{
		causes: []error{ErrBodyCut},
		status: http.StatusBadRequest, slug: "body-cut", title: "Body cut off",
		detail: "The body of the request could not be read to its end. The request was not processed.",
	},
	{
		causes: []error{errStream},
		status: http.StatusNotImplemented, slug: "no-stream", title: "No stream",
		detail: "The request wants a stream or a connection, but only a complete response can be repeated. The request was not " +
			"processed.",
	},
	{
		causes: []error{idempotency.ErrResultNotStored},
		status: http.StatusInternalServerError, slug: "result-not-stored", title: "Result not stored",
		detail: "The request was processed before, and is not processed again. But its response could not be stored. Do not send " +
			"it with a new key.",
	},
	{
		causes: []error{idempotency.ErrResultUnreadable},
		status: http.StatusInternalServerError, slug: "result-unreadable", title: "Result unreadable",
		detail: "The request was processed before, and is not processed again. But its stored response cannot be read. Do not " +
			"send it with a new key.",
	},
	{
		causes: []error{idempotency.ErrOutcomeUnknown, idempotency.ErrLeaseLost},
		status: http.StatusServiceUnavailable, slug: "outcome-unknown", title: "Outcome unknown",
		detail: "The request was processed, but the server cannot say with which result. Send the same request with the same key " +
			"again, never with a new key.",
	},
	{
		causes: []error{idempotency.ErrTryAgain, context.DeadlineExceeded, context.Canceled},
		status: http.StatusServiceUnavailable, slug: "try-again", title: "Try again",
		detail: "The service is busy. Send the same request with the same key again.",
	},
}

// invalidKey is the answer to a *keyError, which adds what is wrong.
var invalidKey = problem{
	status: http.StatusBadRequest, slug: "key-invalid", title: "Idempotency-Key is invalid",
	detail: "Send one key of 1 to 255 printable ASCII characters, in quotes.",
}

// internal answers every error that is not in the table.
var internal = problem{
	status: http.StatusInternalServerError, slug: "internal", title: "Internal error",
	detail: "Something is wrong on the server. Send the same request with the same key again, or give the instance to " +
		"report it.",
}

func problemOf(err error) problem {
	if wrong, ok := errors.AsType[*keyError](err); ok {
		p := invalidKey
		p.detail = "The header " + KeyHeader + " " + wrong.detail + ". " + p.detail
		return p
	}
	for _, p := range problems {
		if slices.ContainsFunc(p.causes, func(cause error) bool { return errors.Is(err, cause) }) {
			return p
		}
	}
	return internal
}

// RequestID is the member of log lines that has the id of a request.
const RequestID = "request_id"

// Refuse returns the response to an error, and writes its log line. The line has the text of the error only if the
// operator may have to act. No text has the key, the body or the caller, unless the function that names callers puts it
// into its error.
func (x *Exchange) Refuse(ctx context.Context, r Request, err error) Response {
	p := problemOf(err)
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("method", r.Method), slog.Int("status", p.status), slog.String("slug", p.slug),
		slog.String(RequestID, r.ID),
	}
	switch p.status {
	case http.StatusServiceUnavailable:
		level = slog.LevelWarn
	case http.StatusInternalServerError:
		level = slog.LevelError
	}
	if level > slog.LevelInfo {
		attrs = append(attrs, slog.String("error", err.Error()))
	}
	x.log.LogAttrs(ctx, level, "idempotency", attrs...)

	body, _ := json.Marshal(problemjson.Body{ // texts and numbers cannot fail
		Type: problemDocs + p.slug, Title: p.title, Status: p.status, Detail: p.detail, Instance: r.ID,
	})
	header := http.Header{"Content-Type": {problemjson.ContentType}, "Cache-Control": {"no-store"}}
	if running, ok := errors.AsType[*idempotency.InProgressError](err); ok {
		header.Set("Retry-After", secondsOf(running.Left))
	} else if p.status == http.StatusServiceUnavailable {
		header.Set("Retry-After", problemjson.RetryAfter(x.intN))
	}
	return Response{p.status, header, body}
}

// longestRetry is the longest Retry-After of a request whose twin runs. Most functions end long before their lease.
const longestRetry = 5 * time.Second

// secondsOf returns how long a client waits for the call that holds its key, in whole seconds.
func secondsOf(left time.Duration) string {
	left = min(max(left, time.Second), longestRetry)
	return strconv.Itoa(int(math.Ceil(left.Seconds())))
}
