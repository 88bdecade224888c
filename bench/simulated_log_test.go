package bench

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/oncebox/oncebox/bench/simulated"
)

// Goals of the log ledger at 33,000 records a second, 40 shards and 8 lanes, by the records of a batch.
var goalsOfLog = []struct {
	batch  int
	writes float64 // write units a record; 0: no goal
}{{500, 0}, {1000, 0.05}, {2500, 0.035}, {5000, 0.035}}

// TestFiguresOfSimulatedLog notes the figures of log ledgers that are simulated: `make bench SUBJECT=Log`.
func TestFiguresOfSimulatedLog(t *testing.T) {
	if flag.Lookup("test.bench").Value.String() == "" {
		t.Skip("make bench measures")
	}
	const rate, shards, lanes = 33_000, 40, 8
	for _, g := range goalsOfLog {
		fill := time.Duration(float64(g.batch) / rate * shards * float64(time.Second))
		var report simulated.LogReport
		inBubble(t, func() (err error) {
			report, err = simulated.LogLoad{
				Seed: 1, Rate: rate, Shards: shards, Lanes: lanes, Batch: g.batch, Window: time.Hour, Rest: 200 * time.Millisecond,
				Times: simulated.LogTimesInRegion, WarmUp: 2 * fill, Duration: 10 * time.Second,
			}.Run()
			return err
		})
		writes, reads := report.PerRecord()
		name := fmt.Sprintf("log ledger, %d records/s, %d shards, %d lanes, batches of %d: ", rate, shards, lanes, g.batch)
		note(name+"write units a record: simulated", writes, g.writes, fmt.Sprintf("%.2f attempts an item", report.Cost.Attempts()))
		note(name+"read units a record: simulated", reads, 0, "")
		note(name+"ms of a batch: simulated", milliseconds(report.Time(0.5)), 0,
			fmt.Sprintf("95 %% %.0f, 99 %% %.0f", milliseconds(report.Time(0.95)), milliseconds(report.Time(0.99))))
	}
}
