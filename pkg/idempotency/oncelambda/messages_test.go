package oncelambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

// mail is a message of any source.
type mail struct{ id, body string }

// feed is a source of messages.
type feed struct {
	name   string
	stream bool
	event  func(all ...mail) any
	wrap   func(*idempotency.Runner, feedSettings, func(ctx context.Context, body string) error) (any, error)
}

// feedSettings are settings for any source. withKey makes the body the key.
type feedSettings struct {
	withKey, keyOptional bool
	log                  *slog.Logger
}

func settingsFor[M any](s feedSettings, body func(M) string) oncelambda.Settings[M] {
	made := oncelambda.Settings[M]{KeyOptional: s.keyOptional, Log: s.log}
	if s.withKey {
		made.Key = func(_ context.Context, m M) (string, error) {
			key, _, _ := strings.Cut(body(m), " ")
			return key, nil
		}
	}
	return made
}

func sqsFeed(name, queue string) feed {
	body := func(m events.SQSMessage) string { return m.Body }
	return feed{
		name: name,
		event: func(all ...mail) any {
			e := events.SQSEvent{Records: []events.SQSMessage{}}
			for _, m := range all {
				e.Records = append(e.Records, events.SQSMessage{
					MessageId: m.id, Body: m.body,
					EventSourceARN: "arn:aws:sqs:eu-west-1:123456789012:" + queue,
				})
			}
			return e
		},
		wrap: func(r *idempotency.Runner, s feedSettings, next func(context.Context, string) error) (any, error) {
			return oncelambda.SQS(r, settingsFor(s, body),
				func(ctx context.Context, m events.SQSMessage) error { return next(ctx, m.Body) })
		},
	}
}

const streamARN = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders"

func kinesisFeed(arn string) feed {
	body := func(r events.KinesisEventRecord) string { return string(r.Kinesis.Data) }
	return feed{
		name: "kinesis", stream: true,
		event: func(all ...mail) any {
			e := events.KinesisEvent{Records: []events.KinesisEventRecord{}}
			for _, m := range all {
				e.Records = append(e.Records, events.KinesisEventRecord{
					EventID: "shardId-000000000000:" + m.id, EventSourceArn: arn,
					Kinesis: events.KinesisRecord{SequenceNumber: m.id, Data: []byte(m.body)},
				})
			}
			return e
		},
		wrap: func(r *idempotency.Runner, s feedSettings, next func(context.Context, string) error) (any, error) {
			return oncelambda.Kinesis(r, settingsFor(s, body),
				func(ctx context.Context, m events.KinesisEventRecord) error { return next(ctx, body(m)) })
		},
	}
}

func dynamoDBFeed() feed {
	body := func(r events.DynamoDBEventRecord) string { return r.Change.NewImage["body"].String() }
	return feed{
		name: "dynamodb", stream: true,
		event: func(all ...mail) any {
			e := events.DynamoDBEvent{Records: []events.DynamoDBEventRecord{}}
			for _, m := range all {
				e.Records = append(e.Records, events.DynamoDBEventRecord{
					EventID: "event-" + m.id,
					Change: events.DynamoDBStreamRecord{
						SequenceNumber: m.id,
						NewImage:       map[string]events.DynamoDBAttributeValue{"body": events.NewStringAttribute(m.body)},
					},
				})
			}
			return e
		},
		wrap: func(r *idempotency.Runner, s feedSettings, next func(context.Context, string) error) (any, error) {
			return oncelambda.DynamoDB(r, settingsFor(s, body),
				func(ctx context.Context, m events.DynamoDBEventRecord) error { return next(ctx, body(m)) })
		},
	}
}

var (
	standard = sqsFeed("standard queue", "orders")
	fifo     = sqsFeed("FIFO queue", "orders.fifo")
	feeds    = []feed{standard, fifo, kinesisFeed(streamARN), dynamoDBFeed()}
)

// worker is a function that processes the messages of a feed.
type worker struct {
	t       *testing.T
	feed    feed
	log     bytes.Buffer
	done    []string // the bodies for which the function ran to its end
	process func(ctx context.Context, body string) error
	handler lambda.Handler
}

