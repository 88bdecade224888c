// Package pause waits.
package pause

import (
	"context"
	"math/rand/v2"
	"time"
)

// For waits, but not longer than the context. Its error is that of the context.
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

// Growing is UpTo for a limit that doubles with each attempt, from the first on, up to the most.
func Growing(ctx context.Context, attempt int, first, most time.Duration) error {
	limit := first
	for ; attempt > 1 && limit < most; attempt-- {
		limit *= 2
	}
	return UpTo(ctx, min(limit, most))
}

// UpTo is For for a random time between half of the limit and the limit, so that clients that were refused together do
// not come back together.
func UpTo(ctx context.Context, limit time.Duration) error {
	return For(ctx, limit/2+rand.N(limit/2)) //nolint:gosec // spreads clients; nobody gains by guessing it
}
