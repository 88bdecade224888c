package kinesishandler_test

import (
	"bytes"
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
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// bench is a handler over a real ledger, with a sink and a dead-letter store in memory, and the faults that a test asks
// for.
type bench struct {
	*kinesishandler.Handler
	store       *faults
	sink        *memory
	deadLetters *memory
	log         *bytes.Buffer
}

// newBench makes a handler with more settings than the required ones. The id of its records is at "id".
func newBench(t testing.TB, environ ...string) *bench {
	t.Helper()
	o, err := kinesishandler.ParseOptions(append([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused",
	}, environ...))
	must(t, err)
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	b := &bench{store: &faults{Store: store}, sink: &memory{}, deadLetters: &memory{}, log: &bytes.Buffer{}}
	b.Handler = kinesishandler.New(b.store, b.sink, b.deadLetters, o, slog.New(slog.NewJSONHandler(b.log, nil)))
	return b
}

// faults is a ledger between the handler and the engine. A nil field is no fault.
type faults struct {
	dedupe.Store
	put func(ctx context.Context, entries []dedupe.Entry) error
}

func (f *faults) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	if f.put != nil {
		if err := f.put(ctx, entries); err != nil {
			return nil, err
		}
	}
	return f.Store.PutIfAbsent(ctx, entries)
}

// memory is a sink or a dead-letter store.
type memory struct {
	mu   sync.Mutex
	data []string
	err  error
}

func (m *memory) Check(dedupe.Output) error { return nil }

func (m *memory) Send(_ context.Context, outputs []dedupe.Output) (int, error) {
	for i, o := range outputs {
		if err := m.add(o.Data); err != nil {
			return i, err
		}
	}
	return len(outputs), nil
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
	}
	return len(letters), nil
}

func (m *memory) add(data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return m.err
	}
	m.data = append(m.data, string(data))
	return nil
}

const (
	clicks = "arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"
	shard0 = "shardId-000000000000"
)

var errBroken = errors.New("broken")

// event makes an event of a shard, with the data as records 1, 2 and so on.
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
			ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: time.UnixMilli(1_795_176_000_123)},
		},
	}
}

func rawOf(t testing.TB, e events.KinesisEvent) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(e)
	must(t, err)
	return raw
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
