package recordhandler_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/framing"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// watched is a ledger, a sink and a dead-letter store that store nothing. They measure the live memory in each call.
// The ledger is called for a chunk while the sink has the chunk before.
type watched struct {
	mu          sync.Mutex // guards most
	most        uint64
	sent        int
	deadLetters int
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

// aggregateOf makes a KPL aggregate of small records, up to a size and to the limit of records.
func aggregateOf(bytes int, data func(n int) []byte) []byte {
	var e kpl.Encoder
	for n := range dedupe.MaxOpenedRecords {
		r := kpl.UserRecord{PartitionKey: []byte("k"), Data: data(n)}
		if e.SizeWith(r) > bytes {
			break
		}
		e.Add(r)
	}
	return e.Bytes()
}

// opened is to how much a record opens at most in a function with 1,024 MiB, which the stack gives it.
const opened = 128 << 20

// eventsOf makes a compressed payload of Snowplow with empty events, up to the limit of records, and one event that is
// as large as the limit of bytes allows.
func eventsOf(t testing.TB) []byte {
	t.Helper()
	text := append([]byte{1, 1}, make([]byte, 4*(dedupe.MaxOpenedRecords-1))...)
	last := opened - len(text) - 4
	text = binary.BigEndian.AppendUint32(text, uint32(last))
	return zipped(t, append(text, make([]byte, last)...))
}

func zipped(t testing.TB, text []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write(text)
	must(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

// TestBomb: a payload of a few KB that opens to millions of records is one dead letter, and takes no memory for them.
// The test is not parallel, since it counts the memory that the process takes.
func TestBomb(t *testing.T) {
	empty := zipped(t, append([]byte{1, 1}, make([]byte, 8<<20)...)) // two million empty events
	values := zipped(t, fmt.Appendf(nil, `{"messageType":"DATA_MESSAGE","logEvents":[{}%s]}`, strings.Repeat(",{}", 4<<20)))
	inParts := func() string {
		var e kpl.Encoder
		part := zipped(t, append([]byte{1, 1}, make([]byte, 4*dedupe.MaxOpenedRecords)...)) // each keeps to the limits
		for range 100 {
			e.Add(kpl.UserRecord{PartitionKey: []byte("k"), Data: part})
		}
		return string(e.Bytes())
	}()
	direct, err := json.Marshal(map[string]any{"awslogs": map[string]any{"data": values}})
	must(t, err)
	for name, c := range map[string]struct {
		framing, payload string
		raw              []byte
	}{
		"snowplow":            {"snowplow", string(empty), rawOf(t, event(string(empty)))},
		"snowplow, aggregate": {"snowplow", inParts, rawOf(t, event(inParts))},
		"logs":                {"logs", string(values), rawOf(t, event(string(values)))},
		"logs, directly":      {"one", string(values), direct},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "ONCEBOX_SOURCE_RECORDS="+c.framing)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			equal(t, "failed", b.failed(t, c.raw), "")
			runtime.ReadMemStats(&after)
			b.deadLetters.holds(t, c.payload)
			taken := (after.TotalAlloc - before.TotalAlloc) >> 20
			t.Logf("a payload of %d KB takes %d MiB", len(c.payload)>>10, taken)
			if taken > 150 { // of 1,024 MiB that the function has
				t.Errorf("a payload of %d bytes takes %d MiB", len(c.payload), taken)
			}
		})
	}
}

// TestMemoryIsBounded: the largest events take a bounded amount of memory, whatever their content. A chunk ends only
// between Kinesis records, and two chunks are in memory at a time, so Kinesis records at the limits of package dedupe
// take the most. A payload may be opened while another chunk is measured: then its text is there twice. The stack gives
// the function 1,024 MiB (infra). Go's heap grows to up to twice the live memory. The test is not parallel, because it
// measures the memory of the whole process.
func TestMemoryIsBounded(t *testing.T) {
	testengine.CheckOnly(t)
	small := func(n int) []byte { return fmt.Appendf(nil, `{"id":"%06d"}`, n) }
	aggregates := func(most int, data func(n int) []byte) []byte {
		payload := aggregateOf(2_349_000, data)
		return filled(t, most, func(int) []byte { return payload })
	}
	largest := eventsOf(t)
	for _, c := range []struct {
		name            string
		raw             []byte
		live, allocated uint64 // events at most
	}{
		{"10,000 records", filled(t, 10_000, func(n int) []byte { return fmt.Appendf(nil, `{"id":"%06d","more":"%0100d"}`, n, n) }), 2, 4},
		{"small records in aggregates of 1 MB", filled(t, 4, func(int) []byte { return aggregateOf(1<<20, small) }), 12, 33},
		{"small records", aggregates(3, func(n int) []byte { return fmt.Appendf(nil, `{"id":%d}`, n) }), 22, 40},
		{"small copies", aggregates(4, func(int) []byte { return []byte(`{"id":1}`) }), 20, 40},
		{"small records of one id", aggregates(2, func(n int) []byte { return fmt.Appendf(nil, `{"id":1,"n":%d}`, n) }), 28, 100},
		{"small poison", aggregates(9, func(int) []byte { return nil }), 18, 80},
		{"the most records of the most bytes", filled(t, 4, func(int) []byte { return largest }), 85, 240},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, err := format.NewJSON(format.Options{IDPath: "id"})
			must(t, err)
			w := &watched{}
			h, err := recordhandler.New(dedupe.Parts{Ledger: dedupe.ByKey(w), Sink: w, DeadLetters: w, Acks: w}, recordhandler.Options{
				Format: j, Framing: framing.Snowplow{}, Scope: "s", Retention: dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour},
				PoisonLimit: dedupe.PoisonLimit{Off: true}, OpenedBytes: opened,
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
