package kinesishandler_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/eventsource"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// consume gives all records of a stream to a function, through a new mapping.
func consume(t *testing.T, stream *eventsource.Stream, sim *eventsource.Sim, h *kinesishandler.Handler) {
	t.Helper()
	p, err := sim.Start(eventsource.Mapping{
		Client: stream, StreamARN: clicks, BatchSize: 2, ReportBatchItemFailures: true, RecordAge: time.Minute,
		Function: eventsource.Handler(h.Handle),
	})
	must(t, err)
	must(t, sim.Drain(time.Hour))
	p.Stop()
}

// TestReplayOnPurpose: with a new scope, a new mapping delivers everything that the source still has once more, under
// the same ids. With the old scope it delivers nothing. (docs/operations.md, "Replay on purpose")
func TestReplayOnPurpose(t *testing.T) {
	t.Parallel()
	sim := eventsource.NewSim(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 1)
	defer sim.Close()
	stream := eventsource.NewStream(1, sim.Now)
	for _, data := range []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":"a"}`, `{"id":"b","n":1}`, `{"id":"c"}`} {
		stream.Put("key", []byte(data))
	}
	settings := []string{"ONCEBOX_CHECKPOINT=on", "AWS_LAMBDA_FUNCTION_NAME=dedupe"}
	first := newBench(t, append(settings, "ONCEBOX_SCOPE=orders")...)
	consume(t, stream, sim, first.Handler)
	equal(t, "records sent", len(first.sink.data), 4)

	again := newBench(t, append(settings, "ONCEBOX_SCOPE=orders")...)
	again.store.Store = first.store.Store
	consume(t, stream, sim, again.Handler)
	again.sink.holds(t)
	for _, line := range again.lines(t) {
		equal(t, "skipped", line["skipped"], line["in"])
	}

	replay := newBench(t, append(settings, "ONCEBOX_SCOPE=replay-1")...)
	replay.store.Store = first.store.Store
	consume(t, stream, sim, replay.Handler)
	replay.sink.holds(t, first.sink.data...)
	for _, line := range replay.lines(t) {
		equal(t, "skipped", line["skipped"], any(0.0))
	}
	consume(t, stream, sim, again.Handler) // the replay does not change the old scope
	again.sink.holds(t)
}

// TestReplayOfAPart: in a replay, the first record with an id that the source still has keeps that id, also if it had a
// derived id before. (docs/operations.md, "Replay on purpose")
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

// TestAnotherFunctionLosesNothing: a function that finds the checkpoint of another function fails its batches until
// Lambda gives them up. It skips no record.
func TestAnotherFunctionLosesNothing(t *testing.T) {
	t.Parallel()
	sim := eventsource.NewSim(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), 1)
	defer sim.Close()
	stream := eventsource.NewStream(1, sim.Now)
	stream.Put("key", []byte(`{"id":"a"}`))
	first := newBench(t, "ONCEBOX_CHECKPOINT=on", "AWS_LAMBDA_FUNCTION_NAME=first")
	consume(t, stream, sim, first.Handler)
	stream.Put("key", []byte(`{"id":"b"}`))
	second := newBench(t, "ONCEBOX_CHECKPOINT=on", "AWS_LAMBDA_FUNCTION_NAME=second")
	second.store.Store = first.store.Store
	var given []string
	p, err := sim.Start(eventsource.Mapping{
		Client: stream, StreamARN: clicks, ReportBatchItemFailures: true, Retries: new(1), Function: eventsource.Handler(second.Handle),
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
}
