package simulated

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

// LogLoad is a stream whose records go through log ledgers, with one environment and one ledger for each shard. A
// shard has a batch when enough records have arrived. It gives the batch to its environment when that is free.
type LogLoad struct {
	Seed     uint64
	Rate     float64 // records a second, of all shards
	Shards   int
	Lanes    int
	Batch    int
	Window   time.Duration
	Copies   float64       // share of records that are copies of records up to a batch before, in any shard
	Rest     time.Duration // the time of an invocation without the ledger
	Times    LogTimes
	WarmUp   time.Duration // before the count begins
	Duration time.Duration // of the count
}

// LogGoal is the largest number of write units of a record in batches of a size, including appends that find another
// item.
type LogGoal struct {
	Batch      int     // records
	WriteUnits float64 // 0: no goal
}

// LogGoals are the goals of the log ledger.
var LogGoals = []LogGoal{{500, 0}, {1000, 0.05}, {2500, 0.035}, {5000, 0.035}}

// Load is the stream of the goal: two million records a minute on 40 shards, and 8 lanes.
func (g LogGoal) Load() LogLoad {
	const rate, shards, lanes = 33_000, 40, 8
	fill := time.Duration(float64(g.Batch) / rate * shards * float64(time.Second))
	return LogLoad{
		Seed: 1, Rate: rate, Shards: shards, Lanes: lanes, Batch: g.Batch, Window: time.Hour, Rest: 200 * time.Millisecond,
		Times: LogTimesInRegion, WarmUp: 2 * fill, Duration: 10 * time.Second,
	}
}

// LogReport says how a LogLoad went.
type LogReport struct {
	Cost, Busiest LogCost
	Records       int             // that were answered
	times         []time.Duration // of Enter, sorted
}

// Time returns the time within which a share of the batches were answered.
func (r LogReport) Time(share float64) time.Duration { return quantile(r.times, share) }

// PerRecord returns the write units and the read units of a record.
func (r LogReport) PerRecord() (write, read float64) {
	return r.Cost.WriteUnits / float64(r.Records), r.Cost.ReadUnits / float64(r.Records)
}

// Run plays the load.
func (l LogLoad) Run() (LogReport, error) {
	r := &logRun{LogLoad: l, log: NewLog(l.Times), begun: time.Now()}
	ledgers := make([]*logledger.Ledger, l.Shards)
	for n := range ledgers {
		ledger, err := logledger.New(r.log.Of(n, l.Seed), logledger.Options{
			Lanes: l.Lanes, Memory: math.MaxInt64, Clock: dedupe.Clock{Pause: r.pause(n)},
		})
		if err != nil {
			return LogReport{}, err
		}
		ledgers[n] = ledger
	}
	var working sync.WaitGroup
	for n, ledger := range ledgers {
		working.Go(func() { r.work(n, ledger) })
	}
	time.Sleep(untilTurn(arrival, l.WarmUp))
	r.log.ForgetCost()
	working.Wait()
	r.report.Cost, r.report.Busiest = r.log.Cost()
	slices.Sort(r.report.times)
	return r.report, r.failed
}

// logRun is a LogLoad that is played.
type logRun struct {
	LogLoad
	log   *Log
	begun time.Time

	mu     sync.Mutex
	report LogReport
	failed error
}

// work is a shard with its environment.
func (r *logRun) work(n int, ledger dedupe.Ledger) {
	random := draw(r.Seed, fmt.Sprintf("shard %d", n))
	each := float64(r.Batch) / r.Rate * float64(r.Shards) * float64(time.Second)
	full := r.begun.Add(time.Duration(random.Float64() * each)) // when the next batch is complete
	for number := 0; full.Sub(r.begun) < r.WarmUp+r.Duration; number++ {
		if wait := time.Until(full); wait > 0 {
			time.Sleep(untilTurn(n, wait))
		}
		q := dedupe.Question{
			Scope: "orders", Retention: dedupe.Retention{Window: r.Window, Horizon: 14 * 24 * time.Hour},
			Records: r.batch(random, n, number),
		}
		began := time.Now()
		answers, err := ledger.Enter(context.Background(), q)
		for _, a := range answers {
			err = errors.Join(err, a.Err)
		}
		r.note(began, len(q.Records), err)
		time.Sleep(untilTurn(n, r.Rest))
		full = full.Add(time.Duration(each * (1 + random.NormFloat64()/math.Sqrt(float64(r.Batch)))))
	}
}

// pause returns the pause function of an environment. The pauses depend on its time, because its lanes pause at the
// same time.
func (r *logRun) pause(n int) func(context.Context, time.Duration) error {
	return func(_ context.Context, limit time.Duration) error {
		random := draw(r.Seed, fmt.Sprintf("pause of %d at %d", n, time.Since(r.begun)))
		time.Sleep(time.Duration(random.Float64() * float64(limit)))
		return nil
	}
}

func (r *logRun) note(began time.Time, records int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = errors.Join(r.failed, err)
	if began.Sub(r.begun) >= r.WarmUp {
		r.report.times = append(r.report.times, time.Since(began))
		r.report.Records += records
	}
}

// batch makes records.
func (r *logRun) batch(random *rand.Rand, shard, number int) []dedupe.Candidate {
	records := make([]dedupe.Candidate, r.Batch)
	now := time.Now()
	source := fmt.Sprintf("shard-%d", shard)
	var id [16]byte
	for i := range records {
		of, place := shard, number*r.Batch+i
		if random.Float64() < r.Copies && number > 0 {
			of, place = random.IntN(r.Shards), place-random.IntN(r.Batch)-1
		}
		binary.BigEndian.PutUint64(id[:], uint64(of))
		binary.BigEndian.PutUint64(id[8:], uint64(place))
		records[i] = dedupe.Candidate{
			ID: string(id[:]), Fingerprint: "x", Arrival: now,
			Owner: dedupe.Owner{Source: source, Sequence: fmt.Sprintf("4967%052d", number*r.Batch+i), Sub: dedupe.Plain},
		}
	}
	return records
}
