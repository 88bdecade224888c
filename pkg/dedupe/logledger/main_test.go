package logledger_test

import (
	"context"
	"crypto/rand"
	"os"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// onEngines runs a test on the log in memory, and in `make check` on DynamoDB with a share of its work.
func onEngines(t *testing.T, test func(t *testing.T, log logledger.Storage, share int)) {
	shares := map[string]int{dedupefault.DynoxideLog.Name: 40, dedupefault.DynamoDBLocalLog.Name: 200}
	for _, e := range dedupefault.LogEngines {
		t.Run(e.Name, func(t *testing.T) {
			if e.Name != dedupefault.MemoryLog.Name {
				testengine.CheckOnly(t)
			}
			log := e.Open(t).(dedupefault.LogStore).Log
			test(t, dedupefault.HookLog(log, inScopeOfItsOwn(rand.Text())), max(1, shares[e.Name]))
		})
	}
}

// inScopeOfItsOwn separates the scopes of a test from those of earlier runs.
func inScopeOfItsOwn(name string) dedupefault.Hook {
	return func(ctx context.Context, c *dedupefault.Call) error {
		c.Log.Lane.Scope += name
		c.Log.Place.Scope += name
		return c.Do(ctx)
	}
}
