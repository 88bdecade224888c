package oncelambda

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/internal/aws/traceid"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/internal/exchange"
)

// Process is a function for one message. A message is done when it returns nil. ExecutionOf finds its execution.
type Process[M any] = func(ctx context.Context, m M) error

var (
	// ErrNotMessages means that an event has no messages of the source that the wrapper is for, so that nothing counts as
	// done: another service invokes the function.
	ErrNotMessages = errors.New("oncelambda: the event does not have the messages of this source; " +
		"check what invokes this function")

	// ErrNoProgress means that the first of several records of a stream is not done. The invocation fails, so that Lambda
	// bisects the batch. If an answer named that record, Lambda would retry the whole batch, and give up all of it.
	ErrNoProgress = errors.New("oncelambda: the first record of the batch is not done")

	// ErrConsumer means that a stream with enhanced fan-out is read without Settings.Key. Lambda then opens aggregates of
	// the Kinesis Producer Library, whose records have one sequence number, so that all but one would be dropped.
	ErrConsumer = errors.New("oncelambda: with enhanced fan-out records can have the same sequence number; " +
		"choose a Key from their data")
)

// SQS wraps a function for one message of a queue. Its event source mapping needs ReportBatchItemFailures: without it
// Lambda ignores the answer, and messages that have failed count as done. The answer names
//
//   - of a standard queue, each message that is not done;
//   - of a FIFO queue, the first one and all behind it. Those are not begun, so that no message overtakes another
//     (Lambda Developer Guide, "Implementing partial batch responses").
//
// They come again after the visibility timeout, or go to the dead-letter queue. A message is not done if its function
// has failed or panicked, another invocation has its key, its payload is another one, or the store is out of reach. Half
// a second before the deadline the messages that are not begun are named, too.
//
// Without Settings.Key the key is the id of the message. It stays the same in each delivery, and when the dead-letter
// queue is mapped to the function. It is new when the producer sends the message again, or when it is moved back with
// "Start DLQ redrive" or StartMessageMoveTask.
//
// The Runner needs the settings LeaseUntilDeadline and DoNotWait: a message whose key is in use comes again, and does
// not hold up the messages behind it. Its store cannot be one of Powertools, which does not compare the bodies of
// messages.
func SQS(
	runner *idempotency.Runner, s Settings[events.SQSMessage], next Process[events.SQSMessage],
) (Handler[events.SQSEvent, events.SQSEventResponse], error) {
	b, err := newBatch(runner, s, next, sqsMessage)
	return func(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
		order := each
		if len(e.Records) > 0 && strings.HasSuffix(e.Records[0].EventSourceARN, ".fifo") {
			order = queued
		}
		undone, err := b.process(ctx, e.Records, order)
		failures := failuresOf(undone, func(id string) events.SQSBatchItemFailure {
			return events.SQSBatchItemFailure{ItemIdentifier: id}
		})
		return events.SQSEventResponse{BatchItemFailures: failures}, err
	}, err
}

// Kinesis wraps a function for one record of a Kinesis stream. The records behind the first one that is not done are not
// begun, and the answer names that one: Lambda sends it and all behind it again. If it is the first of several, the
// invocation fails with ErrNoProgress. The event source mapping needs ReportBatchItemFailures and should have
// BisectBatchOnFunctionError.
//
// Without Settings.Key the key is the stream, the shard and the sequence number. That protects only from records that
// Lambda sends again: a producer that repeats a record gives it a new sequence number. All else is as for SQS.
func Kinesis(
	runner *idempotency.Runner, s Settings[events.KinesisEventRecord], next Process[events.KinesisEventRecord],
) (Handler[events.KinesisEvent, events.KinesisEventResponse], error) {
	hasKey := s.Key != nil
	b, err := newBatch(runner, s, next, kinesisRecord)
	return func(ctx context.Context, e events.KinesisEvent) (events.KinesisEventResponse, error) {
		if !hasKey && len(e.Records) > 0 && strings.Contains(e.Records[0].EventSourceArn, "/consumer/") {
			return events.KinesisEventResponse{}, ErrConsumer
		}
		undone, err := b.process(ctx, e.Records, streamed)
		failures := failuresOf(undone, func(id string) events.KinesisBatchItemFailure {
			return events.KinesisBatchItemFailure{ItemIdentifier: id}
		})
		return events.KinesisEventResponse{BatchItemFailures: failures}, err
	}, err
}

// DynamoDB wraps a function for one change of a DynamoDB stream. Without Settings.Key the key is the id of the change.
// Without Settings.Payload the payload is the key of the item and both images. All else is as for Kinesis.
func DynamoDB(
	runner *idempotency.Runner, s Settings[events.DynamoDBEventRecord], next Process[events.DynamoDBEventRecord],
) (Handler[events.DynamoDBEvent, events.DynamoDBEventResponse], error) {
	b, err := newBatch(runner, s, next, dynamoDBChange)
	return func(ctx context.Context, e events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
		undone, err := b.process(ctx, e.Records, streamed)
		failures := failuresOf(undone, func(id string) events.DynamoDBBatchItemFailure {
			return events.DynamoDBBatchItemFailure{ItemIdentifier: id}
		})
		return events.DynamoDBEventResponse{BatchItemFailures: failures}, err
	}, err
}

