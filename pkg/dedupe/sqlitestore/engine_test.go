package sqlitestore

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

func TestEngine(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) dedupe.Store { return newStore(t, inTemp(t)) })
}

func TestEngineInMemory(t *testing.T) {
	enginetest.Run(t, func(t *testing.T) dedupe.Store {
		s, err := OpenMemory(t.Context())
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		return s
	})
}

// TestLedger: each process of a case has its own store, and all use the same file.
func TestLedger(t *testing.T) {
	path := inTemp(t)
	newStore(t, path)
	enginetest.RunLedger(t, enginetest.OneRowAKey, func(t testing.TB, _ func() time.Time) dedupe.Ledger {
		return newStore(t, path, WithBusyTimeout(time.Minute))
	})
}
