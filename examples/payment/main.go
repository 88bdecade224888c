// Command payment is a Lambda function behind an HTTP API of API Gateway that charges a card once for each
// Idempotency-Key of a customer, however often the request comes.
//
//	POST /payments
//	Idempotency-Key: 8e03978e-40d5-43dd-bc93-6894a57f9324
//
//	{"card":"tok_1","cents":1990}
//
// The customer is the subject of the token that the JWT authorizer of the API has verified. Each charge is kept as a row
// in a table of the shop, in the transaction that stores its response. The function reads DEDUPE_TABLE (a table with the
// keys pk and sk, and the TTL attribute purge_at), CHARGES (a table with the partition key id) and PAYMENT_API, the
// address of the payment API. Folder stack deploys it. Folder stub has a payment API for tests.
package main

import (
	"context"
	"log"
	"log/slog"
	"net/http"
	"os"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/examples/payment/client"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

type (
	request  = events.APIGatewayV2HTTPRequest
	response = events.APIGatewayV2HTTPResponse
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	table, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	payments := paymentAPI{
		client.Client{Address: os.Getenv("PAYMENT_API"), HTTP: http.DefaultClient}, putInto(os.Getenv("CHARGES")),
	}
	handler, err := newHandler(dynamostore.New(table, os.Getenv("DEDUPE_TABLE")), payments)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// newHandler makes the function from its parts. The tests use other parts. The function holds a key until the deadline
// of its invocation: Lambda stops it there.
func newHandler(store engine.Store, payments paymentAPI) (oncelambda.Handler[request, response], error) {
	observer := idempotency.WithObserver(idempotency.LogTo(slog.Default(), "payments")) // lines, and metrics for alarms
	runner, err := idempotency.New(store, "payments", idempotency.Settings{LeaseUntilDeadline: true}, observer)
	if err != nil {
		return nil, err
	}
	return oncelambda.APIGatewayV2(runner, customer, oncehttp.Settings{}, payments.pay)
}

// customer returns the subject of the token. A request without a token is answered 401.
func customer(_ context.Context, r request) (string, error) {
	if r.RequestContext.Authorizer == nil || r.RequestContext.Authorizer.JWT == nil {
		return "", nil
	}
	return r.RequestContext.Authorizer.JWT.Claims["sub"], nil
}
