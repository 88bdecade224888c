// Package deadline leaves a Lambda function time for its answer.
package deadline

import (
	"context"
	"time"
)

// Margin is the time between the end of an invocation's work and its deadline. Without it, Lambda would stop the
// function before it could answer which records are done.
const Margin = 500 * time.Millisecond

// WithMargin returns a context whose deadline is Margin earlier. The context keeps at least half of the remaining
// time. A context without a deadline gets none.
func WithMargin(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	margin := min(Margin, time.Until(deadline)/2)
	return context.WithDeadline(ctx, deadline.Add(-margin))
}
