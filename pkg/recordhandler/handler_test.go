package recordhandler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestTheAnswerIsExplicit: an answer without failures has an empty list, not null.
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

// failsAt makes a ledger fail at the record with this number.
func failsAt(sequence string) func(context.Context, dedupe.Entry) error {
	return func(_ context.Context, e dedupe.Entry) error {
		if e.Owner.Sequence == sequence {
			return dedupe.ErrTryAgain
		}
		return nil
	}
}

// parts are the parts of a bench that can fail at one record, which is identified by its data or its sequence number.
var parts = map[string]struct {
	begin func(b *bench, data, sequence string)
	end   func(b *bench)
	fault error
}{
	"ledger": {
		func(b *bench, _, sequence string) { b.store.put = failsAt(sequence) }, func(b *bench) { b.store.put = nil },
		dedupe.ErrTryAgain,
	},
	"sink": {
		func(b *bench, data, _ string) { b.sink.fails = data }, func(b *bench) { b.sink.fails = "" }, errBroken,
	},
	"dead-letter store": {
		func(b *bench, data, _ string) { b.deadLetters.fails = data }, func(b *bench) { b.deadLetters.fails = "" },
		errBroken,
	},
}

// TestFaultsArePartialFailures: the records before the fault are done, and the rest is done when the fault is over.
func TestFaultsArePartialFailures(t *testing.T) {
	t.Parallel()
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			second := `{"id":"b"}`
			if name == "dead-letter store" {
				second = "poison"
			}
			e := event(`{"id":"a"}`, second, `{"id":"c"}`)
			part.begin(b, second, "2")
			equal(t, "failed", b.do(t, e), "2")
			line := b.line(t)
			equal(t, "level", line["level"], "ERROR")
			equal(t, "failed sequence in the log", line["failed_sequence"], any("2"))
			part.end(b)
			equal(t, "failed", b.do(t, e), "")
			for _, data := range []string{`{"id":"a"}`, second, `{"id":"c"}`} {
				equal(t, "times that "+data+" is stored", count(b, data), 1)
			}
		})
	}
}

// count returns how often a record is in the sink or in the dead-letter store.
func count(b *bench, data string) (n int) {
	for _, d := range slices.Concat(b.sink.data, b.deadLetters.data) {
		if d == data {
			n++
		}
	}
	return n
}

// TestNoProgressFailsTheInvocation: an answer with the first of several records would make Lambda retry the whole
// batch. Only a failed invocation is certainly bisected. For a single record the answer has its sequence number.
func TestNoProgressFailsTheInvocation(t *testing.T) {
	t.Parallel()
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			first := `{"id":"a"}`
			if name == "dead-letter store" {
				first = "poison"
			}
			part.begin(b, first, "1")
			text := b.fails(t, event(first, `{"id":"b"}`), recordhandler.ErrNoProgress, part.fault)
			line := b.line(t)
			equal(t, "level", line["level"], "ERROR")
			equal(t, "error", line["error"], any(text))
			equal(t, "failed sequence in the log", line["failed_sequence"], any("1"))
			equal(t, "failed, alone", b.do(t, event(first)), "1")
			part.end(b)
			equal(t, "failed", b.do(t, event(first, `{"id":"b"}`)), "")
			equal(t, "times that the first record is stored", count(b, first), 1)
			equal(t, "times that the second record is stored", count(b, `{"id":"b"}`), 1)
		})
	}
}

