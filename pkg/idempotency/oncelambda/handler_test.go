package oncelambda_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

// each runs a test for each source.
func each(t *testing.T, test func(t *testing.T, s source)) {
	t.Helper()
	t.Parallel()
	for _, s := range sources {
		t.Run(s.file, func(t *testing.T) {
			t.Parallel()
			test(t, s)
		})
	}
}

// TestReplay: the first response goes out as the handler made it. Later ones have its status, its body and the headers
// that are stored, in the form of the source.
func TestReplay(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{Headers: []string{"X-Receipt"}})
		made := response{
			StatusCode: 201, StatusDescription: "201 Made", Body: "käse",
			Headers: map[string]string{
				"content-type": "text/plain", "LOCATION": "/payments/7", "set-cookie": "session=secret", "X-Other": "1",
			},
			Cookies: []string{"session=secret"},
		}
		if s.file != "apigateway-v2" && s.file != "function-url" {
			made.MultiValueHeaders, made.Cookies = map[string][]string{"x-receipt": {"one", "two"}}, nil
		} else {
			made.Headers["x-receipt"] = "one, two"
			made.StatusDescription = ""
		}
		if s.file == "apigateway-v1" {
			made.StatusDescription = ""
		}
		b.handle = func(context.Context, int) (response, error) { return made, nil }
		first := b.wants(s.event(t), 201, "käse", false)
		equal(t, "first response", first, made)

		again := b.wants(s.event(t), 201, "käse", true)
		want := response{StatusCode: 201, Body: "käse"}
		if strings.HasPrefix(s.file, "alb") {
			want.StatusDescription = "201 Created"
		}
		if s.multi {
			want.MultiValueHeaders = map[string][]string{
				"Content-Type": {"text/plain"}, "Location": {"/payments/7"}, "X-Receipt": {"one", "two"},
				"Idempotency-Replayed": {"true"},
			}
		} else {
			want.Headers = map[string]string{
				"Content-Type": "text/plain", "Location": "/payments/7", "X-Receipt": "one, two", "Idempotency-Replayed": "true",
			}
		}
		equal(t, "replay", again, want)
		stored := b.store.Row(engine.Key{Namespace: namespace, Name: oncehttp.KeyOf("ann", "order-1001")}).Result.Body
		equal(t, "secrets in the record", strings.Contains(string(stored), "secret"), false)
	})
}

// TestBinaryBodies: bytes that are no text go through base64, and come back as they were.
func TestBinaryBodies(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{})
		body := base64.StdEncoding.EncodeToString([]byte("\x00\xff\r\n\r\n"))
		b.handle = func(context.Context, int) (response, error) {
			return response{StatusCode: 200, Body: body, IsBase64Encoded: true}, nil
		}
		for _, replayed := range []bool{false, true} {
			r := b.wants(s.event(t), 200, body, replayed)
			equal(t, "base64", r.IsBase64Encoded, true)
		}
	})
}

// TestTextThatIsNotUTF8: the JSON of the first response cannot have such bytes. A replay has what the first client got.
func TestTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace, idempotency.Settings{})
	must(t, err)
	handler, err := oncelambda.FunctionURL(runner,
		func(context.Context, events.LambdaFunctionURLRequest) (string, error) { return "ann", nil }, oncehttp.Settings{},
		func(context.Context, events.LambdaFunctionURLRequest) (made events.LambdaFunctionURLResponse, err error) {
			made.StatusCode, made.Body = 200, "k\xe4\xffse"
			return made, nil
		})
	must(t, err)
	for _, replayed := range []bool{false, true} {
		b := &bench{t: t, handler: lambda.NewHandler(handler)}
		r := b.wants(sources[4].event(t), 200, "k\ufffd\ufffdse", replayed)
		equal(t, "base64", r.IsBase64Encoded, false)
	}
}

