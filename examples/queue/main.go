// Command queue is a Lambda function that calls an API for each order in an SQS queue, standard or FIFO. It uses a
// Decider in a pipeline of its own. A function that only delivers orders to a sink needs no pipeline: functions/dedupe
// reads queues, too.
//
// It calls the API once for an order that the producer sent several times. SQS delivers a message at least once: if a
// message comes again, also after success, it calls the API again with the same id. The API must know this id.
//
// An order that cannot be read, or that the API refuses for good, is stored as a dead letter, and its message is done.
// Nothing here recognises a wrong setting: if no order has an order_id, or the API answers 400 to each, the whole queue
// becomes dead letters. Watch their number. An answer that may pass or that a setting causes, such as 401, 403, 404, 409
// and 429, refuses no order.
//
// It reads DEDUPE_TABLE, DEAD_LETTERS (s3://BUCKET/PREFIX) and API_URL. The event source mapping needs
// ReportBatchItemFailures. The queue needs
//
//   - a dead-letter queue: it gets the orders for which the API is down each time;
//   - a visibility timeout of six times the function's time-out, as AWS recommends: a message that becomes visible
//     while it is processed is processed twice.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws/arn"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	letters, lettersErr := deadletter.Open(ctx, awsclient.FromEnvironment, os.Getenv("DEAD_LETTERS"), nil)
	if err := errors.Join(err, lettersErr); err != nil {
		log.Fatal(err)
	}
	api := api{os.Getenv("API_URL"), &http.Client{Timeout: 5 * time.Second}}
	f, err := newFunction(dynamostore.New(client, os.Getenv("DEDUPE_TABLE")), letters, api.call)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(f.handle)
}

type function struct {
	decider  dedupe.Decider
	delivery dedupe.Delivery
	letters  dedupe.DeadLetterStore
	effect   func(ctx context.Context, order dedupe.Output) error
}

func newFunction(
	ledger dedupe.Ledger, letters dedupe.DeadLetterStore, effect func(context.Context, dedupe.Output) error,
) (*function, error) {
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
		letters:  letters,
		effect:   effect,
	}, nil
}

// order is a message on its way through the function.
type order struct {
	position  dedupe.Position
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
	position, err := positionOf(m)
	sent, sentErr := strconv.ParseInt(m.Attributes["SentTimestamp"], 10, 64)
	o.position, o.candidate.Owner, o.candidate.Arrival = position, position.Owner(), time.UnixMilli(sent)
	if err = cmp.Or(err, sentErr); err == nil {
		o.fields, err = f.delivery.Read(ctx, o.output)
	}
	if err != nil {
		o.err, o.candidate.Poison = err, true
		return o
	}
	o.candidate.ID, o.candidate.Fingerprint, o.candidate.Version = o.fields.ID, o.fields.Fingerprint, o.fields.Version
	return o
}

// positionOf is the identity of a message. It is the same in the dead-letter queue: SQS keeps the message ID, and names
// the first queue. So to redrive orders, map that queue to this function as well, until it is empty: each order is a
// retry. Never move messages back with the console ("Start DLQ redrive") or StartMessageMoveTask: they get new message
// IDs, and are dropped as duplicates of themselves.
func positionOf(m events.SQSMessage) (dedupe.Position, error) {
	queue, err := arn.Parse(cmp.Or(m.Attributes["DeadLetterQueueSourceArn"], m.EventSourceARN))
	return dedupe.Position{
		Stream:   dedupe.Stream{Account: queue.AccountID, Region: queue.Region, Name: "sqs:" + queue.Resource},
		Sequence: m.MessageId, Sub: dedupe.Plain,
	}, err
}

// process follows the decision. If it returns nil, SQS deletes the message.
func (f *function) process(ctx context.Context, o order, decision dedupe.Decision) error {
	err := f.deliver(ctx, o, decision)
	poison, never := errors.AsType[*dedupe.PoisonError](err)
	if !never {
		return err
	}
	_, err = f.letters.Put(ctx, []dedupe.DeadLetter{{
		Owner: o.candidate.Owner.String(), Scope: f.decider.Scope, Position: o.position, Reason: poison.Reason,
		Arrival: o.candidate.Arrival, Data: o.output.Data,
	}})
	return err
}

// deliver returns a *dedupe.PoisonError for an order that can never be delivered.
func (f *function) deliver(ctx context.Context, o order, decision dedupe.Decision) error {
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
