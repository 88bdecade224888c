package bench

import (
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
)

// valkey is the ledger on Valkey, whose requests and units are not counted.
func (s *shop) valkey() *subject {
	ledger, err := valkeystore.Open(valkeystore.Options{Servers: valkeystore.Servers{
		Addresses: []string{testengine.Valkey(s)}, Buckets: valkeyKeys / 100, // the least memory
	}})
	s.must(err)
	s.Cleanup(func() { _ = ledger.Close() })
	return &subject{name: "Valkey, batches of 1000", keys: logKeys, batch: logBatches[0], timed: enterNew(ledger)}
}

// valkeyKeys is about how many keys a run of 51 rounds enters.
const valkeyKeys = 1_000_000
