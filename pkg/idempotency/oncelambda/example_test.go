package oncelambda_test

import (
	"context"
	"log"
	"net/http"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

// A payment endpoint behind an API Gateway HTTP API with a JWT authorizer.
func ExampleAPIGatewayV2() {
	store := memstore.NewCalls(time.Now) // in production: an engine on a table
	runner, err := idempotency.New(store, "payments", idempotency.Settings{LeaseUntilDeadline: true})
	if err != nil {
		log.Fatal(err)
	}
	handler, err := oncelambda.APIGatewayV2(runner, customer, oncehttp.Settings{}, pay)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

func customer(_ context.Context, r events.APIGatewayV2HTTPRequest) (string, error) {
	if a := r.RequestContext.Authorizer; a != nil && a.JWT != nil {
		return a.JWT.Claims["sub"], nil
	}
	return "", nil // the request is answered 401
}

func pay(ctx context.Context, _ events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
	execution, _ := oncehttp.ExecutionOf(ctx)
	return events.APIGatewayV2HTTPResponse{StatusCode: http.StatusCreated, Body: execution.KeyFor("charge")}, nil
}

// A function that is invoked directly: it runs once for an order of a user. Another amount for the order is refused.
func ExampleEvent() {
	type order struct {
		User, ID string
		Cents    int
	}
	key, err := oncelambda.JMESPath[order]("[User, ID]")
	check(err)
	cents, err := oncelambda.JMESPath[order]("Cents")
	check(err)
	handler, err := oncelambda.Event(newRunner(idempotency.Settings{LeaseUntilDeadline: true}),
		oncelambda.Settings[order]{Key: key, Payload: cents},
		func(ctx context.Context, o order) (string, error) {
			execution, _ := oncelambda.ExecutionOf(ctx)
			return "paid with the key " + execution.KeyFor("charge"), nil
		})
	check(err)
	lambda.Start(handler)
}

// A worker of a queue: each order runs once, however often its message comes.
func ExampleSQS() {
	key, err := oncelambda.JMESPath[events.SQSMessage]("powertools_json(body).order")
	check(err)
	handler, err := oncelambda.SQS(newRunner(idempotency.Settings{LeaseUntilDeadline: true, DoNotWait: true}),
		oncelambda.Settings[events.SQSMessage]{Key: key},
		func(ctx context.Context, m events.SQSMessage) error {
			execution, _ := oncelambda.ExecutionOf(ctx)
			log.Println("call your payment API with", execution.KeyFor("charge"), "for", m.Body)
			return nil
		})
	check(err)
	lambda.Start(handler)
}

func newRunner(s idempotency.Settings) *idempotency.Runner {
	runner, err := idempotency.New(memstore.NewCalls(time.Now), "orders", s) // in production: an engine on a table
	check(err)
	return runner
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
