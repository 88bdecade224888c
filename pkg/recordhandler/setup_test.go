package recordhandler_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// bench is a handler with a real ledger, a sink and a dead-letter store in memory, and the faults that a test sets.
type bench struct {
	*recordhandler.Handler
	store       *faults
	sink        *memory
	deadLetters *memory
	log         *bytes.Buffer
}

// newBench makes a handler with more settings than the required ones. The id of its records is at "id".
func newBench(t testing.TB, environ ...string) *bench {
	t.Helper()
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return newBenchOver(t, &faults{engine: store}, environ...)
}

// newBenchOver makes a handler over a store that other handlers may have used.
func newBenchOver(t testing.TB, store *faults, environ ...string) *bench {
	t.Helper()
	o, err := recordhandler.ParseOptions(append([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused",
	}, environ...))
	must(t, err)
	o.Clock.Now = store.now
	o.Clock.Pause = func(context.Context, time.Duration) error { return errBroken } // a ledger is asked once
	b := &bench{store: store, sink: &memory{}, deadLetters: &memory{}, log: &bytes.Buffer{}}
	parts := dedupe.Parts{Ledger: b.store, Sink: b.sink, DeadLetters: b.deadLetters, Acks: b.store, Consumers: b.store}
	b.Handler, err = recordhandler.New(parts, o, slog.New(slog.NewJSONHandler(b.log, nil)))
	must(t, err)
	return b
}

// engine is a store with one row for each key.
type engine interface {
	recordhandler.Store
	dedupe.Entries
	dedupe.Holds
}

// faults is a store between the handler and the engine. A nil field means no fault.
type faults struct {
	engine
	ahead    time.Duration       // of all clocks
	scope    func(string) string // changes the scope of the entries
	put      func(ctx context.Context, e dedupe.Entry) error
	warm     func(ctx context.Context, scope string, r dedupe.Retention) error
	claim    error
	readAcks error
	writeAck error
}

func (f *faults) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	if f.scope != nil {
		q.Scope = f.scope(q.Scope)
	}
	return dedupe.ByKey(f).Enter(ctx, q)
}

func (f *faults) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	for i, e := range entries {
		if f.put != nil {
			if results[i].Err = f.put(ctx, e); results[i].Err != nil {
				continue
			}
		}
		put, err := f.engine.PutIfAbsent(ctx, []dedupe.Entry{e})
		if err != nil {
			return nil, err
		}
		results[i] = put[0]
		results[i].Date = f.now()
	}
	return results, nil
}

func (f *faults) now() time.Time { return time.Now().Add(f.ahead) }

func (f *faults) ServerTime(context.Context, string) (time.Time, error) { return f.now(), nil }

func (f *faults) Finish(ctx context.Context, requests []dedupe.FinishRequest) ([]dedupe.FinishResult, error) {
	if f.scope != nil {
		requests = slices.Clone(requests)
		for i := range requests {
			requests[i].Scope = f.scope(requests[i].Scope)
		}
	}
	return f.engine.Finish(ctx, requests)
}

// afterTheLease lets so much time pass that messages that are not done can be taken over.
func (f *faults) afterTheLease() { f.ahead += time.Hour }

func (f *faults) Warm(ctx context.Context, scope string, r dedupe.Retention) error {
	if f.warm == nil {
		return nil
	}
	return f.warm(ctx, scope, r)
}

func (f *faults) ClaimConsumer(ctx context.Context, scope string, s dedupe.Stream, function string) (string, error) {
	if f.claim != nil {
		return "", f.claim
	}
	return f.engine.ClaimConsumer(ctx, scope, s, function)
}

func (f *faults) ReadAcks(ctx context.Context, key dedupe.AckKey, first, last string) ([]dedupe.Ack, error) {
	if f.readAcks != nil {
		return nil, f.readAcks
	}
	return f.engine.ReadAcks(ctx, key, first, last)
}

func (f *faults) WriteAck(ctx context.Context, key dedupe.AckKey, a dedupe.Ack) error {
	if f.writeAck != nil {
		return f.writeAck
	}
	return f.engine.WriteAck(ctx, key, a)
}

