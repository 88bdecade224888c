package oncelambda

import (
	"context"
	"errors"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/internal/exchange"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

// Handler is the function that lambda.Start runs.
type Handler[Request, Response any] = func(ctx context.Context, r Request) (Response, error)

// Caller names the caller whom API Gateway, the load balancer or the function URL has authenticated. The package
// documentation has examples. oncehttp.New says what a name must be.
type Caller[Request any] = func(ctx context.Context, r Request) (string, error)

// ErrNotHTTP means that an event is not a request of the source that the wrapper is for: another service or another
// payload format invokes the function.
var ErrNotHTTP = errors.New("oncelambda: the event is not an HTTP request of this source; " +
	"check what invokes this function, and the payload format")

// APIGatewayV1 wraps a handler of API Gateway with payload format 1.0: a REST API, or an HTTP API that has this format.
func APIGatewayV1(
	runner *idempotency.Runner, caller Caller[events.APIGatewayProxyRequest], settings oncehttp.Settings,
	next Handler[events.APIGatewayProxyRequest, events.APIGatewayProxyResponse],
) (Handler[events.APIGatewayProxyRequest, events.APIGatewayProxyResponse], error) {
	return wrap(apiGatewayV1, runner, caller, settings, next)
}

// APIGatewayV2 wraps a handler of an API Gateway HTTP API with payload format 2.0, which is its default.
func APIGatewayV2(
	runner *idempotency.Runner, caller Caller[events.APIGatewayV2HTTPRequest], settings oncehttp.Settings,
	next Handler[events.APIGatewayV2HTTPRequest, events.APIGatewayV2HTTPResponse],
) (Handler[events.APIGatewayV2HTTPRequest, events.APIGatewayV2HTTPResponse], error) {
	return wrap(apiGatewayV2, runner, caller, settings, next)
}

// ALB wraps a handler of an Application Load Balancer, with or without multi-value headers.
func ALB(
	runner *idempotency.Runner, caller Caller[events.ALBTargetGroupRequest], settings oncehttp.Settings,
	next Handler[events.ALBTargetGroupRequest, events.ALBTargetGroupResponse],
) (Handler[events.ALBTargetGroupRequest, events.ALBTargetGroupResponse], error) {
	return wrap(alb, runner, caller, settings, next)
}

// FunctionURL wraps a handler of a Lambda function URL whose invoke mode is BUFFERED.
func FunctionURL(
	runner *idempotency.Runner, caller Caller[events.LambdaFunctionURLRequest], settings oncehttp.Settings,
	next Handler[events.LambdaFunctionURLRequest, events.LambdaFunctionURLResponse],
) (Handler[events.LambdaFunctionURLRequest, events.LambdaFunctionURLResponse], error) {
	return wrap(functionURL, runner, caller, settings, next)
}

// wrap returns a handler that runs next once for each key of each caller.
func wrap[Request, Response any](
	f format[Request, Response], runner *idempotency.Runner, caller Caller[Request], settings oncehttp.Settings,
	next Handler[Request, Response],
) (Handler[Request, Response], error) {
	x, err := exchange.New(runner, caller != nil, exchange.Settings(settings))
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, r Request) (made Response, err error) {
		e := f.event(r)
		keys := e.values(exchange.KeyHeader)
		switch {
		case e.method == "":
			return made, ErrNotHTTP
		case x.Passes(e.method, keys):
			return next(ctx, r)
		}
		waiting, end := deadline.WithMargin(ctx) // so that a call that waits can answer 503
		defer end()
		request := exchange.Request{
			Method: e.method, Path: e.path, Query: e.query, Keys: keys, ID: e.id,
			Caller: func() (string, error) { return caller(ctx, r) },
			Body:   e.decode,
		}
		if request.ID == "" {
			request.ID = requestid.Of(ctx)
		}
		response, own, err := x.Answer(exchange.Contexts{Waiting: waiting, Running: ctx}, request, func(
			ctx context.Context, _ []byte,
		) (exchange.Response, error) {
			var err error
			if made, err = next(ctx, r); err != nil {
				return exchange.Response{}, err
			}
			response, err := f.read(made).response()
			if err != nil {
				err = idempotency.Final(err) // the handler has run, so its key must not become free
			}
			return response, err
		})
		if err == nil && !own {
			made = f.write(newReply(e, response))
		}
		return made, err
	}, nil
}
