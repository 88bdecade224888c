package recordhandler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/recordhandler/full"
)

// newLogBench is newBench over a log ledger, without acks.
func newLogBench(t *testing.T, log *memlog.Log, o logledger.Options) *bench {
	t.Helper()
	ledger, err := logledger.New(log, o)
	must(t, err)
	options, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused", "ONCEBOX_LEDGER=log",
	})
	must(t, err)
	options.Chunk = 10
	options.Clock.Pause = func(context.Context, time.Duration) error {
		t.Error("the ledger was asked again")
		return errBroken
	}
	b := &bench{sink: &memory{}, deadLetters: &memory{}, log: &bytes.Buffer{}}
	parts := dedupe.Parts{Ledger: ledger, Sink: b.sink, DeadLetters: b.deadLetters}
	b.Handler, err = recordhandler.New(parts, options, slog.New(slog.NewJSONHandler(b.log, nil)))
	must(t, err)
	return b
}

func records(n int) (data []string) {
	for i := range n {
		data = append(data, fmt.Sprintf(`{"id":"%d"}`, i))
	}
	return data
}

// TestLogLedger: the records of a batch are appended together, with one item for each lane, and sent in chunks. The
// log line has the ledger's work for this batch.
func TestLogLedger(t *testing.T) {
	t.Parallel()
	b := newLogBench(t, memlog.New(), logledger.Options{Lanes: 2, Memory: 16 << 20})
	for _, want := range []map[string]any{
		{"in": 100., "new": 100., "ledger_appends": 2., "ledger_units": 4., "ledger_lane_units": 2., "ledger_loads": 2.},
		{"in": 100., "retry": 100., "ledger_appends": 0., "ledger_units": 0., "ledger_lane_units": 0., "ledger_loads": 0.},
	} {
		equal(t, "failed", b.do(t, event(records(100)...)), "")
		line := b.line(t)
		want["ledger_memory_limit"], want["ledger_memory_share"] = float64(16<<20), (31*100+88*2.)/(16<<20)
		want["ledger_conflicts"], want["level"] = 0., "INFO"
		for name, value := range want {
			equal(t, name, line[name], value)
		}
	}
}

// TestLogLedgerIsFull: a batch whose entries have no room fails with the numbers. None of its records is
// dead-lettered. With more memory the batch succeeds.
func TestLogLedgerIsFull(t *testing.T) {
	t.Parallel()
	log := memlog.New()
	batch := event(records(5000)...)
	b := newLogBench(t, log, logledger.Options{Lanes: 1, Memory: 100_000})
	var full *logledger.MemoryError
	_, err := b.Handle(t.Context(), rawOf(t, batch))
	if !errors.Is(err, recordhandler.ErrNoProgress) || !errors.As(err, &full) || full.More != 5000 {
		t.Errorf("got %v", err)
	}
	line := b.line(t)
	if line["level"] != "ERROR" || !strings.Contains(fmt.Sprint(line["error"]), "5000 more do not fit") ||
		line["ledger_memory_share"] != 1.55088 || line["failed"] != 5000. || line["dead_lettered"] != 0. {
		t.Errorf("the log has %v", line)
	}
	b.sink.holds(t)
	b.deadLetters.holds(t)
	more := newLogBench(t, log, logledger.Options{Lanes: 1})
	equal(t, "failed", more.do(t, batch), "")
	equal(t, "sent", len(more.sink.data), 5000)
}

// TestNewStore: the Store has the ledger of the options, and stores acks and consumers in the table.
func TestNewStore(t *testing.T) {
	t.Parallel()
	for kind, environ := range map[string][]string{
		"*dynamostore.Store": nil, "*logledger.Ledger": {"ONCEBOX_LEDGER=log"}, "*valkeystore.Ledger": {"ONCEBOX_LEDGER=valkey://cache:6379"},
	} {
		_, o, err := recordhandler.ParseSettings(with(environ...))
		must(t, err)
		o.Clients = full.Clients
		store, err := recordhandler.NewStore(t.Context(), sdkconfig.Load, nil, "entries", o)
		must(t, err)
		stores, several := store.(recordhandler.Stores)
		if !several {
			stores.Ledger, stores.Acks, stores.Consumers = store, store, store
		}
		const table = "*dynamostore.Store"
		equal(t, "engines of "+kind, fmt.Sprintf("%T %T %T", stores.Ledger, stores.Acks, stores.Consumers), kind+" "+table+" "+table)
	}
	_, err := recordhandler.NewStore(t.Context(), sdkconfig.Load, nil, "entries", recordhandler.Options{Ledger: recordhandler.LedgerSetting{Log: true, Lanes: -1}})
	if err == nil {
		t.Error("-1 lanes were taken")
	}
}

// TestOpenWithAnotherLedger: Open refuses a store whose ledger is not the one of the options.
func TestOpenWithAnotherLedger(t *testing.T) {
	t.Parallel()
	o, err := recordhandler.ParseOptions(with("ONCEBOX_LEDGER=log"))
	must(t, err)
	_, err = recordhandler.Open(t.Context(), sdkconfig.Load, dynamostore.New(nil, "entries"), o, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "make the Store with NewStore") {
		t.Errorf("got %v", err)
	}
}

// TestAnotherLedgerInTheScope: if a stream was read with another ledger, the function fails its batches and sends
// nothing. In a new scope it works.
func TestAnotherLedgerInTheScope(t *testing.T) {
	t.Parallel()
	client, table := dedupeTable(t)
	raw := rawOf(t, event(`{"id":"a"}`, `{"id":"b"}`))
	for _, c := range []struct {
		scope, ledger string
		want          error
	}{
		{"one", "keys", nil}, {"one", "log", dedupe.ErrOtherLedger}, {"one", "keys", nil},
		{"two", "log", nil}, {"two", "keys", dedupe.ErrOtherLedger}, {"two", "log", nil},
	} {
		_, o, err := recordhandler.ParseSettings(with("ONCEBOX_SCOPE="+c.scope, "ONCEBOX_LEDGER="+c.ledger, "ONCEBOX_ID_PATH=id"))
		must(t, err)
		store, err := recordhandler.NewStore(t.Context(), sdkconfig.Load, client, table, o)
		must(t, err)
		sink := &memory{}
		parts := dedupe.Parts{Ledger: store, Sink: sink, DeadLetters: noLetters{}, Consumers: store}
		h, err := recordhandler.New(parts, o, slog.New(slog.DiscardHandler))
		must(t, err)
		_, err = h.Handle(t.Context(), raw)
		if !errors.Is(err, c.want) || c.want != nil && !strings.Contains(err.Error(), "and is "+c.ledger) {
			t.Errorf("%s, %s: want %v, got %v", c.scope, c.ledger, c.want, err)
		}
		if sent := len(sink.data); (sent == 0) != (c.want != nil) {
			t.Errorf("%s, %s: %d records were sent", c.scope, c.ledger, sent)
		}
	}
}