func newWorker(t *testing.T, f feed, store *memstore.Calls, s feedSettings) *worker {
	t.Helper()
	w := &worker{t: t, feed: f, process: func(context.Context, string) error { return nil }}
	s.log = slog.New(slog.NewJSONHandler(&w.log, nil))
	runner, err := idempotency.New(store, namespace, idempotency.Settings{LeaseUntilDeadline: true, DoNotWait: true})
	must(t, err)
	handler, err := f.wrap(runner, s, func(ctx context.Context, body string) error {
		if err := w.process(ctx, body); err != nil {
			return err
		}
		w.done = append(w.done, body)
		return nil
	})
	must(t, err)
	w.handler = lambda.NewHandler(handler)
	return w
}

// gives sends messages in an invocation of a minute, and compares what the answer names and what ran to its end. failed
// is a list of ids, or the begin of the error with which the invocation fails.
func (w *worker) gives(failed any, done []string, all ...mail) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(traced(w.t), time.Minute)
	defer cancel()
	w.givesIn(ctx, failed, done, all...)
}

func (w *worker) givesIn(ctx context.Context, failed any, done []string, all ...mail) {
	w.t.Helper()
	w.done = nil
	raw, err := json.Marshal(w.feed.event(all...))
	must(w.t, err)
	answer, err := w.handler.Invoke(ctx, raw)
	var response struct {
		BatchItemFailures []struct{ ItemIdentifier string }
	}
	ids := []string{}
	if err == nil {
		must(w.t, json.Unmarshal(answer, &response))
		if response.BatchItemFailures == nil {
			w.t.Errorf("the answer has no list: %s", answer)
		}
	}
	for _, f := range response.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	switch want := failed.(type) {
	case error:
		if !errors.Is(err, want) {
			w.t.Errorf("%s: want %v, got %v, %v", w.feed.name, want, ids, err)
		}
	case []string:
		if err != nil || !slices.Equal(ids, want) {
			w.t.Errorf("%s: want the failures %q, got %q, %v", w.feed.name, want, ids, err)
		}
	}
	if !slices.Equal(w.done, done) {
		w.t.Errorf("%s: want %q done, got %q", w.feed.name, done, w.done)
	}
}

var (
	none = []string{}
	abc  = []mail{{"1", "a"}, {"2", "b"}, {"3", "c"}}
)

func eachFeed(t *testing.T, test func(t *testing.T, f feed)) {
	t.Helper()
	t.Parallel()
	for _, f := range feeds {
		t.Run(f.name, func(t *testing.T) { test(t, f) })
	}
}

// TestMessages: each message runs once, also when a batch comes again.
func TestMessages(t *testing.T) {
	eachFeed(t, func(t *testing.T, f feed) {
		w := newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{})
		w.process = func(ctx context.Context, _ string) error {
			execution, ok := oncelambda.ExecutionOf(ctx)
			equal(t, "key for others", ok && len(execution.KeyFor("charge")) == 64, true)
			return nil
		}
		w.gives(none, []string{"a", "b", "c"}, abc...)
		w.gives(none, nil, abc...)
		w.gives(none, nil)
		equal(t, "log", w.log.String(), "")
	})
}

// TestMessageThatFails: of a standard queue each failure is named, of a FIFO queue the first and all behind it, and of a
// stream only the first. If it is the first of several records of a stream, the invocation fails, so that Lambda splits
// the batch. What was done is not done again.
func TestMessageThatFails(t *testing.T) {
	eachFeed(t, func(t *testing.T, f feed) {
		for _, fails := range []func() error{
			func() error { return errors.New("broken") },
			func() error { panic("secret") },
		} {
			w := newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{})
			bad := "b"
			w.process = func(_ context.Context, body string) error {
				if body == bad {
					return fails()
				}
				return nil
			}
			switch f.name {
			case standard.name:
				w.gives([]string{"2"}, []string{"a", "c"}, abc...)
			case fifo.name:
				w.gives([]string{"2", "3"}, []string{"a"}, abc...)
			default:
				w.gives([]string{"2"}, []string{"a"}, abc...)
				w.gives(oncelambda.ErrNoProgress, nil, abc[1:]...)
				w.gives([]string{"2"}, nil, abc[1:2]...)
			}
			if bad = ""; f.name == standard.name {
				w.gives(none, []string{"b"}, abc...)
			} else {
				w.gives(none, []string{"b", "c"}, abc...)
			}
			line := w.log.String()
			if !strings.Contains(line, `"id":"2"`) || !strings.Contains(line, traceMember) || strings.Contains(line, "secret") {
				t.Errorf("the log is %s", line)
			}
		}
	})
}

