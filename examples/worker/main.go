// Command worker is a Lambda function that charges a card for each order in an SQS queue, once for each order, however
// often its message is delivered, sent or moved back from the dead-letter queue. A message is
//
//	{"order":"order-1","card":"tok_1","cents":1990}
//
// The function reads DEDUPE_TABLE (a table with the keys pk and sk, and the TTL attribute purge_at) and PAYMENT_API, the
// address of a payment API that honours the header Idempotency-Key. Its event source mapping needs
// ReportBatchItemFailures. The queue needs a dead-letter queue, and a visibility timeout of six times the function's
// time-out, as AWS recommends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/examples/payment/client"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	table, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	payments := client.Client{Address: os.Getenv("PAYMENT_API"), HTTP: http.DefaultClient}
	handler, err := newHandler(dynamostore.New(table, os.Getenv("DEDUPE_TABLE")), payments)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// window is longer than any message can come again: SQS keeps a message for up to 14 days, and for as long again after a
// redrive of the dead-letter queue.
const window = 60 * 24 * time.Hour

type handler = oncelambda.Handler[events.SQSEvent, events.SQSEventResponse]

// newHandler makes the function from its parts. The tests use other parts. The number of the order is the key, so that
// an order that the shop has sent twice is charged once. The whole body is compared: another amount for the order is
// never dropped, and ends in the dead-letter queue.
func newHandler(store engine.Store, payments client.Client) (handler, error) {
	settings := idempotency.Settings{Window: window, LeaseUntilDeadline: true, DoNotWait: true}
	observer := idempotency.WithObserver(idempotency.LogTo(slog.Default(), "orders"))
	runner, err := idempotency.New(store, "orders", settings, observer)
	if err != nil {
		return nil, err
	}
	number, err := oncelambda.JMESPath[events.SQSMessage]("powertools_json(body).order")
	if err != nil {
		return nil, err
	}
	w := worker{payments}
	return oncelambda.SQS(runner, oncelambda.Settings[events.SQSMessage]{Key: number}, w.pay)
}

type worker struct{ payments client.Client }

// pay charges the card of an order. If the payment API will never charge it, that is the result of the order: it is not
// asked again, and the message ends in the dead-letter queue. After all other failures the message comes again.
func (w worker) pay(ctx context.Context, m events.SQSMessage) error {
	var p client.Payment
	if err := json.Unmarshal([]byte(m.Body), &p); err != nil || !p.Valid() {
		return idempotency.Final(errors.New("the message has no card or no cents"))
	}
	execution, ok := oncelambda.ExecutionOf(ctx)
	if !ok {
		return errors.New("the handler does not run under a key")
	}
	status, answer, err := w.payments.Charge(ctx, execution, p)
	switch {
	case err != nil:
		return err
	case status == http.StatusPaymentRequired:
		return idempotency.Final(errors.New("the card was declined"))
	case status != http.StatusCreated:
		return fmt.Errorf("the payment API answered %d", status)
	}
	slog.InfoContext(ctx, "charged", "message_id", m.MessageId, "answer", answer)
	return nil
}
