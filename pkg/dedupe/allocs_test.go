package dedupe_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// noWork is a ledger, a sink and a dead-letter store that do nothing, so that only the Processor's own allocations
// count.
type noWork struct{ results []dedupe.PutResult }

func (w *noWork) PutIfAbsent(_ context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	return w.results[:len(entries)], nil
}

func (w *noWork) RaisePurge(_ context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return make([]dedupe.RaiseResult, len(raises)), nil
}

func (w *noWork) Put(_ context.Context, all []dedupe.DeadLetter) (int, error) { return len(all), nil }

func (w *noWork) ReadAcks(context.Context, dedupe.AckKey, string, string) ([]dedupe.Ack, error) {
	return nil, nil
}

func (w *noWork) WriteAck(context.Context, dedupe.AckKey, dedupe.Ack) error { return nil }

// mostAllocs limits the allocations for a new record, from its bytes to the sink, if the id and the fingerprint are
// found by path. They are the texts of these two. Everything else is allocated once for a chunk.
const mostAllocs = 2.2

func TestAllocationsPerRecord(t *testing.T) {
	const n = 500
	j, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	if err != nil {
		t.Fatal(err)
	}
	nothing := &noWork{make([]dedupe.PutResult, n)}
	settings := dedupe.Settings{Scope: "s", Sink: "s", Retention: dedupe.Retention{Window: time.Hour, Horizon: time.Hour}}
	sink := dedupe.SinkFunc(func(context.Context, dedupe.Output) error { return nil })
	p, err := dedupe.NewProcessor(
		dedupe.Parts{Ledger: dedupe.ByKey(nothing), Format: j, Sink: sink, DeadLetters: nothing, Acks: nothing}, settings)
	if err != nil {
		t.Fatal(err)
	}
	batch := dedupe.Batch{Shard: "shardId-000000000000"}
	for i := range n {
		batch.Records = append(batch.Records, dedupe.Record{
			Sequence: fmt.Sprint(i), PartitionKey: "pk", Arrival: time.Unix(1, 0),
			Data: fmt.Appendf(nil, `{"id":"id-%d","fp":"fp-%d"}`, i, i),
		})
	}
	perBatch := testing.AllocsPerRun(20, func() {
		if r := p.Process(t.Context(), batch); r.Tally.New != n {
			t.Fatalf("unexpected result %+v", r)
		}
	})
	t.Logf("%.2f allocations a record", perBatch/n)
	if perBatch/n > mostAllocs {
		t.Errorf("%.2f allocations a record, want at most %.1f", perBatch/n, mostAllocs)
	}
}
