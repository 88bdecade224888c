package kinesishandler_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// watched is a ledger, a sink and a failure store that keep nothing, and look at the
// memory that lives while they are called.
type watched struct {
	most uint64
	sent int
	kept int
}

func (w *watched) PutIfAbsent(_ context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	w.look()
	return make([]dedupe.PutResult, len(entries)), nil
}

func (w *watched) RaisePurge(_ context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	w.look()
	results := make([]dedupe.RaiseResult, len(raises))
	for i := range results {
		results[i].Raised = true
	}
	return results, nil
}

func (w *watched) ReadCheckpoint(context.Context, dedupe.CheckpointKey) (*dedupe.Checkpoint, error) {
	return nil, nil
}

func (w *watched) AdvanceCheckpoint(context.Context, dedupe.CheckpointKey, dedupe.Checkpoint) error {
	return nil
}

func (w *watched) Check(dedupe.Output) error { return nil }

func (w *watched) Send(_ context.Context, outputs []dedupe.Output) (int, error) {
	w.look()
	w.sent += len(outputs)
	return len(outputs), nil
}

func (w *watched) Put(_ context.Context, failures []dedupe.DeadLetter) (int, error) {
	if before := w.kept; before/200_000 < (before+len(failures))/200_000 || before == 0 {
		w.look()
	}
	w.kept += len(failures)
	return len(failures), nil
}

// look notes what is alive.
func (w *watched) look() { w.most = max(w.most, live()) }

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// mostEvent is the most bytes of an event (Developer Guide, "Lambda quotas",
// "Invocation payload").
const mostEvent = 6 << 20

// filled makes an event of records that are alike, as many as fit.
func filled(t testing.TB, most int, data func(n int) []byte) []byte {
	t.Helper()
	one := len(rawOf(t, event(string(data(1_000_000))))) + 12 // larger sequence numbers, a comma
	var all []events.KinesisEventRecord
	for n := range min(most, mostEvent/one) {
		all = append(all, record(n+1, string(data(n))))
	}
	raw := rawOf(t, events.KinesisEvent{Records: all})
	if len(raw) > mostEvent {
		t.Fatalf("the event has %d bytes", len(raw))
	}
	return raw
}

// aggregateOf makes a KPL aggregate of so many bytes of small records.
func aggregateOf(bytes int, data func(n int) []byte) []byte {
	var e kpl.Encoder
	for n := 0; ; n++ {
		r := kpl.UserRecord{PartitionKey: []byte("k"), Data: data(n)}
		if e.SizeWith(r) > bytes {
			return e.Bytes()
		}
		e.Add(r)
	}
}

// TestMemoryIsBounded: whatever the largest batch holds, in events of the largest size.
// A chunk ends only between Kinesis records, so an aggregate of records as small as
// can be takes the most; the stack gives the function 1,024 MiB (infra). Go's heap grows
// to twice of what lives: with the most that is here a process took 550 MiB. Not
// parallel: it looks at the memory of the whole process.
func TestMemoryIsBounded(t *testing.T) {
	small := func(n int) []byte { return fmt.Appendf(nil, `{"id":"%06d"}`, n) }
	one := func(data func(n int) []byte) []byte {
		return filled(t, 1, func(int) []byte { return aggregateOf(4_700_000, data) })
	}
	for _, c := range []struct {
		name            string
		raw             []byte
		live, allocated uint64 // events at most
	}{
		{"10,000 records", filled(t, 10_000, func(n int) []byte { return fmt.Appendf(nil, `{"id":"%06d","more":"%0100d"}`, n, n) }), 2, 4},
		{"small records in aggregates of 1 MB", filled(t, 4, func(int) []byte { return aggregateOf(1<<20, small) }), 10, 36},
		{"small records in one aggregate", one(func(n int) []byte { return fmt.Appendf(nil, `{"id":%d}`, n) }), 45, 60},
		{"small copies in one aggregate", one(func(int) []byte { return []byte(`{"id":1}`) }), 52, 75},
		{"small records of one id in one aggregate", one(func(n int) []byte { return fmt.Appendf(nil, `{"id":1,"n":%d}`, n) }), 40, 115},
		{"small poison in one aggregate", one(func(int) []byte { return nil }), 52, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := format.NewJSON(format.Options{IDPath: "id"})
			must(t, err)
			w := &watched{}
			h := kinesishandler.New(w, w, w, kinesishandler.Options{Format: j, Scope: "s"}, slog.New(slog.DiscardHandler))
			live() // what the first collection leaves to the second
			before := live()
			var begin, end runtime.MemStats
			runtime.ReadMemStats(&begin)
			answer, err := h.Handle(t.Context(), c.raw)
			must(t, err)
			runtime.ReadMemStats(&end)
			equal(t, "failed", len(answer.BatchItemFailures), 0)
			runtime.KeepAlive(c.raw)
			most, allocated := w.most-before, end.TotalAlloc-begin.TotalAlloc
			t.Logf("an event of %d bytes, %d records sent, %d kept: %d bytes live, %d allocated", len(c.raw), w.sent, w.kept, most, allocated)
			if most > c.live*mostEvent || allocated > c.allocated*mostEvent {
				t.Errorf("%d bytes were live and %d allocated, want at most %d and %d", most, allocated, c.live*mostEvent, c.allocated*mostEvent)
			}
		})
	}
}
