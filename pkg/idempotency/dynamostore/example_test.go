package dynamostore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
)

// The function of a Lambda handler. The table has the string keys pk and sk, and purge_at as its TTL attribute.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // in Lambda: the context of the invocation
	defer cancel()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	store := dynamostore.New(client, "oncebox-dedupe")
	runner, err := idempotency.New(store, "payments", idempotency.Settings{LeaseUntilDeadline: true})
	if err != nil {
		log.Fatal(err)
	}
	charge := func(_ context.Context, e idempotency.Execution, cents int) (string, error) {
		return fmt.Sprint("charged ", cents, " with the key ", e.KeyFor("charge")), nil // calls the bank
	}
	out, err := idempotency.Do(ctx, runner, "order-1", 1990, charge)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Value, out.Replayed)
}
