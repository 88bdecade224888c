package cost

import (
	"fmt"
	"math"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// Load describes the records that a ledger must handle.
type Load struct {
	Rate            float64       `json:"records_per_second"`
	Window          time.Duration `json:"-"`
	Horizon         time.Duration `json:"-"` // how long after the window entries are kept, for late records
	Batch           int           `json:"batch"`
	Shards          int           `json:"shards"`
	Parallelization int           `json:"parallelization"`
	Lanes           int           `json:"lanes"`
	Copies          float64       `json:"copies"`          // the share of records that are copies
	FunctionMemory  int           `json:"function_memory"` // MB, with the log ledger; 0: as much as it needs
	ColdStarts      float64       `json:"cold_starts"`     // environments that begin in a day, or UsualColdStarts
	Rest            time.Duration `json:"-"`               // the time of an invocation without the ledger
}

// These are the limits of Lambda (Developer Guide, "Lambda quotas" and "Using Lambda with Kinesis").
const (
	MostMemory          = 10_240 // MB
	mostBatch           = 10_000
	mostParallelization = 10
)

// Check returns an error if a value is wrong. The error names the flag of the value.
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

// Environments returns the largest number of environments that run at once: one for each shard and parallel batch.
func (l Load) Environments() int { return l.Shards * l.Parallelization }

// batches returns the number of batches in a second.
func (l Load) batches() float64 { return l.Rate / float64(l.Batch) }

// added returns the number of new records in a second.
func (l Load) added() float64 { return l.Rate * (1 - l.Copies) }

// UsualColdStarts means that each environment lasts two hours. This is an assumption, because Lambda documents no
// time.
const UsualColdStarts = -1

const lifeOfAnEnvironment = 2 * time.Hour

// coldStarts returns the number of environments that begin in a day.
func (l Load) coldStarts() float64 {
	if l.ColdStarts != UsualColdStarts {
		return l.ColdStarts
	}
	return float64(l.Environments()) * (24 * time.Hour).Hours() / lifeOfAnEnvironment.Hours()
}

// wholeUnits returns the number of units for a number of bytes. A unit that is only started counts in full.
func wholeUnits(bytes, unit float64) float64 { return max(1, math.Ceil(bytes/unit)) }

// ackHeader is the size of an ack without its marks, in bytes (docs/costs.md has the counted sizes of acks).
const ackHeader = 0.4 * kB

// acks returns the units of the acks of a batch. Acks are in the dedupe table with every ledger.
func (l Load) acks() Units {
	chunks := max(1, l.Batch/dedupe.DefaultChunk)
	size := ackHeader + dedupe.OwnerMarkSize*float64(l.Batch)/float64(chunks)
	return Units{Write: float64(chunks) * wholeUnits(size, kB), Read: 1}
}
