package valkeystore_test

import (
	"context"
	"crypto/tls"
	"log"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
)

// A ledger on a cluster of ElastiCache, with the password in a file.
func Example() {
	ledger, err := valkeystore.Open(valkeystore.Options{
		Servers: valkeystore.Servers{
			Addresses: []string{"clustercfg.orders.abc123.euw1.cache.amazonaws.com:6379"},
			Buckets:   1 << 20, // for 100 million keys in a window
		},
		TLS:         &tls.Config{MinVersion: tls.VersionTLS12},
		Credentials: valkeystore.FromFile("/run/secrets/valkey"),
	})
	if err != nil {
		log.Fatal(err)
	}
	decider := dedupe.Decider{
		Ledger: ledger, Scope: "orders",
		Retention: dedupe.Retention{Window: time.Hour, Horizon: 24 * time.Hour},
	}
	decisions := decider.Decide(context.Background(), []dedupe.Candidate{{
		ID: "order-1", Fingerprint: "5.00", Arrival: time.Now(),
		Owner: dedupe.Owner{Source: "123456789012/eu-west-1/orders/shard-1", Sequence: "17", Sub: dedupe.Plain},
	}})
	if err := decisions[0].Err; err != nil {
		log.Fatal(err)
	}
}
