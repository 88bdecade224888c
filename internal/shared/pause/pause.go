// Package pause waits.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits for d, or until ctx ends. It returns ctx.Err() if ctx ends first.
func For(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BackOff waits between attempts at a request of AWS: see Growing. The first pause is at most 100 ms long, and none is
// longer than a second.
func BackOff(ctx context.Context, attempt int) error {
	return Growing(ctx, attempt, 100*time.Millisecond, time.Second)
}

// Growing is UpTo with a limit that doubles with each attempt. It begins with first and ends with most.
func Growing(ctx context.Context, attempt int, first, most time.Duration) error {
	limit := first
	for ; attempt > 1 && limit < most; attempt-- {
		limit *= 2
	}
	return UpTo(ctx, min(limit, most))
}

// UpTo waits for a random time between half of the limit and the limit. So clients that were refused together do not
// come back together. It returns ctx.Err() if ctx ends first.
func UpTo(ctx context.Context, limit time.Duration) error {
	return For(ctx, limit/2+rand.N(limit/2)) //nolint:gosec // spreads clients; there is no use in guessing it
}
