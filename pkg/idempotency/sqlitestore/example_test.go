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
