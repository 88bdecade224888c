package main

import (
	"testing"

	"github.com/oncebox/oncebox/internal/cost"
	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/kinesishandler"
)

// TestCost: the command compares the ledgers, says which one to use, and refuses what is no load.
func TestCost(t *testing.T) {
	s := newShell(t)
	load := []string{"cost", "--rate", "33000", "--shards", "40", "--batch", "2500", "--window", "1h"}
	s.run(exitDone, load...).saying(t, "USD a day", "write units a record            1.0100    0.0408    0.0100", "the longest window that fits is 1h35m", "Use log: ")
	var c cost.Comparison
	s.json(&c, load...)
	if c.Use != cost.Log || c.Environments != 40 || c.Window != "1h" || c.Log.Total >= c.Keys.Total || c.Load.Horizon != 0 {
		t.Errorf("%+v", c)
	}
	var usual cost.Comparison // has the defaults of the function
	s.json(&usual, "cost", "--rate", "1")
	if usual.Window != settings.FormatDuration(kinesishandler.DefaultWindow) || usual.Load.Lanes != logledger.DefaultLanes ||
		usual.Horizon != settings.FormatDuration(kinesishandler.DefaultHorizon) {
		t.Errorf("%+v", usual)
	}
	s.run(exitDone, "cost", "--rate", "33000", "--shards", "40").saying(t, "log cannot be used: 6058.8 million entries", "Use keys: ")
	s.run(exitUsage, "cost").saying(t, "--rate")
	s.run(exitUsage, "cost", "--rate", "many").plainly(t, "oncebox: --rate: \"many\" is not a number\n"+
		"`oncebox --help` lists the commands, `oncebox help COMMAND` explains one.\n")
	s.run(exitUsage, "cost", "--rate", "5", "--copies", "5").plainly(t, "oncebox: --copies 5: use a share from 0 to below 1, as in 0.05\n")
}
