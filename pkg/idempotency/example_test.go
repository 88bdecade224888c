package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

type purchase struct{ Cents int }

type invoice struct{ Charge string }

// pay is the function that runs once. A payment API that gets the key of KeyFor charges once, also if pay runs again
// after a crash.
func pay(_ context.Context, e idempotency.Execution, p purchase) (invoice, error) {
	fmt.Println("charging", p.Cents, "cents, with a key of", len(e.KeyFor("charge")), "characters")
	return invoice{"ch_1"}, nil
}

// The second call gets the result of the first. A call with another input is refused.
func ExampleDo() {
	ctx := context.Background()
	store, err := sqlitestore.OpenMemory(ctx) // in production: dynamostore.New(client, "TABLE")
	check(err)
	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
	check(err)
	for _, cents := range []int{1990, 1990, 9900} {
		paid, err := idempotency.Do(ctx, runner, "order-1", purchase{cents}, pay)
		fmt.Println(paid.Value.Charge, paid.Replayed, errors.Is(err, idempotency.ErrOtherPayload))
	}
	// Output:
	// charging 1990 cents, with a key of 64 characters
	// ch_1 false false
	// ch_1 true false
	//  false true
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