// TestMessageTwin: a message whose key another invocation holds is not done, and is not waited for. When it comes again
// after that invocation, it is done.
func TestMessageTwin(t *testing.T) {
	t.Parallel()
	for _, f := range feeds {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.NewCalls(time.Now)
				first, second := newWorker(t, f, store, feedSettings{}), newWorker(t, f, store, feedSettings{})
				first.process = func(context.Context, string) error { time.Sleep(30 * time.Second); return nil }
				done := make(chan struct{})
				go func() {
					defer close(done)
					first.gives(none, []string{"b"}, abc[1])
				}()
				time.Sleep(time.Second)
				begun := time.Now()
				switch f.name {
				case standard.name:
					second.gives([]string{"2"}, []string{"a", "c"}, abc...)
				case fifo.name:
					second.gives([]string{"2", "3"}, []string{"a"}, abc...)
				default:
					second.gives([]string{"2"}, []string{"a"}, abc...)
				}
				equal(t, "waited", time.Since(begun), 0)
				<-done
				second.gives(none, map[bool][]string{false: {"c"}}[f.name == standard.name], abc...)
			})
		})
	}
}

// TestMessageKeys: with a key of the body, a message that a producer sends again is done once, under any id. So is one
// that was moved back from a dead-letter queue. Another payload under the key is never dropped. Without such a key, the
// message is another one.
func TestMessageKeys(t *testing.T) {
	eachFeed(t, func(t *testing.T, f feed) {
		store := memstore.NewCalls(time.Now)
		w := newWorker(t, f, store, feedSettings{withKey: true})
		w.gives(none, []string{"order-1 450"}, mail{"1", "order-1 450"}, mail{"2", "order-1 450"})
		w.gives(none, nil, mail{"3", "order-1 450"})
		w.gives([]string{"4"}, nil, mail{"4", "order-1 9900"})
		if !strings.Contains(w.log.String(), idempotency.ErrOtherPayload.Error()) {
			t.Errorf("the log is %s", w.log.String())
		}
		w = newWorker(t, f, store, feedSettings{})
		w.gives(none, []string{"order-1 450", "order-1 450"}, mail{"1", "order-1 450"}, mail{"2", "order-1 450"})
	})
}

// TestMessageWithoutKey: a message without a key is not done, or runs each time.
func TestMessageWithoutKey(t *testing.T) {
	eachFeed(t, func(t *testing.T, f feed) {
		w := newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{withKey: true})
		w.gives([]string{"1"}, nil, mail{"1", " x"})
		w = newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{withKey: true, keyOptional: true})
		w.gives(none, []string{" x", " x"}, mail{"1", " x"}, mail{"2", " x"})
	})
}

// TestMessagesBeforeTheDeadline: half a second before the deadline no message begins, and the answer names those that
// have not begun. A message that runs has its context ended before that.
func TestMessagesBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	for _, f := range feeds {
		t.Run(f.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{})
				w.process = func(ctx context.Context, body string) error {
					if body == "a" {
						time.Sleep(15 * time.Second)
						return nil
					}
					<-ctx.Done()
					return ctx.Err()
				}
				begun := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				failed := []string{"2", "3"}
				if f.stream {
					failed = failed[:1]
				}
				w.givesIn(ctx, failed, []string{"a"}, abc...)
				if took := time.Since(begun); took > 20*time.Second-500*time.Millisecond {
					t.Errorf("the answer came after %s", took)
				}
			})
		})
	}
}

// TestMessageTwiceInABatch: SQS can put a message into a batch twice. It runs once, and is named once.
func TestMessageTwiceInABatch(t *testing.T) {
	t.Parallel()
	for _, f := range []feed{standard, fifo} {
		w := newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{})
		w.gives(none, []string{"a"}, abc[0], abc[0])
		w.process = func(context.Context, string) error { return errors.New("broken") }
		w.gives([]string{"2"}, nil, abc[1], abc[1])
	}
}

// TestFinalMessage: a failure that is final is the result of the message. It does not run again, and is never counted as
// done, so that SQS moves it to the dead-letter queue.
func TestFinalMessage(t *testing.T) {
	t.Parallel()
	w, runs := newWorker(t, standard, memstore.NewCalls(time.Now), feedSettings{}), 0
	w.process = func(context.Context, string) error { runs++; return idempotency.Final(errors.New("declined")) }
	w.gives([]string{"1"}, nil, abc[0])
	w.gives([]string{"1"}, nil, abc[0])
	equal(t, "runs", runs, 1)
}