// TestAnswersBeforeTheDeadline: the ledger has less time than the function, so that there is time left for an answer.
func TestAnswersBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	end := time.Now().Add(time.Hour)
	b.store.put = func(ctx context.Context, _ dedupe.Entry) error {
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

// TestAPanicFailsTheInvocation: with bisect, Lambda then isolates the record. The ledger step of a later chunk runs
// in another goroutine, beside the sink of the chunk before; a panic there must not end the process.
func TestAPanicFailsTheInvocation(t *testing.T) {
	t.Parallel()
	data := make([]string, dedupe.DefaultChunk+2)
	for i := range data {
		data[i] = fmt.Sprintf(`{"id":"%d"}`, i)
	}
	for name, c := range map[string]struct {
		value any
		error string
	}{
		"text":  {"secret", "recordhandler: panic with a string"},
		"error": {errors.New("secret"), "recordhandler: panic with a *errors.errorString"},
		"index": {nil, "recordhandler: panic: runtime error: index out of range [3] with length 0"},
	} {
		for chunk, sequence := range map[string]string{"first": "1", "second": "502"} {
			t.Run(name+" in the "+chunk+" chunk", func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.store.put = func(_ context.Context, e dedupe.Entry) error {
					switch {
					case e.Owner.Sequence != sequence:
						return nil
					case c.value == nil:
						return []error{}[len("any")]
					}
					panic(c.value)
				}
				_, err := b.Handle(t.Context(), rawOf(t, event(data...)))
				if err == nil || err.Error() != c.error {
					t.Errorf("want the error %q, got %v", c.error, err)
				}
				line := b.line(t)
				equal(t, "level", line["level"], "ERROR")
				equal(t, "error", line["error"], any(c.error))
				stack, _ := line["stack"].(string)
				if !strings.Contains(stack, "PutIfAbsent") || strings.Contains(stack, "secret") {
					t.Errorf("the stack is %q", stack)
				}
				b.store.put = nil
				equal(t, "failed", b.do(t, event(data...)), "")
				b.sink.holds(t, data...) // the first chunk has an ack if the second one panicked
			})
		}
	}
}

func TestOneLogLinePerInvocation(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	_, err := b.Handle(ctx, rawOf(t, event(`{"id":"a"}`, `{"id":"a"}`, `{"id":"a","x":1}`, `secret`, `{}`, `[`)))
	must(t, err)
	equal(t, "members with reasons", strings.Count(b.log.String(), `"reasons"`), 1)
	line := b.line(t)
	for name, want := range map[string]any{
		"level": "WARN", "msg": "batch", "request_id": "request-1", "stream": "123456789012/eu-central-1/clicks",
		"shard":   shard0,
		"records": 6.0, "in": 6.0, "new": 1.0, "retry": 0.0, "natural": 1.0, "synthetic": 1.0, "dead_lettered": 3.0,
		"skipped": 0.0, "failed": 0.0, "out": 2.0, "repeated": 0.0, "past_horizon": 0.0, "clamped": 0.0,
		"failed_sequence": nil, "error": nil, "ack_error": nil, "stack": nil,
	} {
		equal(t, name, line[name], want)
	}
	equal(t, "reasons", fmt.Sprint(line["reasons"]), "map[not valid JSON:2 the id is missing, null or empty:1]")
	if ms, ok := line["duration_ms"].(float64); !ok || ms < 0 {
		t.Errorf("duration_ms is %v", line["duration_ms"])
	}
	equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
	line = b.line(t)
	equal(t, "level", line["level"], "INFO")
	equal(t, "skipped", line["skipped"], any(1.0))
	equal(t, "reasons", line["reasons"], nil)
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

// TestPastHorizon: records older than the horizon are processed. The log counts them.
func TestPastHorizon(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_HORIZON=24h")
	e := event(`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`)
	for i := range 2 {
		e.Records[i].Kinesis.ApproximateArrivalTimestamp.Time = arrival.Add(-24 * time.Hour)
	}
	equal(t, "failed", b.do(t, e), "")
	line := b.line(t)
	equal(t, "level", line["level"], "WARN")
	equal(t, "past horizon", line["past_horizon"], any(2.0))
	equal(t, "sent", len(b.sink.data), 3)
}

// TestAWrongSettingIsNotPoison: if nearly all of the first records are poison for one reason, nothing is dead-lettered,
// and the invocation fails with that reason.
func TestAWrongSettingIsNotPoison(t *testing.T) {
	t.Parallel()
	bad := make([]string, 100)
	for i := range bad {
		bad[i] = fmt.Sprintf(`{"event_id":%d}`, i)
	}
	good := []string{`{"id":"a"}`, `{"id":"b"}`}
	for name, c := range map[string]struct {
		environ []string
		records []string
		wrong   bool
	}{
		"default":         {nil, bad, true},
		"a share of 98 %": {nil, slices.Concat(good, bad), true},
		"too few records": {nil, bad[:99], false},
		"off":             {[]string{"ONCEBOX_POISON_LIMIT=off"}, bad, false},
		"below the share": {[]string{"ONCEBOX_POISON_LIMIT=99% of 100"}, slices.Concat(good, bad), false},
		"smaller":         {[]string{"ONCEBOX_POISON_LIMIT=60% of 5"}, slices.Concat(good, bad[:3]), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.environ...)
			if !c.wrong {
				equal(t, "failed", b.do(t, event(c.records...)), "")
				return
			}
			text := b.fails(t, event(c.records...), dedupe.ErrWrongSetting)
			if !strings.Contains(text, "the id is missing, null or empty") {
				t.Errorf("the error does not name the reason: %s", text)
			}
			line := b.line(t)
			equal(t, "level", line["level"], "ERROR")
			equal(t, "error", line["error"], any(text))
			b.deadLetters.holds(t)
			b.sink.holds(t)
			b.fails(t, event(c.records[len(c.records)-1]), dedupe.ErrWrongSetting) // a single record does not slip through
			b.deadLetters.holds(t)
		})
	}
}