// TestPayloads: another method, path, query or body is another payload. The encoding of the body is not.
func TestPayloads(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{})
		b.wants(s.event(t), 201, "run 1", false)
		query := map[string]any{
			"rawQueryString": "shop=rome", "queryStringParameters": map[string]any{"shop": "rome"},
			"multiValueQueryStringParameters": map[string]any{"shop": []string{"paris", "berlin"}},
		}
		for _, other := range []event{
			s.event(t).method(http.MethodPut),
			s.event(t).change(map[string]any{"path": "/refunds", "rawPath": "/refunds"}),
			s.event(t).change(query),
			s.event(t).change(map[string]any{"body": ""}),
			s.event(t).change(map[string]any{"body": "{}", "isBase64Encoded": false}),
		} {
			b.wantsProblem(s, other, 422, "key-reused")
		}
		encoded := map[string]any{
			"body": base64.StdEncoding.EncodeToString([]byte(`{"amount":1990,"currency":"EUR"}`)), "isBase64Encoded": true,
		}
		b.wants(s.event(t).change(encoded), 201, "run 1", true)
		plain := map[string]any{"body": `{"amount":1990,"currency":"EUR"}`, "isBase64Encoded": false}
		b.wants(s.event(t).change(plain), 201, "run 1", true)
		b.wants(s.event(t).set("order-1001"), 201, "run 1", true)
		equal(t, "runs", b.runs, 1)
	})
}

// TestRefusals: what is refused before the handler runs.
func TestRefusals(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{MaxBody: 31})
		b.wantsProblem(s, s.event(t), 413, "body-too-large")
		b.wantsProblem(s, s.event(t).set(), 400, "key-missing")
		b.wantsProblem(s, s.event(t).set(""), 400, "key-invalid")
		b.wantsProblem(s, s.event(t).set(`"a", "b"`), 400, "key-invalid") // how some sources join two headers
		b.wantsProblem(s, s.event(t).change(map[string]any{"body": "!", "isBase64Encoded": true}), 400, "body-cut")
		if s.multi {
			b.wantsProblem(s, s.event(t).set("a", "a"), 400, "key-invalid")
		}
		b.caller = func() (string, error) { return "", nil }
		b.wantsProblem(s, s.event(t), 401, "unauthenticated")
		b.caller = func() (string, error) { return "ann", errors.New("directory: out of reach") }
		b.wantsProblem(s, s.event(t), 500, "internal")
		equal(t, "runs", b.runs, 0)
		if line := b.log.String(); strings.Contains(line, "order-1001") ||
			!strings.Contains(line, "directory: out of reach") || !strings.Contains(line, `"request_id":"`+s.id+`"`) ||
			!strings.Contains(line, traceMember) {
			t.Errorf("the log has %s", line)
		}
	})
}

// TestCallers: a key belongs to its caller.
func TestCallers(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{})
		b.wants(s.event(t), 201, "run 1", false)
		b.caller = func() (string, error) { return "bob", nil }
		b.wants(s.event(t), 201, "run 2", false)
		b.caller = func() (string, error) { return "ann", nil }
		b.wants(s.event(t), 201, "run 1", true)
	})
}

// TestPasses: safe methods and, with KeyOptional, requests without a key go to the handler as they are.
func TestPasses(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{KeyOptional: true})
		b.wants(s.event(t).method(http.MethodGet), 201, "run 1", false)
		b.wants(s.event(t).method(http.MethodGet), 201, "run 2", false)
		b.wants(s.event(t).set(), 201, "run 3", false)
	})
}

// TestFailures: failures free the key. An error of the handler is the error of the invocation.
func TestFailures(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{})
		results := []struct {
			response
			err error
		}{
			{err: errors.New("bank: closed")},
			{err: idempotency.ErrInProgress}, // of another key
			{response: response{StatusCode: 503, Body: "busy"}},
			{response: response{StatusCode: 201, Body: "done"}},
		}
		executions := map[string]bool{}
		b.handle = func(ctx context.Context, run int) (response, error) {
			e, ok := oncehttp.ExecutionOf(ctx)
			equal(t, "in an execution", ok, true)
			executions[e.KeyFor("charge")] = true
			return results[run-1].response, results[run-1].err
		}
		for _, want := range []string{"bank: closed", idempotency.ErrInProgress.Error()} {
			if r, err := b.invoke(s.event(t)); err == nil || err.Error() != want {
				t.Errorf("want %q, got %v, %v", want, r, err)
			}
		}
		b.wants(s.event(t), 503, "busy", false)
		b.wants(s.event(t), 201, "done", false)
		b.wants(s.event(t), 201, "done", true)
		equal(t, "keys of all executions", len(executions), 1)
	})
}