// TestOtherMessages: messages of another source never count as done.
func TestOtherMessages(t *testing.T) {
	t.Parallel()
	for _, f := range feeds {
		w := newWorker(t, f, memstore.NewCalls(time.Now), feedSettings{keyOptional: true})
		for _, other := range []any{
			map[string]any{}, map[string]any{"Records": nil}, map[string]any{"Records": []any{map[string]any{}}},
		} {
			w.feed.event = func(...mail) any { return other }
			w.gives(oncelambda.ErrNotMessages, nil)
		}
		for _, other := range feeds {
			if strings.HasSuffix(other.name, "queue") != strings.HasSuffix(f.name, "queue") || other.stream && other.name != f.name {
				w.feed.event = func(...mail) any { return other.event(abc...) }
				w.gives(oncelambda.ErrNotMessages, nil)
			}
		}
	}
}

// TestEnhancedFanOut: records with one sequence number need a key of their data. If one with the first number is not
// done, the invocation fails, too: that number names the whole batch.
func TestEnhancedFanOut(t *testing.T) {
	t.Parallel()
	consumer := kinesisFeed(streamARN + "/consumer/c:1")
	inner := []mail{{"1", "a"}, {"1", "b"}}
	newWorker(t, consumer, memstore.NewCalls(time.Now), feedSettings{}).gives(oncelambda.ErrConsumer, nil, inner...)
	w := newWorker(t, consumer, memstore.NewCalls(time.Now), feedSettings{withKey: true})
	w.gives(none, []string{"a", "b"}, inner...)
	w.process = func(context.Context, string) error { return errors.New("broken") }
	w.gives(oncelambda.ErrNoProgress, nil, mail{"1", "a"}, mail{"1", "c"}, mail{"2", "d"})
}

// TestBinaryPayloads: two payloads that are not UTF-8 stay two.
func TestBinaryPayloads(t *testing.T) {
	t.Parallel()
	w := newWorker(t, kinesisFeed(streamARN), memstore.NewCalls(time.Now), feedSettings{withKey: true})
	w.gives(none, []string{"a \xff"}, mail{"1", "a \xff"})
	w.gives([]string{"2"}, nil, mail{"2", "a \xfe"})
}

// foreignStore is a store of rows that others write, too.
type foreignStore struct{ engine.Store }

func (foreignStore) LeastWindow() time.Duration { return 0 }

func (foreignStore) PayloadHash([]byte) (string, error) { return "", nil }

// TestMessageConstructors: a wrapper without what it needs is not made. A Runner must not wait for other invocations.
func TestMessageConstructors(t *testing.T) {
	eachFeed(t, func(t *testing.T, f feed) {
		next := func(context.Context, string) error { return nil }
		for _, s := range []idempotency.Settings{{}, {DoNotWait: true}, {LeaseUntilDeadline: true}} {
			runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace, s)
			must(t, err)
			if _, err := f.wrap(runner, feedSettings{}, next); !errors.Is(err, idempotency.ErrInvalid) {
				t.Errorf("%+v: got %v", s, err)
			}
		}
		if _, err := f.wrap(nil, feedSettings{}, next); !errors.Is(err, idempotency.ErrInvalid) {
			t.Errorf("without a Runner: got %v", err)
		}
		runner, err := idempotency.New(foreignStore{memstore.NewCalls(time.Now)}, namespace,
			idempotency.Settings{LeaseUntilDeadline: true, DoNotWait: true})
		must(t, err)
		if _, err := f.wrap(runner, feedSettings{}, next); !errors.Is(err, idempotency.ErrInvalid) {
			t.Errorf("on rows that do not have the hash of a body: got %v", err)
		}
	})
	runner := &idempotency.Runner{}
	for _, err := range []error{
		second(oncelambda.SQS(runner, oncelambda.Settings[events.SQSMessage]{}, nil)),
		second(oncelambda.Kinesis(runner, oncelambda.Settings[events.KinesisEventRecord]{}, nil)),
		second(oncelambda.DynamoDB(runner, oncelambda.Settings[events.DynamoDBEventRecord]{}, nil)),
	} {
		if err == nil || !strings.Contains(fmt.Sprint(err), "handler") {
			t.Errorf("without a function: got %v", err)
		}
	}
}
