package bench

import (
	"flag"
	"fmt"
	"testing"

	"github.com/oncebox/oncebox/bench/simulated"
)

// TestFiguresOfSimulatedLogLedgers records the figures of log ledgers that conflict with each other, beside their
// goals: `make bench SUBJECT=Log`, and SUBJECT=Ledgers.
func TestFiguresOfSimulatedLogLedgers(t *testing.T) {
	if flag.Lookup("test.bench").Value.String() == "" {
		t.Skip("make bench measures")
	}
	for _, goal := range simulated.LogGoals {
		load := goal.Load()
		var report simulated.LogReport
		inBubble(t, func() (err error) {
			report, err = load.Run()
			return err
		})
		writes, reads := report.PerRecord()
		name := fmt.Sprintf("log ledger, %.0f records/s, %d shards, %d lanes, batches of %d: ",
			load.Rate, load.Shards, load.Lanes, load.Batch)
		note(name+"write units a record: simulated, with conflicts", writes, goal.WriteUnits,
			fmt.Sprintf("%.2f attempts an item", report.Cost.Attempts()))
		note(name+"read units a record: simulated", reads, 0, "")
		note(name+"ms of a batch: simulated", milliseconds(report.Time(0.5)), 0,
			fmt.Sprintf("95 %% %.0f, 99 %% %.0f", milliseconds(report.Time(0.95)), milliseconds(report.Time(0.99))))
	}
}
