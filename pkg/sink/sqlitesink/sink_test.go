package sqlitesink_test

import (
	"bytes"
	"context"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
	"github.com/oncebox/oncebox/pkg/sink/sqlitesink"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *sqlitestore.Store {
	t.Helper()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "store.db"))
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

// number runs a query that returns one number.
func number(t testing.TB, store *sqlitestore.Store, query string, args ...any) (n int) {
	t.Helper()
	must(t, store.Do(context.Background(), "test", func(ctx context.Context, tx sqlitestore.Tx) error {
		return tx.QueryRowContext(ctx, query, args...).Scan(&n)
	}))
	return n
}

// counting counts effects with SQL of the caller.
func counting(t testing.TB) sinktest.TxTarget {
	store := open(t)
	must(t, store.Do(t.Context(), "test", func(ctx context.Context, tx sqlitestore.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE effect (id TEXT NOT NULL PRIMARY KEY, n INTEGER NOT NULL)`)
		return err
	}))
	effect := func(ctx context.Context, tx sqlitestore.Tx, o dedupe.Output) (bool, error) {
		_, err := tx.ExecContext(ctx, `INSERT INTO effect VALUES (?, 1) ON CONFLICT DO UPDATE SET n = n + 1`, o.ID)
		switch {
		case bytes.Contains(o.Data, []byte("refused")):
			return false, &dedupe.PoisonError{Reason: "refused"}
		case bytes.Contains(o.Data, []byte("panics")):
			panic("oops")
		case bytes.Contains(o.Data, []byte("ends")):
			runtime.Goexit()
		}
		return false, err
	}
	return sinktest.TxTarget{
		Sink: sqlitesink.New(store, effect), Entries: store,
		Effects: func(t testing.TB, id string) int {
			return number(t, store, `SELECT coalesce(sum(n), 0) FROM effect WHERE id = ?`, id)
		},
		Refused: func(_ testing.TB, id string) []byte { return []byte(`{"id":"` + id + `","fp":"refused"}`) },
	}
}

func inTable(t testing.TB) sinktest.TxTarget {
	store := open(t)
	sink, err := sqlitesink.NewTable(t.Context(), store, "orders")
	must(t, err)
	return sinktest.TxTarget{
		Sink: sink, Entries: store,
		Effects: func(t testing.TB, id string) int {
			return number(t, store, `SELECT count(*) FROM records_orders WHERE id = ?`, id)
		},
	}
}

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(testing.TB) sinktest.TxTarget{"own": counting, "table": inTable} {
		t.Run(name, func(t *testing.T) { t.Parallel(); sinktest.Transactional(t, open) })
	}
}

// TestEffectsThatDoNotReturn: an effect that panics or ends its goroutine changes nothing, and the file stays usable.
func TestEffectsThatDoNotReturn(t *testing.T) {
	t.Parallel()
	target := counting(t)
	reader, err := format.NewJSON(format.Options{IDPath: "id", FingerprintPath: "fp"})
	must(t, err)
	var letters deadLetters
	p, err := dedupe.NewProcessor(dedupe.Parts{Tx: target.Sink, Format: reader, DeadLetters: &letters},
		dedupe.Settings{Scope: "s", Retention: dedupe.Retention{ForGood: true}})
	must(t, err)
	batch := dedupe.Batch{Stream: dedupe.Stream{Name: "s"}, Shard: "shard", Records: []dedupe.Record{
		{Sequence: "1", Arrival: time.Unix(1, 0), Data: []byte(`{"id":"a","fp":"panics"}`)},
		{Sequence: "2", Arrival: time.Unix(1, 0), Data: []byte(`{"id":"b","fp":"x"}`)},
		{Sequence: "3", Arrival: time.Unix(1, 0), Data: []byte(`{"id":"c","fp":"ends"}`)},
	}}
	r := p.Process(t.Context(), batch)
	if r.Err == nil || r.Done != 2 || r.Failed != "3" || len(letters) != 1 {
		t.Errorf("got %+v, %v", r, letters)
	}
	for id, want := range map[string]int{"a": 0, "b": 1, "c": 0} {
		if n := target.Effects(t, id); n != want {
			t.Errorf("%s: %d effects", id, n)
		}
	}
}

type deadLetters []dedupe.DeadLetter

func (l *deadLetters) Put(_ context.Context, letters []dedupe.DeadLetter) (int, error) {
	*l = append(*l, letters...)
	return len(letters), nil
}

func TestTable(t *testing.T) {
	t.Parallel()
	store := open(t)
	for _, name := range []string{"", "1a", "A", "a b", `a"`, "a;"} {
		if _, err := sqlitesink.NewTable(t.Context(), store, name); err == nil {
			t.Errorf("%q is a table", name)
		}
	}
	for range 2 { // it is safe to repeat
		sink, err := sqlitesink.NewTable(t.Context(), store, "orders")
		must(t, err)
		if err := sink.Check(t.Context(), dedupe.Output{ID: "a", Data: []byte{0xff}}); err == nil {
			t.Error("a row takes bytes that are no text")
		}
	}
}
