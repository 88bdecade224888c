package main

import (
	"testing"

	"github.com/oncebox/oncebox/internal/records/cost"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestCost checks that the command compares the ledgers, recommends one, and refuses an impossible load.
func TestCost(t *testing.T) {
	s := newShell(t)
	load := []string{"cost", "--records-per-second", "33000", "--shards", "40", "--batch", "2500", "--window", "1h"}
	s.run(exitDone, load...).saying(t, "USD a day", "write units a record            1.0100    0.0408    0.0100", "the longest window that fits is 1h35m", "Use log: ")
	var c cost.Comparison
	s.json(&c, load...)
	if c.Use != cost.Log || c.Environments != 40 || c.Window != "1h" || c.Log.Total >= c.Keys.Total || c.Load.Horizon != 0 {
		t.Errorf("%+v", c)
	}
	var usual cost.Comparison // has the defaults of the function
	s.json(&usual, "cost", "--records-per-second", "1")
	if usual.Window != settings.FormatDuration(recordhandler.DefaultWindow) || usual.Load.Lanes != logledger.DefaultLanes ||
		usual.Horizon != settings.FormatDuration(recordhandler.DefaultHorizon) {
		t.Errorf("%+v", usual)
	}
	s.run(exitDone, "cost", "--records-per-second", "33000", "--shards", "40").saying(t, "log cannot be used: 6058.8 million entries", "Use keys: ")
	s.run(exitUsage, "cost").saying(t, "--claims-per-day, --records-per-second, or both")
	s.run(exitUsage, "cost", "--records-per-second", "many").plainly(t, "oncebox: --records-per-second: \"many\" is not a number\n"+
		"`oncebox --help` lists the commands, `oncebox help COMMAND` explains one.\n")
	s.run(exitUsage, "cost", "--records-per-second", "5", "--copies", "5").plainly(t, "oncebox: --copies 5: use a share from 0 to below 1, as in 0.05\n")
}

// TestCostOfAStack: the command prints the bill of a stack, item by item.
func TestCostOfAStack(t *testing.T) {
	s := newShell(t)
	claims := []string{"cost", "--claims-per-day", "100000"}
	s.run(exitDone, claims...).saying(t, "claims    API Gateway       requests                                            3.00", "together")
	var bill struct {
		Use   string    `json:"use"`
		Stack cost.Bill `json:"stack"`
	}
	s.json(&bill, claims...)
	want := cost.Stack{ClaimsPerDay: 100_000, RecordBytes: 1024, SystemLogLevel: "info"}.Month()
	if bill.Use != "" || len(bill.Stack.Items) != len(want.Items) || bill.Stack.Total != want.Total {
		t.Errorf("want %+v, got %+v", want, bill)
	}
	s.json(&bill, append(claims, "--records-per-second", "500", "--ledger", "log", "--system-log-level", "warn")...)
	if bill.Use == "" || bill.Stack.Ledger != cost.Log || bill.Stack.Total <= want.Total {
		t.Errorf("got %+v", bill)
	}
	s.run(exitUsage, "cost", "--claims-per-day=-5").saying(t, "--claims-per-day -5: use a number of claims from 0")
}