// failuresOf returns the failures of an answer, which are a list in JSON, also if there are none.
func failuresOf[Failure any](ids []string, failure func(id string) Failure) []Failure {
	failures := make([]Failure, len(ids))
	for i, id := range ids {
		failures[i] = failure(id)
	}
	return failures
}

// message is what all sources have.
type message struct {
	id      string // in an answer; "": it is not a message of the source
	key     string // without Settings.Key
	payload func() (string, error)
}

func sqsMessage(m events.SQSMessage) message {
	return message{m.MessageId, m.MessageId, func() (string, error) { return m.Body, nil }}
}

func kinesisRecord(r events.KinesisEventRecord) message {
	return message{
		r.Kinesis.SequenceNumber, r.EventSourceArn + " " + r.EventID,
		func() (string, error) { return string(r.Kinesis.Data), nil },
	}
}

func dynamoDBChange(r events.DynamoDBEventRecord) message {
	return message{r.Change.SequenceNumber, r.EventID, func() (string, error) {
		change := events.DynamoDBStreamRecord{Keys: r.Change.Keys, OldImage: r.Change.OldImage, NewImage: r.Change.NewImage}
		text, err := json.Marshal(change) // without its position and time
		return string(text), err
	}}
}

// order says what a failure means for the messages behind it.
type order int

const (
	each     order = iota // nothing
	queued                // they are not begun, and the answer names them, too
	streamed              // they are not begun, and come again with the one that the answer names
)

// batch processes batches of messages.
type batch[M any] struct {
	runner   *idempotency.Runner
	settings Settings[M]
	next     Process[M]
	read     func(M) message
}

func newBatch[M any](
	runner *idempotency.Runner, s Settings[M], next Process[M], read func(M) message,
) (*batch[M], error) {
	if err := check(runner, next != nil); err != nil {
		return nil, err
	}
	if set := runner.Settings(); !set.LeaseUntilDeadline || !set.DoNotWait {
		return nil, &idempotency.InvalidError{
			Field: "runner", Detail: "give it LeaseUntilDeadline and DoNotWait: a message whose key is in use comes again",
		}
	}
	if runner.Foreign() {
		return nil, &idempotency.InvalidError{
			Field: "runner", Detail: "its store does not compare the bodies of messages: use a store of oncebox",
		}
	}
	if s.Key == nil {
		s.Key = func(_ context.Context, m M) (string, error) { return read(m).key, nil }
	}
	if s.Payload == nil {
		s.Payload = func(_ context.Context, m M) (string, error) { return read(m).payload() }
	}
	s.Log = traceid.Log(cmp.Or(s.Log, slog.Default()))
	return &batch[M]{runner, s, next, read}, nil
}

// errNotBegun says that there was no time for a message.
var errNotBegun = errors.New("the deadline of the invocation is near, and the message has not begun")

// process processes messages one by one, and returns the ids that the answer names.
func (b *batch[M]) process(ctx context.Context, messages []M, o order) (undone []string, err error) {
	for i, m := range messages {
		if b.read(m).id == "" {
			return nil, fmt.Errorf("%w (message %d)", ErrNotMessages, i)
		}
	}
	if messages == nil {
		return nil, ErrNotMessages
	}
	ctx, end := deadline.WithMargin(ctx) // for the answer
	defer end()
	named := map[string]bool{}
	name := func(id string) {
		if !named[id] { // SQS can put a message into a batch twice
			named[id], undone = true, append(undone, id)
		}
	}
	for i, m := range messages {
		id := b.read(m).id
		err := errNotBegun
		if ctx.Err() == nil {
			err = b.one(ctx, m)
		}
		if err == nil {
			continue
		}
		b.report(ctx, id, err)
		switch {
		// The records of an aggregate share an id, which names the first of them.
		case o == streamed && id == b.read(messages[0]).id && len(messages) > 1:
			return nil, fmt.Errorf("%w: %w", ErrNoProgress, err)
		case o == streamed:
			return []string{id}, nil
		case o == queued:
			for _, behind := range messages[i:] {
				name(b.read(behind).id)
			}
			return undone, nil
		}
		name(id)
	}
	return undone, nil
}

// one processes one message. A panic is its failure, so that it does not fail the messages behind it.
func (b *batch[M]) one(ctx context.Context, m M) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &panicError{p, debug.Stack()}
		}
	}()
	key, payload, err := b.settings.find(ctx, m)
	switch {
	case err != nil:
		return err
	case key == "":
		return b.next(exchange.Unprotected(ctx), m)
	}
	_, err = once(exchange.Contexts{Waiting: ctx, Running: ctx}, b.runner, key, payload,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, b.next(ctx, m) })
	return err
}

// panicError is a panic of a function. Its text does not repeat the value, which may have data.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic with a %T", e.value) }

// report writes the line of a message that is not done.
func (b *batch[M]) report(ctx context.Context, id string, err error) {
	attrs := []slog.Attr{
		slog.String(requestid.Key, requestid.Of(ctx)), slog.String("id", id), slog.String("error", err.Error()),
	}
	if p, ok := errors.AsType[*panicError](err); ok {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	b.settings.Log.LogAttrs(ctx, slog.LevelWarn, "message not done", attrs...)
}
