package enginetest_test

import (
	"path/filepath"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// The test of an engine. In a package of your own it is `func TestEngine(t *testing.T)`.
func ExampleRun() {
	_ = func(t *testing.T) {
		enginetest.Run(t, func(t *testing.T) dedupe.Store {
			store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
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