// TestDerivedIDs: with ONCEBOX_IDS=derived the id of a record does not depend on the order of the records.
func TestDerivedIDs(t *testing.T) {
	t.Parallel()
	one, two := `{"id":"order-1","fp":"fp1"}`, `{"id":"order-1","fp":"fp2"}`
	var sent [2][]string
	for i, records := range [][]string{{one, two, one}, {two, one, two}} {
		b := newBench(t, "ONCEBOX_IDS=derived", "ONCEBOX_FINGERPRINT_PATH=fp")
		equal(t, "failed", b.do(t, event(records...)), "")
		line := b.line(t)
		equal(t, "new", line["new"], any(2.0))
		equal(t, "natural", line["natural"], any(1.0))
		sent[i] = slices.Sorted(slices.Values(b.sink.data))
	}
	equal(t, "records in the other order", fmt.Sprint(sent[1]), fmt.Sprint(sent[0]))
	if all := fmt.Sprint(sent[0]); !strings.Contains(all, `"id":"a78d0945-7855-5071-b185-8466c665a24d"`) ||
		strings.Contains(all, `"id":"order-1"`) || strings.Count(all, `"originalEventId":"order-1"`) != 2 {
		t.Errorf("sent %s", all)
	}
}

// TestWarm: the ledger is warmed before the first batch of each stream. An error is logged, and the batch goes on.
func TestWarm(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_WINDOW=1h")
	var scopes []string
	b.store.warm = func(_ context.Context, scope string, r dedupe.Retention) error {
		equal(t, "window", r.Window, time.Hour)
		equal(t, "records sent before", len(b.sink.data), len(scopes))
		scopes = append(scopes, scope)
		return errBroken
	}
	orders := event(`{"id":"c"}`)
	orders.Records[0].EventSourceArn = strings.Replace(clicks, "clicks", "orders", 1)
	equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
	lines := b.lines(t)
	equal(t, "lines", len(lines), 2)
	for name, want := range map[string]any{
		"level": "WARN", "msg": "the ledger was not warmed", "error": "broken", "stream": "123456789012/eu-central-1/clicks",
		"request_id": "",
	} {
		equal(t, name, lines[0][name], want)
	}
	equal(t, "failed", b.do(t, orders), "")
	equal(t, "failed", b.do(t, event(`{"id":"b"}`)), "")
	equal(t, "scopes", fmt.Sprint(scopes), "[clicks orders]")
}

// TestNewListsWhatIsMissing: without the missing parts each batch would fail, or every copy would be delivered.
func TestNewListsWhatIsMissing(t *testing.T) {
	t.Parallel()
	h, err := recordhandler.New(dedupe.Parts{}, recordhandler.Options{}, nil)
	if h != nil || err == nil {
		t.Fatalf("got %v, %v", h, err)
	}
	for _, missing := range []string{"Ledger", "Format", "Sink", "DeadLetters", "log"} {
		if !strings.Contains(err.Error(), missing) {
			t.Errorf("the error does not name %s: %v", missing, err)
		}
	}
}