// TestFinalErrors: an error that the handler calls final is the result of its key. So is a response that the source
// cannot send: the handler does not run again.
func TestFinalErrors(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		for want, c := range map[string]struct {
			response
			err error
		}{
			"card: stolen":       {err: idempotency.Final(errors.New("card: stolen"))},
			"has the status 0":   {response: response{StatusCode: 0}},
			"has the status 600": {response: response{StatusCode: 600}},
			"is not base64":      {response: response{StatusCode: 200, Body: "!", IsBase64Encoded: true}},
		} {
			b := newBench(t, s, oncehttp.Settings{})
			b.handle = func(context.Context, int) (response, error) { return c.response, c.err }
			for range 2 {
				if r, err := b.invoke(s.event(t)); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("want %q, got %v, %v", want, r, err)
				}
			}
			equal(t, "runs", b.runs, 1)
		}
	})
}

// TestWaitsUntilTheDeadline: a call that waits answers before Lambda stops the function. The lease of a handler lasts
// until its deadline, and the handler gets the whole context.
func TestWaitsUntilTheDeadline(t *testing.T) {
	t.Parallel()
	for _, s := range sources {
		t.Run(s.file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.NewCalls(time.Now)
				process := func() *bench {
					settings := idempotency.Settings{LeaseUntilDeadline: true}
					return (&bench{t: t, store: store}).inProcess(s, settings, oncehttp.Settings{})
				}
				first, second := process(), process()
				begun := time.Now()
				first.handle = func(ctx context.Context, _ int) (response, error) {
					deadline, ok := ctx.Deadline()
					equal(t, "deadline", ok && deadline.Equal(begun.Add(time.Minute)), true)
					time.Sleep(50 * time.Second)
					return response{StatusCode: 200, Body: "late"}, ctx.Err()
				}
				done := make(chan response)
				go func() {
					ctx, cancel := context.WithDeadline(t.Context(), begun.Add(time.Minute))
					defer cancel()
					r, err := first.invokeIn(ctx, s.event(t))
					must(t, err)
					done <- r
				}()
				time.Sleep(time.Second)
				ctx, cancel := context.WithDeadline(t.Context(), begun.Add(10*time.Second))
				defer cancel()
				r, err := second.invokeIn(ctx, s.event(t))
				must(t, err)
				second.isProblem(s, r, 503, "try-again")
				equal(t, "waited", time.Since(begun), 9500*time.Millisecond)
				equal(t, "runs of the second", second.runs, 0)
				equal(t, "first", (<-done).Body, "late")
				ctx, cancel = context.WithDeadline(t.Context(), time.Now().Add(10*time.Second))
				defer cancel()
				r, err = second.invokeIn(ctx, s.event(t))
				must(t, err)
				equal(t, "replay", r.Body, "late")
			})
		})
	}
}

// TestOtherEvents: an event of another service or format is an error, so that its records do not count as delivered.
func TestOtherEvents(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{KeyOptional: true})
		others := []event{{}, {"Records": []any{map[string]any{"eventSource": "aws:sqs", "body": "{}"}}}}
		for _, other := range sources {
			if s.event(t)["version"] != other.event(t)["version"] {
				others = append(others, other.event(t))
			}
		}
		for _, other := range others {
			if r, err := b.invoke(other); err == nil || err.Error() != oncelambda.ErrNotHTTP.Error() {
				t.Errorf("%v: got %v, %v", other, r, err)
			}
		}
		equal(t, "runs", b.runs, 0)
	})
}

// TestConstructors: a wrapper without what it needs is not made.
func TestConstructors(t *testing.T) {
	each(t, func(t *testing.T, s source) {
		b := newBench(t, s, oncehttp.Settings{})
		runner, err := idempotency.New(b.store, namespace, idempotency.Settings{})
		must(t, err)
		for _, c := range []struct {
			runner   *idempotency.Runner
			settings oncehttp.Settings
		}{{nil, oncehttp.Settings{}}, {runner, oncehttp.Settings{Headers: []string{"Set-Cookie"}}}} {
			if _, err := s.build(b, c.runner, c.settings); !errors.Is(err, idempotency.ErrInvalid) {
				t.Errorf("got %v", err)
			}
		}
	})
	_, err := oncelambda.ALB(&idempotency.Runner{}, nil, oncehttp.Settings{}, nil)
	if !errors.Is(err, idempotency.ErrInvalid) {
		t.Errorf("without a caller: %v", err)
	}
}
