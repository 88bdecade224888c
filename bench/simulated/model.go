package simulated

import (
	"math/rand/v2"
	"time"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Model holds the parameters of a simulation. The package comment describes it.
type Model struct {
	Seed    uint64
	Items   int           // in the bank at the beginning
	Shards  int           // of the bank
	OnEnd   engine.OnEnd  // of the campaign's items; "": engine.Burn
	Hold    time.Duration // of the campaign, with engine.Return; 0: none
	Latency Latency
	Limits  *Limits // nil: nothing is throttled
}

// Latency is the time that a request takes.
type Latency struct {
	Least time.Duration
	Extra time.Duration // the mean of an exponentially distributed time on top
}

// InRegion is about the time of a request within a region.
var InRegion = Latency{Least: 5 * time.Millisecond, Extra: 5 * time.Millisecond}

func (l Latency) of(r *rand.Rand) time.Duration {
	return l.Least + time.Duration(r.ExpFloat64()*float64(l.Extra))
}

// Limits are the limits of tables with partitions.
type Limits struct {
	Partitions int           // of each table
	Writes     float64       // write units a second of a partition
	Reads      float64       // read units a second of a partition
	Burst      time.Duration // of how much time a partition saves the units
	ClaimKeys  int           // partition keys of claims
	Retries    Retries
}

// Retries describe how the SDK repeats throttled reads.
type Retries struct {
	Attempts           int
	LeastWait, MaxWait time.Duration // between two attempts, evenly distributed
}

// DynamoDB returns the limits of tables with these numbers of partitions and of partition keys of claims
// (https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-design.html).
func DynamoDB(partitions, claimKeys int) *Limits {
	return &Limits{
		Partitions: partitions, Writes: 1000, Reads: 3000, Burst: 50 * time.Millisecond, ClaimKeys: claimKeys,
		Retries: ClientRetries,
	}
}

// ClientRetries are the retries of awsclient.NewDynamoDB.
var ClientRetries = Retries{awsclient.MaxAttempts, awsclient.MinBackoff, awsclient.MaxBackoff}

func (r Retries) wait(rng *rand.Rand) time.Duration {
	return r.LeastWait + time.Duration(rng.Float64()*float64(r.MaxWait-r.LeastWait))
}
