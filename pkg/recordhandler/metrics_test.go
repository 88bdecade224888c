package recordhandler_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// taking is a clock that moves only during operations that take time.
type taking struct{ spent atomic.Int64 }

func (c *taking) now() time.Time           { return arrival.Add(time.Duration(c.spent.Load())) }
func (c *taking) takes(d time.Duration)    { c.spent.Add(int64(d)) }
func (c *taking) oneByOne(f, g func())     { f(); g() }
func (c *taking) clock() dedupe.Clock      { return dedupe.Clock{Now: c.now, Both: c.oneByOne} }
func (c *taking) slow(m *memory) *slowSink { return &slowSink{m, c} }

// slowSink is a sink whose calls take 7 ms each.
type slowSink struct {
	*memory
	clock *taking
}

func (s *slowSink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	s.clock.takes(7 * time.Millisecond)
	return s.memory.Send(ctx, outputs)
}

// TestMetrics: the metrics of a batch, of one that fails, and of an event that is not a batch. A put takes 3 ms.
func TestMetrics(t *testing.T) {
	t.Parallel()
	clock := &taking{}
	engine, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	store := &faults{engine: engine, put: func(context.Context, dedupe.Entry) error {
		clock.takes(3 * time.Millisecond)
		return nil
	}}
	b := &bench{sink: &memory{}, deadLetters: &memory{}, log: &bytes.Buffer{}}
	parts := dedupe.Parts{Ledger: store, Sink: clock.slow(b.sink), DeadLetters: b.deadLetters}
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused",
	})
	must(t, err)
	o.Metrics, o.Clock = "oncebox/records", clock.clock()
	log := slog.New(slog.NewJSONHandler(b.log, &slog.HandlerOptions{Level: slog.LevelError})) // metrics need no level
	b.Handler, err = recordhandler.New(parts, o, log)
	must(t, err)

	want := func(what string, metrics map[string]float64) {
		t.Helper()
		points := emftest.Points(t, b.log.Bytes())
		b.log.Reset()
		for _, p := range points {
			equal(t, "namespace", p.Namespace, "oncebox/records")
			if p.Name != "OldestRecordAge" {
				equal(t, what+": "+p.Name, p.Value, metrics[p.Name])
			} else if p.Value < 60_000 || p.Value > 600_000 || p.Unit != "Milliseconds" {
				t.Errorf("%s: the oldest record is %v %s old", what, p.Value, p.Unit)
			}
			delete(metrics, p.Name)
		}
		if len(metrics) > 0 {
			t.Errorf("%s: no line has %v", what, metrics)
		}
	}
	equal(t, "failed", b.do(t, event(`{"id":"a","n":1}`, `{"id":"b"}`, `{"id":"a","n":1}`, `{"id":"a","n":2}`, `poison`)), "")
	want("a batch", map[string]float64{
		"RecordsIn": 5, "RecordsNew": 2, "NaturalDuplicates": 1, "SyntheticDuplicates": 1, "DeadLetters": 1,
		"LedgerTime": 9, "SinkTime": 7, "OldestRecordAge": 0, // three entries
	})
	b.sink.fails = `{"id":"d"}`
	equal(t, "failed", b.do(t, event(`{"id":"c"}`, `{"id":"d"}`)), "2")
	want("a batch that fails", map[string]float64{
		"RecordsIn": 2, "RecordsNew": 1, "RecordsFailed": 1, "LedgerTime": 6, "SinkTime": 7, "OldestRecordAge": 0,
	})
	if _, err := b.Handle(t.Context(), []byte(`{}`)); err == nil {
		t.Error("took what is no batch")
	}
	if !strings.Contains(b.log.String(), `"msg":"batch"`) {
		t.Errorf("the log has %s", b.log)
	}
	want("no batch", nil)
}

func TestMetricsSetting(t *testing.T) {
	t.Parallel()
	required := []string{
		"ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused",
		"AWS_LAMBDA_FUNCTION_NAME=records",
	}
	for value, want := range map[string]string{"": "", "off": "", "on": "oncebox/records"} {
		_, s, err := recordhandler.ParseSettings(append(required, "ONCEBOX_METRICS="+value))
		must(t, err)
		equal(t, "namespace with "+value, s.Metrics, want)
	}
	if _, _, err := recordhandler.ParseSettings(append(required, "ONCEBOX_METRICS=1")); err == nil {
		t.Error("took ONCEBOX_METRICS=1")
	}
}
