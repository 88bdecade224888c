package dynamosink

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/faultproxy"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
)

// TestWire breaks each request of a function between the SDK and the engine, in every way. Each effect happens once,
// no record is lost, and no record becomes a dead letter.
func TestWire(t *testing.T) {
	t.Parallel()
	endpoint := testengine.Dynoxide(t)
	d := newDB(t, endpoint)
	operations := wirePlay(t, d, endpoint, "none", func(int, string) faultproxy.Fault { return faultproxy.None })
	for at, operation := range operations {
		for _, fault := range faultproxy.Of(operation) {
			name := fmt.Sprintf("%d-%s-%s", at, operation, fault)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				wirePlay(t, d, endpoint, name, func(n int, _ string) faultproxy.Fault {
					if n == at {
						return fault
					}
					return faultproxy.None
				})
			})
		}
	}
}

// wirePlay processes a batch until it is done: a new record, a copy, another record with the same id, and a record
// whose entry was put with another sink.
func wirePlay(t *testing.T, d db, endpoint, scope string, plan func(int, string) faultproxy.Fault) []string {
	t.Helper()
	proxy := faultproxy.New(t, endpoint, plan)
	target := counts(t, d, clientOf(proxy.URL))
	reader, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	must(t, err)
	var letters deadLetters
	p, err := dedupe.NewProcessor(dedupe.Parts{Tx: target.Sink, Format: reader, DeadLetters: &letters}, dedupe.Settings{
		Scope: scope, Retention: dedupe.Retention{ForGood: true}, Transactions: 1,
		Clock: dedupe.Clock{Each: func(n, _ int, f func(int)) {
			for i := range n {
				f(i)
			}
		}},
	})
	must(t, err)
	id := func(name string) string { return scope + "-" + name }
	var batch dedupe.Batch
	batch.Stream, batch.Shard = dedupe.Stream{Account: "1", Region: "r", Name: "s"}, "shard"
	for i, of := range [][2]string{{"a", "x"}, {"a", "x"}, {"a", "y"}, {"b", "x"}} {
		batch.Records = append(batch.Records, dedupe.Record{
			Sequence: fmt.Sprint(i + 1), PartitionKey: "pk", Arrival: time.Unix(2_000_000_000, 0),
			Data: fmt.Appendf(nil, `{"id":%q,"fp":%q}`, id(of[0]), of[1]),
		})
	}
	owner := dedupe.Position{Stream: batch.Stream, Shard: batch.Shard, Sequence: "4", Sub: dedupe.Plain}.Owner()
	put, err := dynamostore.New(d.client, d.entries).PutIfAbsent(t.Context(), []dedupe.Entry{{
		Scope: scope, Key: format.KeyOf(id("b")), Owner: owner, Fingerprint: "x", Arrival: time.Unix(2_000_000_000, 0),
	}})
	must(t, err)
	must(t, put[0].Err)
	for range 2 {
		var r dedupe.Result
		for range 5 {
			if r = p.Process(t.Context(), batch); r.Err == nil {
				break
			}
		}
		must(t, r.Err)
	}
	for _, name := range []string{id("a"), format.DerivedID(id("a"), "y"), id("b")} {
		if n := target.Effects(t, name); n != 1 {
			t.Errorf("the effect of %s has happened %d times", name, n)
		}
	}
	if len(letters) > 0 {
		t.Errorf("dead letters: %+v", letters)
	}
	return proxy.Operations()
}

type deadLetters []dedupe.DeadLetter

func (l *deadLetters) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	*l = append(*l, letters...)
	return len(letters), nil
}
