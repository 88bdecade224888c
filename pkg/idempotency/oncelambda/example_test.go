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
