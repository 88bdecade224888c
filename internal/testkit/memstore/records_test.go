package memstore_test

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

func TestRecords(t *testing.T) {
	enginetest.Run(t, func(*testing.T) dedupe.Store { return memstore.NewRecords() })
}

func TestLedger(t *testing.T) {
	records := memstore.NewRecords()
	enginetest.RunLedger(t, enginetest.OneRowAKey, func(testing.TB, func() time.Time) dedupe.Ledger { return records })
}
