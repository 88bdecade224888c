package kinesishandler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

func TestUniqueRecordsGoToTheSink(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	equal(t, "failed", b.do(t, event(`{"id":"a","n":1}`, `{"id":"b"}`, `{"id":"a","n":1}`, `{"id":"a","n":2}`, `poison`)),
		"")
	b.deadLetters.holds(t, "poison")
	equal(t, "records sent", len(b.sink.data), 3)
	for i, want := range []string{`{"id":"a","n":1}`, `{"id":"b"}`} {
		equal(t, "record", b.sink.data[i], want)
	}
	if synthetic := b.sink.data[2]; strings.Contains(synthetic, `"id":"a"`) ||
		!strings.Contains(synthetic, "originalEventId") {
		t.Errorf("the synthetic duplicate is %s", synthetic)
	}
}

// TestTheAnswerIsExplicit: an empty list, not null.
func TestTheAnswerIsExplicit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sink.err = errBroken
	for want, raw := range map[string]json.RawMessage{
		`{"batchItemFailures":[]}`:                       json.RawMessage(`{"Records":[]}`),
		`{"batchItemFailures":[{"itemIdentifier":"1"}]}`: rawOf(t, event(`{"id":"a"}`)),
	} {
		answer, err := b.Handle(t.Context(), raw)
		must(t, err)
		text, err := json.Marshal(answer)
		must(t, err)
		equal(t, "answer", string(text), want)
	}
}

// TestFaultsArePartialFailures: what was done before the fault counts, and the rest is done when the fault is over.
func TestFaultsArePartialFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		begin  func(b *bench)
		failed string
	}{
		"ledger": {func(b *bench) {
			b.store.put = func(context.Context, []dedupe.Entry) error { return dedupe.ErrTryAgain }
		}, "1"},
		"sink":              {func(b *bench) { b.sink.err = errBroken }, "1"},
		"dead-letter store": {func(b *bench) { b.deadLetters.err = errBroken }, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			e := event(`{"id":"a"}`, `poison`)
			c.begin(b)
			equal(t, "failed", b.do(t, e), c.failed)
			line := b.line(t)
			equal(t, "level", line["level"], "ERROR")
			equal(t, "failed sequence in the log", line["failed_sequence"], any(c.failed))
			b.store.put, b.sink.err, b.deadLetters.err = nil, nil, nil
			equal(t, "failed", b.do(t, e), "")
			equal(t, "last record sent", b.sink.data[len(b.sink.data)-1], `{"id":"a"}`)
			b.deadLetters.holds(t, "poison")
		})
	}
}

// TestAnswersBeforeTheDeadline: the ledger has less time than the function, so that there is time left for an answer.
func TestAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	end := time.Now().Add(time.Hour)
	b.store.put = func(ctx context.Context, _ []dedupe.Entry) error {
		until, _ := ctx.Deadline()
		equal(t, "time that is left for the answer", end.Sub(until), 500*time.Millisecond)
		return context.DeadlineExceeded
	}
	ctx, cancel := context.WithDeadline(t.Context(), end)
	defer cancel()
	answer, err := b.Handle(ctx, rawOf(t, event(`{"id":"a"}`)))
	must(t, err)
	equal(t, "failed", answer.BatchItemFailures[0].ItemIdentifier, "1")
}

// TestAPanicFailsTheInvocation: with bisect Lambda then isolates the record.
func TestAPanicFailsTheInvocation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		value any
		error string
	}{
		"text":  {"secret", "kinesishandler: panic with a string"},
		"error": {errors.New("secret"), "kinesishandler: panic with a *errors.errorString"},
		"index": {nil, "kinesishandler: panic: runtime error: index out of range [3] with length 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.store.put = func(context.Context, []dedupe.Entry) error {
				if c.value == nil {
					return []error{}[len("any")]
				}
				panic(c.value)
			}
			_, err := b.Handle(t.Context(), rawOf(t, event(`{"id":"a"}`)))
			if err == nil || err.Error() != c.error {
				t.Errorf("want the error %q, got %v", c.error, err)
			}
			line := b.line(t)
			equal(t, "level", line["level"], "ERROR")
			equal(t, "error", line["error"], any(c.error))
			if stack, _ := line["stack"].(string); !strings.Contains(stack, "PutIfAbsent") || strings.Contains(stack, "secret") {
				t.Errorf("the stack is %q", stack)
			}
			b.store.put = nil
			equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
		})
	}
}

