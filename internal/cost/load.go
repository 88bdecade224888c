package cost

import (
	"fmt"
	"math"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// Load is what a ledger is asked for.
type Load struct {
	Rate            float64       `json:"records_per_second"`
	Window          time.Duration `json:"-"`
	Horizon         time.Duration `json:"-"` // how long after window entries are kept, for records that are late
	Batch           int           `json:"batch"`
	Shards          int           `json:"shards"`
	Parallelization int           `json:"parallelization"`
	Lanes           int           `json:"lanes"`
	Copies          float64       `json:"copies"`          // share of the records that are copies
	FunctionMemory  int           `json:"function_memory"` // MB, of a function with the log ledger; 0: what it needs
	ColdStarts      float64       `json:"cold_starts"`     // environments that begin in a day, or UsualColdStarts
	Rest            time.Duration `json:"-"`               // what an invocation takes besides the ledger
}

// The limits of Lambda (Developer Guide, "Lambda quotas" and "Using Lambda with Kinesis").
const (
	MostMemory          = 10_240 // MB
	mostBatch           = 10_000
	mostParallelization = 10
)

// Check returns an error that names the flag of a value that is wrong.
func (l Load) Check() error {
	switch {
	case !(l.Rate > 0) || l.Rate > 1e8:
		return fmt.Errorf("--records-per-second %g: use a number of records a second above 0", l.Rate)
	case l.Window <= 0:
		return fmt.Errorf("--window %s: use a duration above 0, as in 1h", l.Window)
	case l.Horizon <= 0:
		return fmt.Errorf("--horizon %s: use a duration above 0, as in 14d", l.Horizon)
	case l.Batch < 1 || l.Batch > mostBatch:
		return fmt.Errorf("--batch %d: use 1 to %d records", l.Batch, mostBatch)
	case l.Shards < 1:
		return fmt.Errorf("--shards %d: use a number from 1", l.Shards)
	case l.Parallelization < 1 || l.Parallelization > mostParallelization:
		return fmt.Errorf("--parallelization %d: use 1 to %d", l.Parallelization, mostParallelization)
	case l.Lanes < 1 || l.Lanes > logledger.MostLanes:
		return fmt.Errorf("--lanes %d: use 1 to %d", l.Lanes, logledger.MostLanes)
	case !(l.Copies >= 0) || l.Copies >= 1:
		return fmt.Errorf("--copies %g: use a share from 0 to below 1, as in 0.05", l.Copies)
	case l.FunctionMemory != 0 && (l.FunctionMemory < 128 || l.FunctionMemory > MostMemory):
		return fmt.Errorf("--function-memory %d: use 128 to %d MB", l.FunctionMemory, MostMemory)
	case !(l.ColdStarts >= 0 && l.ColdStarts <= 1e6 || l.ColdStarts == UsualColdStarts):
		return fmt.Errorf("--cold-starts %g: use 0 to a million a day", l.ColdStarts)
	case l.Rest < 0:
		return fmt.Errorf("--rest %s: use a duration from 0, as in 200ms", l.Rest)
	}
	return nil
}

const (
	day      = 86_400 // seconds
	kB       = 1024
	readUnit = 4 * kB
	gigabyte = 1e9
)

// Environments is the most that run at once: one for each shard and parallel batch.
func (l Load) Environments() int { return l.Shards * l.Parallelization }

// batches is how many there are in a second.
func (l Load) batches() float64 { return l.Rate / float64(l.Batch) }

// added is how many new records there are in a second.
func (l Load) added() float64 { return l.Rate * (1 - l.Copies) }

// UsualColdStarts says that each environment lasts two hours. That is assumed: Lambda documents no time.
const UsualColdStarts = -1

const lifeOfAnEnvironment = 2 * time.Hour

// coldStarts is how many environments begin in a day.
func (l Load) coldStarts() float64 {
	if l.ColdStarts != UsualColdStarts {
		return l.ColdStarts
	}
	return float64(l.Environments()) * (24 * time.Hour).Hours() / lifeOfAnEnvironment.Hours()
}

// started is the number of units of so many bytes, of which each one that is started counts.
func started(bytes, unit float64) float64 { return max(1, math.Ceil(bytes/unit)) }

// ackHeader is the size of an ack without its marks, in bytes (docs/costs.md has acks as they are counted).
const ackHeader = 0.4 * kB

// acks returns the units of the acks of a batch. They are in the dedupe table whatever the ledger is.
func (l Load) acks() Units {
	chunks := max(1, l.Batch/dedupe.DefaultChunk)
	size := ackHeader + dedupe.OwnerMarkSize*float64(l.Batch)/float64(chunks)
	return Units{Write: float64(chunks) * started(size, kB), Read: 1}
}
