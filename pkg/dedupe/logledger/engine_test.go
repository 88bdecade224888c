package logledger_test

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// TestLedger: each process of a case has its own ledger, and all use the same log.
func TestLedger(t *testing.T) {
	log := memlog.New()
	log.Page = 3
	rules := enginetest.Rules{Ahead: time.Hour}
	enginetest.RunLedger(t, rules, func(t testing.TB, now func() time.Time) dedupe.Ledger {
		l, err := logledger.New(log, logledger.Options{Clock: dedupe.Clock{Now: now}})
		if err != nil {
			t.Fatal(err)
		}
		return l
	})
}
