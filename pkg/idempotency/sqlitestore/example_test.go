package sqlitestore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

// The second call gets the result of the first, also after the program was restarted.
func Example() {
	dir, err := os.MkdirTemp("", "once")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for range 2 {
		out, err := pay(filepath.Join(dir, "once.db"), "order-1", 1990)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(out.Value, out.Replayed)
	}
	// Output:
	// charged 1990 false
	// charged 1990 true
}

func pay(file, order string, cents int) (out idempotency.Outcome[string], err error) {
	ctx := context.Background()
	store, err := sqlitestore.Create(ctx, file)
	if err != nil {
		return out, err
	}
	defer func() { _ = store.Close() }() // each write is on the disk
	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
	if err != nil {
		return out, err
	}
	return idempotency.Do(ctx, runner, order, cents, func(_ context.Context, _ idempotency.Execution, cents int) (string, error) {
		return fmt.Sprint("charged ", cents), nil
	})
}

// A transfer that happens once for its key, however often the call comes.
func ExampleEffects() {
	ctx := context.Background()
	store, err := sqlitestore.OpenMemory(ctx)
	check(err)
	defer func() { _ = store.Close() }()
	check(store.Do(ctx, "make accounts", func(ctx context.Context, tx sqlitestore.Tx) error {
		_, err := tx.ExecContext(ctx, `CREATE TABLE account (id TEXT PRIMARY KEY, cents INTEGER NOT NULL CHECK (cents >= 0)) STRICT;
			INSERT INTO account VALUES ('ann', 5000), ('bob', 0)`)
		return err
	}))
	runner, err := idempotency.New(store, "transfers", idempotency.Settings{})
	check(err)
	transfer := func(_ context.Context, e idempotency.Execution, cents int) (string, error) {
		e.Commit(sqlitestore.Effects(func(ctx context.Context, tx sqlitestore.Tx) error {
			_, err := tx.ExecContext(ctx, `UPDATE account SET cents = cents + CASE id WHEN 'ann' THEN -?1 ELSE ?1 END`, cents)
			return err
		}))
		return fmt.Sprint("moved ", cents), nil
	}
	for _, order := range []string{"order-1", "order-1", "order-2"} {
		out, err := idempotency.Do(ctx, runner, order, 1990, transfer)
		check(err)
		fmt.Println(out.Value, out.Replayed)
	}
	_, err = idempotency.Do(ctx, runner, "order-3", 1990, transfer)
	fmt.Println("refused:", err != nil) // ann has 10.20 left
	check(store.Do(ctx, "read account", func(ctx context.Context, tx sqlitestore.Tx) error {
		var cents int
		err := tx.QueryRowContext(ctx, `SELECT cents FROM account WHERE id = 'bob'`).Scan(&cents)
		fmt.Println("bob has", cents)
		return err
	}))
	// Output:
	// moved 1990 false
	// moved 1990 true
	// moved 1990 false
	// refused: true
	// bob has 3980
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
