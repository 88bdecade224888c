package sqlitesink_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/sqlitesink"
)

// A batch has a copy, and comes twice. Each payment is booked once.
func Example() {
	ctx := context.Background()
	store, err := sqlitestore.OpenMemory(ctx) // or a file
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	if err := store.Do(ctx, "make tables", func(ctx context.Context, tx sqlitestore.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE account (id TEXT PRIMARY KEY, cents INTEGER); INSERT INTO account VALUES ('a', 100)`)
		return err
	}); err != nil {
		log.Fatal(err)
	}
	const book = `UPDATE account SET cents = cents - (?1 ->> 'cents') WHERE id = ?1 ->> 'account'`
	sink := sqlitesink.New(store, func(ctx context.Context, tx sqlitestore.Tx, o dedupe.Output) (bool, error) {
		_, err := tx.ExecContext(ctx, book, string(o.Data))
		return false, err
	})
	reader, err := format.NewJSON(format.Options{IDPath: "id"})
	if err != nil {
		log.Fatal(err)
	}
	p, err := dedupe.NewProcessor(dedupe.Parts{Tx: sink, Format: reader, DeadLetters: noLetters{}},
		dedupe.Settings{Scope: "payments", Retention: dedupe.Retention{ForGood: true}})
	if err != nil {
		log.Fatal(err)
	}
	batch := dedupe.Batch{Stream: dedupe.Stream{Name: "payments"}, Shard: "0", Records: []dedupe.Record{
		{Sequence: "1", Arrival: time.Unix(1, 0), Data: []byte(`{"id":"p-1","account":"a","cents":25}`)},
		{Sequence: "2", Arrival: time.Unix(1, 0), Data: []byte(`{"id":"p-1","account":"a","cents":25}`)},
	}}
	for range 2 {
		r := p.Process(ctx, batch)
		fmt.Println("new", r.Tally.New, "retry", r.Tally.Retry, "natural", r.Tally.Natural, "effects", r.Tally.Out, r.Err)
	}
	var cents int
	if err := store.Do(ctx, "read", func(ctx context.Context, tx sqlitestore.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT cents FROM account`).Scan(&cents)
	}); err != nil {
		log.Fatal(err)
	}
	fmt.Println("balance", cents)
	// Output:
	// new 1 retry 0 natural 1 effects 1 <nil>
	// new 0 retry 1 natural 1 effects 0 <nil>
	// balance 75
}

type noLetters struct{}

func (noLetters) Put(context.Context, []dedupe.DeadLetter) (int, error) { return 0, nil }
