package dynamostore_test

import (
	"context"
	"log"
	"time"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
)

// The ledger of a Lambda function. The table has the string keys pk and sk, and purge_at as its TTL attribute.
func Example() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	ledger := dynamostore.New(client, "oncebox-dedupe")
	decider := dedupe.Decider{
		Ledger: ledger, Scope: "orders",
		Retention: dedupe.Retention{Window: 48 * time.Hour, Horizon: 14 * 24 * time.Hour},
	}
	decisions := decider.Decide(ctx, []dedupe.Candidate{{
		ID: "order-1", Fingerprint: "5.00", Arrival: time.Now(),
		Owner: dedupe.Owner{Source: "123456789012/eu-west-1/orders/shard-1", Sequence: "17", Sub: dedupe.Plain},
	}})
	if err := decisions[0].Err; err != nil {
		log.Fatal(err)
	}
}