// memory is a sink or a dead-letter store.
type memory struct {
	mu    sync.Mutex
	data  []string
	keys  []string // partition keys of the outputs
	err   error
	fails string // the data of the one record that fails

	refuses  string      // the sink refuses records that have this text; "": none
	arrivals []time.Time // of dead letters
}

func (m *memory) Check(context.Context, dedupe.Output) error { return nil }

// Send delivers all records except those that fail, or that it refuses.
func (m *memory) Send(_ context.Context, outputs []dedupe.Output) (sent dedupe.Sent, err error) {
	sent.Delivered = make([]bool, len(outputs))
	sent.Refused = make([]*dedupe.PoisonError, len(outputs))
	for i, o := range outputs {
		m.addKey(o.PartitionKey)
		if m.refuses != "" && strings.Contains(string(o.Data), m.refuses) {
			sent.Refused[i] = &dedupe.PoisonError{Reason: "refused"}
			continue
		}
		failed := m.add(o.Data)
		sent.Delivered[i] = failed == nil
		err = cmp.Or(err, failed)
	}
	return sent, err
}

func (m *memory) addKey(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = append(m.keys, key)
}

// Put stores a record once, as dead-letter stores do.
func (m *memory) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	for i, l := range letters {
		if slices.Contains(m.data, string(l.Data)) {
			continue
		}
		if err := m.add(l.Data); err != nil {
			return i, err
		}
		m.arrivals = append(m.arrivals, l.Arrival)
	}
	return len(letters), nil
}

func (m *memory) add(data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	if string(data) == m.fails {
		return errBroken
	}
	m.data = append(m.data, string(data))
	return nil
}

const (
	clicks = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
	shard0 = "shardId-000000000000"
)

var errBroken = errors.New("broken")

// arrival is the arrival of all records.
var arrival = time.Now().Add(-time.Minute).Truncate(time.Millisecond)

// event makes an event of a shard. Its records 1, 2 and so on have the data.
func event(data ...string) events.KinesisEvent {
	e := events.KinesisEvent{Records: []events.KinesisEventRecord{}}
	for i, d := range data {
		e.Records = append(e.Records, record(i+1, d))
	}
	return e
}

func record(n int, data string) events.KinesisEventRecord {
	return events.KinesisEventRecord{
		EventSource: "aws:kinesis", EventSourceArn: clicks, EventID: fmt.Sprintf("%s:%d", shard0, n),
		Kinesis: events.KinesisRecord{
			SequenceNumber: fmt.Sprint(n), PartitionKey: "pk", Data: []byte(data),
			ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: arrival},
		},
	}
}

func rawOf(t testing.TB, e events.KinesisEvent) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(e)
	must(t, err)
	return raw
}

// fails handles an event, which must fail completely with an error of all these families. It returns the error's
// text.
func (b *bench) fails(t testing.TB, e events.KinesisEvent, families ...error) string {
	t.Helper()
	answer, err := b.Handle(t.Context(), rawOf(t, e))
	for _, family := range families {
		if !errors.Is(err, family) || answer.BatchItemFailures != nil {
			t.Fatalf("want the error %v, got %v and the answer %+v", family, err, answer)
		}
	}
	return err.Error()
}

// do handles an event and returns the failed sequence number.
func (b *bench) do(t testing.TB, e events.KinesisEvent) (failed string) {
	t.Helper()
	answer, err := b.Handle(t.Context(), rawOf(t, e))
	must(t, err)
	if answer.BatchItemFailures == nil || len(answer.BatchItemFailures) > 1 {
		t.Fatalf("the answer is %+v", answer)
	}
	for _, failure := range answer.BatchItemFailures {
		failed = failure.ItemIdentifier
	}
	return failed
}

// lines returns the log so far, and empties it.
func (b *bench) lines(t testing.TB) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(b.log.String()) {
		var line map[string]any
		must(t, json.Unmarshal([]byte(text), &line))
		lines = append(lines, line)
	}
	b.log.Reset()
	return lines
}

// line returns the only line of the log.
func (b *bench) line(t testing.TB) map[string]any {
	t.Helper()
	lines := b.lines(t)
	if len(lines) != 1 {
		t.Fatalf("want one line of log, got %v", lines)
	}
	return lines[0]
}

func (m *memory) holds(t testing.TB, want ...string) {
	t.Helper()
	if strings.Join(m.data, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", m.data, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
