package recordhandler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// consume gives all records of a stream to a function, through a new mapping.
func consume(t *testing.T, stream *eventsource.Stream, sim *eventsource.Sim, h *recordhandler.Handler) {
	t.Helper()
	p, err := sim.Start(eventsource.Mapping{
		Client: stream, StreamARN: clicks, BatchSize: 2, ReportBatchItemFailures: true, RecordAge: time.Minute,
		Function: eventsource.Handler(h.Handle),
	})
	must(t, err)
	must(t, sim.Drain(time.Hour))
	p.Stop()
}

// TestReplayOnPurpose: with a new scope, a new mapping delivers again everything that the source still has, under the
// same ids. With the old scope it delivers nothing. (docs/operations.md, "Replay on purpose")
func TestReplayOnPurpose(t *testing.T) {
	t.Parallel()
	sim := eventsource.NewSim(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 1)
	defer sim.Close()
	stream := eventsource.NewStream(1, sim.Now)
	for _, data := range []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":"a"}`, `{"id":"b","n":1}`, `{"id":"c"}`} {
		stream.Put("key", []byte(data))
	}
	first := newBench(t, "ONCEBOX_SCOPE=orders")
	consume(t, stream, sim, first.Handler)
	equal(t, "records sent", len(first.sink.data), 4)

	again := newBenchOver(t, first.store, "ONCEBOX_SCOPE=orders")
	consume(t, stream, sim, again.Handler)
	again.sink.holds(t)
	for _, line := range again.lines(t) {
		equal(t, "skipped", line["skipped"], line["in"])
	}

	replay := newBenchOver(t, first.store, "ONCEBOX_SCOPE=replay-1")
	consume(t, stream, sim, replay.Handler)
	replay.sink.holds(t, first.sink.data...)
	for _, line := range replay.lines(t) {
		equal(t, "skipped", line["skipped"], any(0.0))
	}
	consume(t, stream, sim, again.Handler) // the replay does not change the old scope
	again.sink.holds(t)
}

// TestReplayOfAPart: in a replay, the source may have lost the first record with an id. The first remaining one then
// keeps the id, even if it had a derived id before. (docs/operations.md, "Replay on purpose")
func TestReplayOfAPart(t *testing.T) {
	t.Parallel()
	sim := eventsource.NewSim(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 1)
	defer sim.Close()
	const gone, left = `{"id":"b"}`, `{"id":"b","n":1}`
	deliver := func(scope string, records ...string) []string {
		stream, b := eventsource.NewStream(1, sim.Now), newBench(t, "ONCEBOX_SCOPE="+scope)
		for _, data := range records {
			stream.Put("key", []byte(data))
		}
		consume(t, stream, sim, b.Handler)
		return b.sink.data
	}
	before, after := deliver("orders", gone, left), deliver("replay-1", left)
	equal(t, "records sent", len(before), 2)
	equal(t, "records sent again", len(after), 1)
	equal(t, "the record in the replay", after[0], left)
	equal(t, "the record before has its own id", before[1] == left, false)
}

// TestAnotherFunctionLosesNothing: if a function reads a stream and scope of another function, it fails its batches
// until Lambda gives them up, and sends nothing, also without acks.
func TestAnotherFunctionLosesNothing(t *testing.T) {
	t.Parallel()
	for _, acks := range []string{"on", "off"} {
		t.Run("acks "+acks, func(t *testing.T) {
			t.Parallel()
			sim := eventsource.NewSim(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 1)
			defer sim.Close()
			stream := eventsource.NewStream(1, sim.Now)
			stream.Put("key", []byte(`{"id":"a"}`))
			first := newBench(t, "ONCEBOX_ACKS="+acks, "AWS_LAMBDA_FUNCTION_NAME=first")
			consume(t, stream, sim, first.Handler)
			stream.Put("key", []byte(`{"id":"b"}`))
			second := newBenchOver(t, first.store, "ONCEBOX_ACKS="+acks, "AWS_LAMBDA_FUNCTION_NAME=second")
			var given []string
			p, err := sim.Start(eventsource.Mapping{
				Client: stream, StreamARN: clicks, ReportBatchItemFailures: true, Retries: new(1),
				Function: eventsource.Handler(second.Handle),
				OnFailure: func(_ context.Context, d eventsource.Discard) error {
					for _, r := range d.Records {
						given = append(given, string(r.Data))
					}
					return nil
				},
			})
			must(t, err)
			must(t, sim.Drain(time.Hour))
			p.Stop()
			second.sink.holds(t)
			equal(t, "records given up", len(given), 2)
			text := second.fails(t, event(`{"id":"c"}`), dedupe.ErrOtherConsumer)
			if !strings.Contains(text, `"first"`) {
				t.Errorf("the error does not name the other function: %s", text)
			}
			equal(t, "failed", first.do(t, event(`{"id":"c"}`)), "")
		})
	}
}

