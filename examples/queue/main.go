// Command queue is a Lambda function that calls an API for each order in an SQS queue, standard or FIFO. It uses a
// Decider in a pipeline of its own. A function that only delivers orders to a sink needs no pipeline: functions/dedupe
// reads queues, too.
//
// It calls the API once for an order that the producer sent several times. SQS delivers a message at least once: if a
// message comes again, also after success, it calls the API again with the same id. The API must know this id.
//
// It reads DEDUPE_TABLE and API_URL. The event source mapping needs ReportBatchItemFailures. The queue needs
//
//   - a dead-letter queue: it gets the orders that cannot be read, or that the API refuses each time;
//   - a visibility timeout of six times the function's time-out, as AWS recommends: a message that becomes visible
//     while it is processed is processed twice.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	client, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	api := api{os.Getenv("API_URL"), &http.Client{Timeout: 5 * time.Second}}
	f, err := newFunction(dynamostore.New(client, os.Getenv("DEDUPE_TABLE")), api.call)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(f.handle)
}

type function struct {
	decider  dedupe.Decider
	delivery dedupe.Delivery
	effect   func(ctx context.Context, order dedupe.Output) error
}

func newFunction(ledger dedupe.Ledger, effect func(context.Context, dedupe.Output) error) (*function, error) {
	orders, err := format.NewJSON(format.Options{IDPath: "order_id", Volatile: []string{"sent_at"}})
	if err != nil {
		return nil, err
	}
	return &function{
		decider: dedupe.Decider{
			Ledger: ledger, Scope: "orders",
			// SQS keeps a message for up to 14 days, and a FIFO dead-letter queue for as long again.
			Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 28 * 24 * time.Hour},
		},
		delivery: dedupe.Delivery{Format: orders},
		effect:   effect,
	}, nil
}

// order is a message on its way through the function.
type order struct {
	output    dedupe.Output
	fields    format.Fields
	candidate dedupe.Candidate
	err       error // why it was not read
}

// handle processes a batch of messages. The answer names the messages that are not done: SQS delivers them again.
func (f *function) handle(ctx context.Context, event events.SQSEvent) (events.SQSEventResponse, error) {
	ctx, cancel := leaveTimeToAnswer(ctx)
	defer cancel()
	messages := once(event.Records)
	orders := make([]order, len(messages))
	candidates := make([]dedupe.Candidate, len(messages))
	for i, m := range messages {
		orders[i] = f.read(ctx, m)
		candidates[i] = orders[i].candidate
	}
	answer := events.SQSEventResponse{BatchItemFailures: []events.SQSBatchItemFailure{}}
	for i, decision := range f.decider.Decide(ctx, candidates) {
		m := messages[i]
		err := f.process(ctx, orders[i], decision)
		if err == nil {
			continue
		}
		slog.Error("message not done", "message_id", m.MessageId, "error", err)
		if strings.HasSuffix(m.EventSourceARN, ".fifo") { // no message may overtake this one
			answer.BatchItemFailures = append(answer.BatchItemFailures, failures(messages[i:])...)
			break
		}
		answer.BatchItemFailures = append(answer.BatchItemFailures, failures(messages[i:i+1])...)
	}
	return answer, nil
}

// once leaves out messages whose ID was in the batch before: SQS may put a message into a batch twice. The answer names
// a message by its ID, so both are done or come again.
func once(batch []events.SQSMessage) (messages []events.SQSMessage) {
	seen := make(map[string]bool, len(batch))
	for _, m := range batch {
		if !seen[m.MessageId] {
			messages = append(messages, m)
		}
		seen[m.MessageId] = true
	}
	return messages
}

// read makes a candidate of a message.
func (f *function) read(ctx context.Context, m events.SQSMessage) order {
	o := order{output: dedupe.Output{Data: []byte(m.Body)}}
	sent, err := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
	if err != nil {
		err = fmt.Errorf("SentTimestamp: %w", err)
	} else {
		o.fields, err = f.delivery.Read(ctx, o.output)
	}
	if err != nil {
		o.err, o.candidate.Poison = err, true
		return o
	}
	o.candidate = dedupe.Candidate{
		ID: o.fields.ID, Fingerprint: o.fields.Fingerprint, Version: o.fields.Version,
		Owner: ownerOf(m), Arrival: time.UnixMilli(sent),
	}
	return o
}

// ownerOf is the identity of a message. It is the same in the dead-letter queue: SQS keeps the message ID, and names
// the first queue. So to redrive orders, map that queue to this function as well, until it is empty: each order is a
// retry. Never move messages back with the console ("Start DLQ redrive") or StartMessageMoveTask: they get new message
// IDs, and are dropped as duplicates of themselves.
func ownerOf(m events.SQSMessage) dedupe.Owner {
	queue := cmp.Or(m.Attributes["DeadLetterQueueSourceArn"], m.EventSourceARN)
	return dedupe.Owner{Source: queue, Sequence: m.MessageId, Sub: dedupe.Plain}
}

// process follows the decision. If it returns nil, SQS deletes the message.
func (f *function) process(ctx context.Context, o order, decision dedupe.Decision) error {
	if err := cmp.Or(o.err, decision.Err); err != nil {
		return err
	}
	output, deliver, err := f.delivery.Prepare(ctx, o.output, o.fields, decision)
	if err != nil || !deliver { // not deliver: a copy of an order that is done, or whose message SQS still has
		return err
	}
	return f.effect(ctx, output)
}

func failures(messages []events.SQSMessage) []events.SQSBatchItemFailure {
	failed := make([]events.SQSBatchItemFailure, len(messages))
	for i, m := range messages {
		failed[i].ItemIdentifier = m.MessageId
	}
	return failed
}

// leaveTimeToAnswer ends the work a second before Lambda ends the function. Without an answer, all messages would
// come again, and the effects of all orders would be repeated.
func leaveTimeToAnswer(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, end.Add(-time.Second))
}
