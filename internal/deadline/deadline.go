// Package deadline leaves a Lambda function time for its answer.
package deadline

import (
	"context"
	"time"
)

// Margin is how long before the deadline of an invocation its work ends. Without it Lambda would stop the function, and
// its answer would not say what was done.
const Margin = 500 * time.Millisecond

// WithMargin returns a context whose deadline is Margin earlier, but which keeps at least half of the time that is
// left. A context without a deadline gets none.
func WithMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(Margin, time.Until(deadline)/2)
	return context.WithDeadline(ctx, deadline.Add(-margin))
}