// TestDefaultsOfNew: a program may leave out the retention and the name of its function.
func TestDefaultsOfNew(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var entry dedupe.Entry
	b.store.put = func(_ context.Context, e dedupe.Entry) error { entry = e; return nil }
	reader, err := format.NewJSON(format.Options{IDPath: "id"})
	must(t, err)
	h, err := recordhandler.New(dedupe.Parts{
		Ledger: b.store, Acks: b.store, Consumers: b.store, Format: reader, Sink: b.sink, DeadLetters: b.deadLetters,
	}, recordhandler.Options{}, slog.New(slog.DiscardHandler))
	must(t, err)
	_, err = h.Handle(t.Context(), rawOf(t, event(`{"id":"a"}`)))
	must(t, err)
	keep := dedupe.Retention{Window: recordhandler.DefaultWindow, Horizon: recordhandler.DefaultHorizon}
	equal(t, "purge time", entry.PurgeAt, keep.PurgeAt(entry.Arrival))
	stream, err := dedupe.ParseStreamARN(clicks)
	must(t, err)
	consumer, err := b.store.ClaimConsumer(t.Context(), entry.Scope, stream, "other")
	must(t, err)
	equal(t, "consumer: outside of Lambda a handler locks no function out", consumer, "other")
}

// TestAnswerOfAFailure: the answer to a failure is never an empty list, which would mean that all records are done.
func TestAnswerOfAFailure(t *testing.T) {
	t.Parallel()
	for _, failed := range []string{"7", ""} {
		answer := recordhandler.Answer(dedupe.Result{Failed: failed, Err: dedupe.ErrNotABatch})
		if len(answer.BatchItemFailures) != 1 || answer.BatchItemFailures[0].ItemIdentifier != failed {
			t.Errorf("failed at %q: got %+v", failed, answer)
		}
	}
	equal(t, "failures of a batch that is done", len(recordhandler.Answer(dedupe.Result{}).BatchItemFailures), 0)
}

// TestTheSinkMayNotBeTheSource: otherwise records would circulate for ever.
func TestTheSinkMayNotBeTheSource(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_SINK=kinesis:clicks")
	if _, err := b.Handle(t.Context(), rawOf(t, event(`{"id":"a"}`))); !errors.Is(err, recordhandler.ErrLoop) {
		t.Errorf("want %v, got %v", recordhandler.ErrLoop, err)
	}
	equal(t, "level", b.line(t)["level"], "ERROR")
	b.sink.holds(t)
	own := strings.NewReplacer(":kinesis:", ":lambda:", "stream/clicks", "function:dedupe:live").Replace(clicks)
	in := func(function string) context.Context {
		return lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{InvokedFunctionArn: function})
	}
	if _, err := b.Handle(in(own), rawOf(t, event(`{"id":"a"}`))); !errors.Is(err, recordhandler.ErrLoop) {
		t.Errorf("in the account of the stream: want %v, got %v", recordhandler.ErrLoop, err)
	}
	other := strings.Replace(own, ":123456789012:", ":210987654321:", 1)
	if _, err := b.Handle(in(other), rawOf(t, event(`{"id":"a"}`))); err != nil {
		t.Errorf("a stream of another account is no loop: %v", err)
	}
	b.sink.holds(t, `{"id":"a"}`)
}

// TestScopeOfMarkers: a scope that has the name of the folder of markers would hide its dead letters.
func TestScopeOfMarkers(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	raw := bytes.ReplaceAll(rawOf(t, event(`{"id":"a"}`)), []byte("stream/clicks"), []byte("stream/done"))
	for scope, raw := range map[string]json.RawMessage{
		"done": raw, "logs:/aws/done": logsOfGroup(t, "/aws/done"), "logs:/done/x": logsOfGroup(t, "/done/x"),
	} {
		_, err := b.Handle(t.Context(), raw)
		if err == nil || !strings.Contains(err.Error(), "ONCEBOX_SCOPE") || !strings.Contains(err.Error(), strconv.Quote(scope)) {
			t.Errorf("%s: got %v", scope, err)
		}
	}
}

// TestInvocationsAtOnce: batches of two streams at the same time, each batch twice.
func TestInvocationsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_ACKS=off")
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
