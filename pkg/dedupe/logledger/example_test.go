package logledger_test

import (
	"context"
	"log"
	"time"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// A ledger for 10,000 records a second and a window of an hour, with its log in the table of a Lambda function.
func Example() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	retention := dedupe.Retention{Window: time.Hour, Horizon: 14 * 24 * time.Hour}
	memory := int64(logledger.NeededMemory(10_000, retention.Window, 1000/logledger.DefaultLanes))
	ledger, err := logledger.New(dynamostore.NewLog(client, "oncebox-dedupe"), logledger.Options{Memory: memory})
	if err != nil {
		log.Fatal(err)
	}
	if err := ledger.Warm(ctx, "orders", retention); err != nil { // at the start, so that the first batch does not wait
		log.Fatal(err)
	}
	decider := dedupe.Decider{Ledger: ledger, Scope: "orders", Retention: retention}
	decisions := decider.Decide(ctx, []dedupe.Candidate{{
		ID: "order-1", Fingerprint: "5.00", Arrival: time.Now(),
		Owner: dedupe.Owner{Source: "123456789012/eu-west-1/orders/shard-1", Sequence: "17", Sub: dedupe.Plain},
	}})
	if err := decisions[0].Err; err != nil {
		log.Fatal(err)
	}
	log.Printf("the entries take %d bytes of memory", ledger.Stats().Needed)
}
