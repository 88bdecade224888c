// Package deadline keeps time for a Lambda function's answer.
package deadline

import (
	"context"
	"time"
)

// Margin is how long before the caller's deadline work is given up. After a
// time-out Lambda would answer by itself, with an error that tells nothing of what
// is done.
const Margin = 500 * time.Millisecond

// WithMargin moves the deadline, if there is one, Margin forward, but leaves the
// work at least half of its time.
func WithMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(Margin, time.Until(deadline)/2)
	return context.WithDeadline(ctx, deadline.Add(-margin))
}