// TestVersionsAreOneConsumer: an upgrade moves the alias of a function from one version to the next. The first
// upgrade also makes the mapping call the alias. The function is the consumer of the stream in all versions, however
// it is called, and a record that comes again has its earlier owner.
func TestVersionsAreOneConsumer(t *testing.T) {
	t.Parallel()
	const name, arn = "dedupe-clicks", "arn:aws:lambda:eu-central-1:123456789012:function:dedupe-clicks"
	first := newBench(t, "AWS_LAMBDA_FUNCTION_NAME="+name, "ONCEBOX_ACKS=off")
	for i, c := range []struct{ version, invoked string }{
		{"$LATEST", arn}, {"1", arn + ":live"}, {"2", arn + ":live"}, {"2", arn + ":2"}, {"3", arn + ":canary"},
	} {
		b := newBenchOver(t, first.store, "AWS_LAMBDA_FUNCTION_NAME="+name, "AWS_LAMBDA_FUNCTION_VERSION="+c.version, "ONCEBOX_ACKS=off")
		ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "r", InvokedFunctionArn: c.invoked})
		answer, err := b.Handle(ctx, rawOf(t, event(`{"id":"a"}`)))
		must(t, err)
		equal(t, "failed records", len(answer.BatchItemFailures), 0)
		b.sink.holds(t, `{"id":"a"}`)
		equal(t, c.version+" of "+c.invoked+": retries", b.line(t)["retry"], any(float64(min(i, 1))))
	}
	stream := dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "clicks"}
	consumer, err := first.store.ClaimConsumer(t.Context(), "clicks", stream, "somebody")
	must(t, err)
	equal(t, "consumer", consumer, name)
}

// TestAConsumerThatIsNotKnown: while the store cannot return the consumer of the stream, nothing is sent.
func TestAConsumerThatIsNotKnown(t *testing.T) {
	t.Parallel()
	b := newBench(t, "AWS_LAMBDA_FUNCTION_NAME=me")
	b.store.claim = dedupe.ErrTryAgain
	equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "1")
	b.sink.holds(t)
	b.store.claim = nil
	equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
	b.sink.holds(t, `{"id":"a"}`)
}

// everything returns an event whose records are sent, dropped, renamed and dead-lettered, and are in an aggregate.
func everything() events.KinesisEvent {
	aggregate := aggregateOf(200, func(n int) []byte { return fmt.Appendf(nil, `{"id":"part-%d"}`, n) })
	return event(`{"id":"a"}`, `{"id":"a"}`, `{"id":"a","n":1}`, "poison", string(aggregate), `{"id":"b"}`)
}

// TestAfterAnAckNothingIsSentAgain: the process dies between the ack and the answer, and Lambda delivers the batch
// again to another container. Without acks, all records except duplicates are sent again.
func TestAfterAnAckNothingIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, acks := range []string{"on", "off"} {
		t.Run("acks "+acks, func(t *testing.T) {
			t.Parallel()
			died := newBench(t, "ONCEBOX_ACKS="+acks)
			equal(t, "failed", died.do(t, everything()), "") // the answer is lost
			other := newBenchOver(t, died.store, "ONCEBOX_ACKS="+acks)
			equal(t, "failed", other.do(t, everything()), "")
			line := other.line(t)
			if acks == "off" {
				equal(t, "skipped", line["skipped"], any(0.0))
				other.sink.holds(t, died.sink.data...)
				return
			}
			other.sink.holds(t)
			other.deadLetters.holds(t)
			equal(t, "skipped", line["skipped"], any(6.0))
			equal(t, "in", line["in"], any(6.0))
			longer := everything()
			longer.Records = append(longer.Records, record(7, `{"id":"c"}`))
			equal(t, "failed", other.do(t, longer), "")
			other.sink.holds(t, `{"id":"c"}`)
		})
	}
}

// TestFailedAcksDoNotFailTheBatch: its records are done. The log says why acks could not be read or written.
func TestFailedAcksDoNotFailTheBatch(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*faults){
		"read":  func(f *faults) { f.readAcks = errBroken },
		"write": func(f *faults) { f.writeAck = errBroken },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			fault(b.store)
			equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
			line := b.line(t)
			equal(t, "level", line["level"], "WARN")
			equal(t, "reason in the log", line["ack_error"], any("broken"))
			equal(t, "error in the log", line["error"], nil)
			equal(t, "failed", b.do(t, event(`{"id":"a"}`)), "")
			equal(t, "retries", b.line(t)["retry"], any(1.0))
			b.sink.holds(t, `{"id":"a"}`, `{"id":"a"}`)
		})
	}
}

// TestAcksOfAnotherSink: a record that is done for one sink is not done for another.
func TestAcksOfAnotherSink(t *testing.T) {
	t.Parallel()
	one := newBench(t, "ONCEBOX_SINK=kinesis:one")
	equal(t, "failed", one.do(t, event(`{"id":"a"}`)), "")
	two := newBenchOver(t, one.store, "ONCEBOX_SINK=kinesis:two")
	equal(t, "failed", two.do(t, event(`{"id":"a"}`)), "")
	two.sink.holds(t, `{"id":"a"}`)
}
