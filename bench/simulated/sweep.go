package simulated

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Sweep is a sweep of holds that nobody has paid, beside a Load of new customers. With the Rate 0 there are none.
type Sweep struct {
	Load
	Due     int           // holds that are due at the beginning
	Timeout time.Duration // of the function
}

// SweepReport says what a sweep closed, and how the customers were answered.
type SweepReport struct {
	Load     Report // its Cost includes that of the sweep
	Returned int64
	Took     time.Duration
	Err      error // of the sweep, for example because its time was over
}

// PerSecond is the number of holds that the sweep closed in a second.
func (r SweepReport) PerSecond() float64 { return float64(r.Returned) / r.Took.Seconds() }

// sweeper is the number of the sweep's container.
const sweeper = turns - 2

// Run plays the sweep. Its Duration is how long customers come; the sweep begins with them.
func (s Sweep) Run() (report SweepReport, err error) {
	s.Items, s.OnEnd, s.Hold = s.Items+s.Due, engine.Return, 15*time.Minute
	var sweeping sync.WaitGroup
	s.prepare = func(store *Store) error { return store.makeDue(s.Due) }
	s.beside = func(store *Store) {
		sweeping.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
			defer cancel()
			begun := time.Now()
			var swept itembank.SweepReport
			swept, report.Err = store.Bank(sweeper).SweepDue(ctx, store.Name(), nil)
			report.Returned, report.Took = swept.Returned, time.Since(begun)
		})
	}
	report.Load, err = s.Load.Run()
	sweeping.Wait()
	return report, err
}

// makeDue makes n holds that ended within a minute, a minute ago. They cost nothing.
func (s *Store) makeDue(n int) error {
	ctx, now := context.Background(), time.Now().UTC().Truncate(time.Millisecond)
	for i := range n {
		ended := now.Add(-time.Minute - time.Duration(i*60_000/n)*time.Millisecond)
		value := fmt.Sprintf("SAVE-%07d", i)
		hash := engine.HashItem(value)
		shard := engine.Shard{Campaign: s.campaign.Name, Number: hash.ShardOf(s.model.Shards)}
		claim := engine.Claim{
			ID: fmt.Sprintf("claim-%d", i), Campaign: s.campaign.Name, Scope: s.campaign.Scope, Slot: 1,
			Claimant: fmt.Sprintf("earlier-customer-%d", i), Item: value, ItemHash: hash,
			ClaimedAt: ended.Add(-s.model.Hold), EndsAt: ended,
		}
		taken, err := s.Take(ctx, []engine.FreeItem{engine.FreeItem{Shard: shard, Hash: hash, Value: value}}, claim)
		if err != nil || !taken.Taken() {
			return fmt.Errorf("hold %d: %+v, %w", i, taken, err)
		}
	}
	return nil
}
