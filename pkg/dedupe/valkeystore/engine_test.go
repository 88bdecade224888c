package valkeystore

import (
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
)

var rules = enginetest.Rules{Ahead: ahead}

// suite returns the function that opens ledgers for the suite.
func suite(o Options) enginetest.Open {
	return func(t testing.TB, now func() time.Time) dedupe.Ledger {
		o := o
		o.Now = now
		return open(t, o)
	}
}

func TestLedger(t *testing.T) { enginetest.RunLedger(t, rules, suite(options(testengine.Valkey(t)))) }

func TestLedgerOnSeveralServers(t *testing.T) {
	a, b := testengine.FreshValkey(t), testengine.FreshValkey(t)
	enginetest.RunLedger(t, rules, suite(options(a.Addr, b.Addr)))
}

// TestLedgerWhileServersChange runs the suite with arrivals before, at and after the change.
func TestLedgerWhileServersChange(t *testing.T) {
	a, b := testengine.FreshValkey(t), testengine.FreshValkey(t)
	for name, since := range map[string]time.Duration{
		"before": 100 * 24 * time.Hour, "in between": -30 * time.Minute, "soon": 30 * time.Minute, "after": -100 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			before, now := options(a.Addr), options(b.Addr, a.Addr)
			now.Previous, now.Since = &before.Servers, epoch.Add(since)
			enginetest.RunLedger(t, rules, suite(now))
		})
	}
}
