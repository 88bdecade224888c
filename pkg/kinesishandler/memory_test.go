package kinesishandler_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// watched is a ledger, a sink and a dead-letter store that store nothing. They measure the live memory in each call.
// The ledger is called for a chunk while the sink has the chunk before.
type watched struct {
	mu          sync.Mutex // guards most
	most        uint64
	sent        int
	deadLetters int
}

func (w *watched) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	return dedupe.EnterByKey(ctx, w, q), nil
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

func (w *watched) ReadAcks(context.Context, dedupe.AckKey, string, string) ([]dedupe.Ack, error) {
	return nil, nil
}

func (w *watched) WriteAck(context.Context, dedupe.AckKey, dedupe.Ack) error {
	w.look()
	return nil
}

func (w *watched) Check(context.Context, dedupe.Output) error { return nil }

func (w *watched) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	w.look()
	w.sent += len(outputs)
	return dedupe.Sent{}, nil
}

func (w *watched) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	if before := w.deadLetters; before/200_000 < (before+len(letters))/200_000 || before == 0 {
		w.look()
	}
	w.deadLetters += len(letters)
	return len(letters), nil
}

// look measures the live memory.
func (w *watched) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.most = max(w.most, live())
}

func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// maxEvent is the size of the largest event (Developer Guide, "Lambda quotas", "Invocation payload").
const maxEvent = 6 << 20

// filled makes an event with as many records as fit.
func filled(t testing.TB, most int, data func(n int) []byte) []byte {
	t.Helper()
	one := len(rawOf(t, event(string(data(1_000_000))))) + 12 // larger sequence numbers, a comma
	var all []events.KinesisEventRecord
	for n := range min(most, maxEvent/one) {
		all = append(all, record(n+1, string(data(n))))
	}
	raw := rawOf(t, events.KinesisEvent{Records: all})
	if len(raw) > maxEvent {
		t.Fatalf("the event has %d bytes", len(raw))
	}
	return raw
}

// aggregateOf makes a KPL aggregate of small records, up to a size.
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

// TestMemoryIsBounded: the largest events take a bounded amount of memory, whatever their content. A chunk ends only
// between Kinesis records, and two chunks are in memory at a time, so aggregates of the smallest records take the
// most: 310 MB live. The stack gives the function 1,024 MiB (infra). Go's heap grows to up to twice the live memory:
// with these events a process took up to 490 MiB. The test is not parallel, because it measures the memory of the
// whole process.
func TestMemoryIsBounded(t *testing.T) {
	testengine.CheckOnly(t)
	small := func(n int) []byte { return fmt.Appendf(nil, `{"id":"%06d"}`, n) }
	one := func(data func(n int) []byte) []byte {
		return filled(t, 1, func(int) []byte { return aggregateOf(4_700_000, data) })
	}
	two := func(data func(n int) []byte) []byte {
		return filled(t, 2, func(int) []byte { return aggregateOf(2_349_000, data) })
	}
	for _, c := range []struct {
		name            string
		raw             []byte
		live, allocated uint64 // events at most
	}{
		{"10,000 records", filled(t, 10_000, func(n int) []byte { return fmt.Appendf(nil, `{"id":"%06d","more":"%0100d"}`, n, n) }), 2, 4},
		{"small records in aggregates of 1 MB", filled(t, 4, func(int) []byte { return aggregateOf(1<<20, small) }), 13, 36},
		{"small records in one aggregate", one(func(n int) []byte { return fmt.Appendf(nil, `{"id":%d}`, n) }), 45, 60},
		{"small copies in one aggregate", one(func(int) []byte { return []byte(`{"id":1}`) }), 52, 75},
		{"small records of one id in one aggregate", one(func(n int) []byte { return fmt.Appendf(nil, `{"id":1,"n":%d}`, n) }), 40, 115},
		{"small poison in one aggregate", one(func(int) []byte { return nil }), 52, 120},
		// The second aggregate is decided while the first one is delivered.
		{"small copies in two aggregates", two(func(int) []byte { return []byte(`{"id":1}`) }), 52, 75},
		{"small poison in two aggregates", two(func(int) []byte { return nil }), 55, 120},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := format.NewJSON(format.Options{IDPath: "id"})
			must(t, err)
			w := &watched{}
			h, err := kinesishandler.New(dedupe.Parts{Ledger: w, Sink: w, DeadLetters: w, Acks: w}, kinesishandler.Options{
				Format: j, Scope: "s", Retention: dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour},
				PoisonLimit: dedupe.PoisonLimit{Off: true},
			}, slog.New(slog.DiscardHandler))
			must(t, err)
			live() // the second collection frees what the first one has left
			before := live()
			var begin, end runtime.MemStats
			runtime.ReadMemStats(&begin)
			answer, err := h.Handle(t.Context(), c.raw)
			must(t, err)
			runtime.ReadMemStats(&end)
			equal(t, "failed", len(answer.BatchItemFailures), 0)
			runtime.KeepAlive(c.raw)
			most, allocated := w.most-before, end.TotalAlloc-begin.TotalAlloc
			t.Logf("an event of %d bytes, %d records sent, %d dead letters: %d bytes live, %d allocated", len(c.raw), w.sent,
				w.deadLetters, most, allocated)
			if most > c.live*maxEvent || allocated > c.allocated*maxEvent {
				t.Errorf("%d bytes were live and %d allocated, want at most %d and %d", most, allocated, c.live*maxEvent,
					c.allocated*maxEvent)
			}
		})
	}
}
