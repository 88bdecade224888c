package itembank

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// WithRate limits the operations that work on many rows: Load, DryRun, Withdraw, WithdrawAll, Sweep, SweepDue,
// Reconcile, Repair, Replay, ListClaims, FreeItems, LookUp and CountFree. Together they read or write at most this
// many rows a second, so that claims have enough capacity of the store. A row is an item, a claim, or a line of a
// load or a replay; it counts each time it is read or written. Claims and Counts are not limited. The default is 0:
// no limit.
func WithRate(rowsPerSecond int) Option {
	return func(o *options) {
		o.rate = nil
		if rowsPerSecond > 0 {
			o.rate = rate.NewLimiter(rate.Limit(rowsPerSecond), engine.MaxAddItems)
		}
	}
}

// pace waits until this many more rows may be read or written.
func (b *Bank) pace(ctx context.Context, rows int) error {
	if b.rate == nil {
		return nil
	}
	for rows > 0 {
		n := min(rows, b.rate.Burst())
		now := b.clock.Now()
		if wait := b.rate.ReserveN(now, n).DelayFrom(now); wait > 0 {
			if err := b.clock.Sleep(ctx, wait); err != nil {
				return err
			}
		}
		rows -= n
	}
	return nil
}
