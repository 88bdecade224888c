package enginetest_test

import (
	"testing"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/enginetest"
	"github.com/oncebox/oncebox/pkg/idempotency/sqlitestore"
)

// The test of an engine. In a package of your own it is `func TestEngine(t *testing.T)`.
func ExampleRun() {
	_ = func(t *testing.T) {
		enginetest.Run(t, func(t testing.TB) engine.Store {
			store, err := sqlitestore.OpenMemory(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			return store
		})
	}
}
