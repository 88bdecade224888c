package dedupe

import (
	"context"
	"math/rand/v2"
	"time"
)

// Clock is how a Decider and a Processor wait. The zero value is real time. Tests with a clock of their own set it.
// Nothing in it decides what a record is.
type Clock struct {
	// Now is the time. It counts records past the horizon, and limits how long a ledger is asked again.
	Now func() time.Time
	// Pause waits for a random time up to the limit, and not longer than the context.
	Pause func(ctx context.Context, limit time.Duration) error
	// Both runs two functions, at the same time if it can, and returns when both have ended.
	Both func(f, g func())
}

func (c Clock) orReal() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Pause == nil {
		c.Pause = pause
	}
	if c.Both == nil {
		c.Both = both
	}
	return c
}

func pause(ctx context.Context, limit time.Duration) error {
	t := time.NewTimer(limit/2 + rand.N(limit/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// both runs g in a goroutine of its own. A panic there is thrown again in the caller, which may catch it.
func both(f, g func()) {
	ended := make(chan any, 1)
	go func() {
		defer func() { ended <- recover() }()
		g()
	}()
	defer func() {
		if thrown := <-ended; thrown != nil {
			panic(thrown)
		}
	}()
	f()
}

// patience is how long a ledger is asked again: half of the time that is left, so that the sink has the other half.
func (c Clock) patience(ctx context.Context) (until time.Time) {
	now := c.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		return now.Add(patienceWithoutDeadline)
	}
	return now.Add(deadline.Sub(now) / 2)
}

// patienceWithoutDeadline is long enough for DynamoDB to split a hot partition's traffic, and for a failover.
const patienceWithoutDeadline = 30 * time.Second

// The pauses between two questions to a ledger that is busy.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)