func TestOneLogLinePerInvocation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	_, err := b.Handle(ctx, rawOf(t, event(`{"id":"a"}`, `{"id":"a"}`, `{"id":"a","x":1}`, `secret`)))
	must(t, err)
	line := b.line(t)
	for name, want := range map[string]any{
		"level": "WARN", "msg": "batch", "request_id": "request-1", "stream": "123456789012/eu-central-1/clicks",
		"shard":   shard0,
		"records": 4.0, "in": 4.0, "new": 1.0, "retry": 0.0, "natural": 1.0, "synthetic": 1.0, "dead_lettered": 1.0,
		"skipped": 0.0, "failed": 0.0, "out": 2.0, "repeated": 0.0, "failed_sequence": nil, "error": nil,
	} {
		equal(t, name, line[name], want)
	}
	if ms, ok := line["duration_ms"].(float64); !ok || ms < 0 {
		t.Errorf("duration_ms is %v", line["duration_ms"])
	}
	equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
	line = b.line(t)
	equal(t, "level", line["level"], "INFO")
	equal(t, "retries", line["retry"], any(1.0))
	if text := fmt.Sprint(line); strings.Contains(text, "secret") || strings.Contains(text, "poison") {
		t.Errorf("the log holds data: %s", text)
	}
	_, err = b.Handle(t.Context(), json.RawMessage(`{"Records":[]}`))
	must(t, err)
	line = b.line(t)
	equal(t, "stream", line["stream"], "")
	equal(t, "records", line["records"], any(0.0))
}

// TestScope: by default each stream has its own scope. A setting joins streams in one scope.
func TestScope(t *testing.T) {
	t.Parallel()
	fromOrders := event(`{"id":"a"}`)
	fromOrders.Records[0].EventSourceArn = strings.Replace(clicks, "clicks", "Orders_2", 1)
	for name, c := range map[string]struct {
		environ []string
		sent    int
	}{
		"default": {nil, 2},
		"shared":  {[]string{"ONCEBOX_SCOPE=web"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.environ...)
			equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
			equal(t, "failed", b.do(t, fromOrders), "")
			equal(t, "sent", len(b.sink.data), c.sent)
		})
	}
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	natural := event(`{"id":"a"}`, `{"id":"a"}`)
	synthetic := event(`{"id":"a"}`, `{"id":"a","x":1}`)
	b := newBench(t, "ONCEBOX_NATURAL=off")
	b.do(t, natural)
	b.sink.holds(t, `{"id":"a"}`, `{"id":"a"}`)
	b = newBench(t, "ONCEBOX_SYNTHETIC=off")
	b.do(t, synthetic)
	b.sink.holds(t, `{"id":"a"}`, `{"id":"a","x":1}`)
	b = newBench(t, "ONCEBOX_FINGERPRINT_PATH=fp", "ONCEBOX_VOLATILE=sent, x")
	b.do(t, event(`{"id":"a","fp":"1"}`, `{"id":"a","fp":"1","y":2}`, `{"id":"b","x":1}`, `{"id":"b","sent":2}`))
	b.sink.holds(t, `{"id":"a","fp":"1"}`, `{"id":"b","x":1}`)
	b = newBench(t, "ONCEBOX_WINDOW=1s", "ONCEBOX_HORIZON=24h")
	late := natural
	late.Records[1].Kinesis.ApproximateArrivalTimestamp.Time = late.Records[0].Kinesis.ApproximateArrivalTimestamp.Add(24*time.Hour + 3*time.Second)
	b.do(t, late)
	equal(t, "sent outside of the window", len(b.sink.data), 2)
}

// TestCheckpoint: with the checkpoint, records that are done are skipped, and the row of another function fails the
// batch.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_CHECKPOINT=on", "AWS_LAMBDA_FUNCTION_NAME=first")
	equal(t, "failed", b.do(t, event(`{"id":"a"}`, `{"id":"b"}`)), "")
	equal(t, "failed", b.do(t, event(`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`)), "")
	equal(t, "skipped", b.lines(t)[1]["skipped"], any(2.0))
	b.sink.holds(t, `{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`)

	other := newBench(t, "ONCEBOX_CHECKPOINT=on", "AWS_LAMBDA_FUNCTION_NAME=second")
	other.store.Store = b.store.Store
	equal(t, "failed", other.do(t, event(`{"id":"a"}`)), "1")
	if text, _ := other.line(t)["error"].(string); !strings.Contains(text, dedupe.ErrOtherConsumer.Error()) {
		t.Errorf("the log does not name the cause: %s", text)
	}
	other.sink.holds(t)
}

// TestTheSinkMayNotBeTheSource: records would go round for ever.
func TestTheSinkMayNotBeTheSource(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_SINK=kinesis:clicks")
	if _, err := b.Handle(t.Context(), rawOf(t, event(`{"id":"a"}`))); !errors.Is(err, kinesishandler.ErrLoop) {
		t.Errorf("want %v, got %v", kinesishandler.ErrLoop, err)
	}
	equal(t, "level", b.line(t)["level"], "ERROR")
	b.sink.holds(t)
}

// TestInvocationsAtOnce: batches of two streams at the same time, each batch twice.
func TestInvocationsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var wg sync.WaitGroup
	for _, stream := range []string{"clicks", "orders", "clicks", "orders"} {
		e := event(`{"id":"a"}`, `{"id":"b"}`)
		for i := range e.Records {
			e.Records[i].EventSourceArn = strings.Replace(clicks, "clicks", stream, 1)
		}
		wg.Go(func() {
			answer, err := b.Handle(t.Context(), rawOf(t, e))
			if err != nil || len(answer.BatchItemFailures) > 0 {
				t.Errorf("failed: %v %v", answer, err)
			}
		})
	}
	wg.Wait()
	if n := len(b.sink.data); n != 8 { // each is new or a retry
		t.Errorf("sent %d records", n)
	}
}
