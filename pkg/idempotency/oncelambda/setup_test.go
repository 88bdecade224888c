package oncelambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

// response has the members of the responses of all sources.
type response struct {
	StatusCode        int                 `json:"statusCode"`
	StatusDescription string              `json:"statusDescription,omitempty"`
	Headers           map[string]string   `json:"headers,omitempty"`
	MultiValueHeaders map[string][]string `json:"multiValueHeaders,omitempty"`
	Cookies           []string            `json:"cookies,omitempty"`
	Body              string              `json:"body"`
	IsBase64Encoded   bool                `json:"isBase64Encoded"`
}

// bench is a function behind a source.
type bench struct {
	t       *testing.T
	store   *memstore.Calls
	log     bytes.Buffer
	runs    int
	handle  func(ctx context.Context, run int) (response, error)
	caller  func() (string, error)
	handler lambda.Handler
}

// source is a source of requests.
type source struct {
	file  string // with an event
	multi bool   // whether its responses have multi-value headers
	id    string // of the request
	build func(b *bench, runner *idempotency.Runner, s oncehttp.Settings) (lambda.Handler, error)
}

const namespace = "payments"

var sources = []source{
	{"apigateway-v1", true, "deef4878-7910-11e6-8f14-25afc3e9ae33", with(oncelambda.APIGatewayV1)},
	{"apigateway-v2", false, "iBzflmI8LUeM7IQ=", with(oncelambda.APIGatewayV2)},
	{"alb", false, "request-1", with(oncelambda.ALB)},
	{"alb-multi-value", true, "request-1", with(oncelambda.ALB)},
	{"function-url", false, "e1506fd5-9e7b-434f-bd42-4f8fa224b599", with(oncelambda.FunctionURL)},
}

// with returns what builds the handler of a bench with a wrapper.
func with[Request, Response any](wrap func(
	*idempotency.Runner, oncelambda.Caller[Request], oncehttp.Settings, oncelambda.Handler[Request, Response],
) (oncelambda.Handler[Request, Response], error)) func(*bench, *idempotency.Runner, oncehttp.Settings) (lambda.Handler, error) {
	return func(b *bench, runner *idempotency.Runner, s oncehttp.Settings) (lambda.Handler, error) {
		caller := func(context.Context, Request) (string, error) { return b.caller() }
		handler, err := wrap(runner, caller, s, func(ctx context.Context, _ Request) (made Response, err error) {
			b.runs++
			r, err := b.handle(ctx, b.runs)
			if err != nil {
				return made, err
			}
			text, err := json.Marshal(r)
			must(b.t, err)
			must(b.t, json.Unmarshal(text, &made))
			return made, nil
		})
		return lambda.NewHandler(handler), err
	}
}

func newBench(t *testing.T, s source, settings oncehttp.Settings) *bench {
	t.Helper()
	return (&bench{t: t, store: memstore.NewCalls(time.Now)}).inProcess(s, idempotency.Settings{}, settings)
}

// inProcess makes the handler of a process. The handler answers with its run.
func (b *bench) inProcess(s source, r idempotency.Settings, settings oncehttp.Settings) *bench {
	b.t.Helper()
	runner, err := idempotency.New(b.store, namespace, r)
	must(b.t, err)
	settings.Log = slog.New(slog.NewJSONHandler(&b.log, nil))
	b.caller = func() (string, error) { return "ann", nil }
	b.handle = func(_ context.Context, run int) (response, error) {
		return response{StatusCode: 201, Headers: map[string]string{"content-type": "text/plain"}, Body: text(run)}, nil
	}
	b.handler, err = s.build(b, runner, settings)
	must(b.t, err)
	return b
}

func text(run int) string { return "run " + string(rune('0'+run)) }

// event is an event as JSON.
type event map[string]any

func (s source) event(t testing.TB) (e event) {
	t.Helper()
	data, err := os.ReadFile("../../../events/idempotency/" + s.file + ".json")
	must(t, err)
	must(t, json.Unmarshal(data, &e))
	return e
}

// set sets the header of the key, in the form of the source.
func (e event) set(values ...string) event {
	if e["headers"] != nil {
		headers, _ := e["headers"].(map[string]any)
		delete(headers, "idempotency-key")
		delete(headers, "Idempotency-Key")
		for _, value := range values {
			headers["idempotency-KEY"] = value
		}
	}
	if e["multiValueHeaders"] != nil {
		headers, _ := e["multiValueHeaders"].(map[string]any)
		delete(headers, "idempotency-key")
		delete(headers, "Idempotency-Key")
		if len(values) > 0 {
			headers["idempotency-KEY"] = values
		}
	}
	return e
}

// method sets the method, in the form of the source.
func (e event) method(method string) event {
	if e["httpMethod"] != nil {
		e["httpMethod"] = method
		return e
	}
	context, _ := e["requestContext"].(map[string]any)
	http, _ := context["http"].(map[string]any)
	http["method"] = method
	return e
}

// change sets members that the event has.
func (e event) change(members map[string]any) event {
	for name, value := range members {
		if _, has := e[name]; has {
			e[name] = value
		}
	}
	return e
}

// invoke invokes the function as Lambda does.
func (b *bench) invoke(e event) (response, error) { return b.invokeIn(traced(b.t), e) }

// traceMember is in the log lines of invocations whose context is traced.
const traceMember = `"trace_id":"1-5759e988-bd862e3fe1be46a994272793"`

// traced returns the context of an invocation with a trace.
func traced(t *testing.T) context.Context {
	const header = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
	return context.WithValue(t.Context(), "x-amzn-trace-id", header) //nolint:staticcheck // the runtime's own key
}

func (b *bench) invokeIn(ctx context.Context, e event) (r response, err error) {
	b.t.Helper()
	data, err := json.Marshal(e)
	must(b.t, err)
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	answer, err := b.handler.Invoke(ctx, data)
	if err != nil {
		return response{}, err
	}
	must(b.t, json.Unmarshal(answer, &r))
	return r, nil
}

// wants checks the next response.
func (b *bench) wants(e event, status int, body string, replayed bool) response {
	b.t.Helper()
	r, err := b.invoke(e)
	must(b.t, err)
	equal(b.t, "status", r.StatusCode, status)
	equal(b.t, "body", r.Body, body)
	equal(b.t, "replayed", r.header("Idempotency-Replayed") == "true", replayed)
	return r
}

// wantsProblem checks that the next response is a problem.
func (b *bench) wantsProblem(s source, e event, status int, slug string) response {
	b.t.Helper()
	r, err := b.invoke(e)
	must(b.t, err)
	b.isProblem(s, r, status, slug)
	return r
}

func (b *bench) isProblem(s source, r response, status int, slug string) {
	b.t.Helper()
	var problem struct{ Type, Instance string }
	must(b.t, json.Unmarshal([]byte(r.Body), &problem))
	equal(b.t, "status", r.StatusCode, status)
	equal(b.t, "type", problem.Type, "https://github.com/oncebox/oncebox/blob/main/docs/idempotency-problems.md#"+slug)
	equal(b.t, "content type", r.header("Content-Type"), "application/problem+json")
	equal(b.t, "instance", problem.Instance, s.id)
	equal(b.t, "multi-value headers", r.MultiValueHeaders != nil, s.multi)
	equal(b.t, "headers", r.Headers != nil, !s.multi)
}

// header returns a header of a response, with its values joined.
func (r response) header(name string) string {
	if values := r.MultiValueHeaders[name]; len(values) > 0 {
		return values[0]
	}
	return r.Headers[name]
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: want %v, got %v", what, want, got)
	}
}
