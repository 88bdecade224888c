package dedupe

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/internal/shared/pause"
)

// Clock replaces time and goroutines of a Decider and a Processor in tests. The zero value uses real time. No decision
// about a record depends on it.
type Clock struct {
	// Now returns the time. It is used to count records past the horizon, and to limit how long a ledger is asked
	// again.
	Now func() time.Time
	// Pause waits for a random time up to limit, but not longer than the context.
	Pause func(ctx context.Context, limit time.Duration) error
	// Both runs two functions, if possible at the same time, and returns when both have ended.
	Both func(f, g func())
	// Each runs f for the numbers from 0 to n-1, if possible up to limit of them at the same time, and returns when all
	// have ended.
	Each func(n, limit int, f func(i int))
}

// OrReal returns the clock with real time for each field that is nil.
func (c Clock) OrReal() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Pause == nil {
		c.Pause = pause.UpTo
	}
	if c.Both == nil {
		c.Both = both
	}
	if c.Each == nil {
		c.Each = each
	}
	return c
}

// Panic is a panic in another goroutine of a Processor. It is repeated in the goroutine of the caller, who can
// recover it.
type Panic struct {
	Value any
	Stack []byte // of the goroutine that panicked
}

// String returns the text that the runtime prints for a panic that is not recovered.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// both runs f, and g in another goroutine.
func both(f, g func()) {
	ended := make(chan *Panic, 1)
	go func() {
		var thrown *Panic
		defer func() { ended <- thrown }()
		defer catch(&thrown)
		g()
	}()
	defer func() { (<-ended).throw() }()
	f()
}

// each runs f in up to limit goroutines.
func each(n, limit int, f func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	thrown := make([]*Panic, min(n, limit))
	for worker := range thrown {
		all.Go(func() {
			defer catch(&thrown[worker])
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	all.Wait()
	for _, p := range thrown {
		p.throw()
	}
}

// catch recovers a panic and stores it in p. It must be deferred.
func catch(p **Panic) {
	if value := recover(); value != nil {
		*p = &Panic{value, debug.Stack()}
	}
}

func (p *Panic) throw() {
	if p != nil {
		panic(p)
	}
}

// patience returns until when a ledger is asked again: half of the remaining time, so that the sink has the other half.
func (c Clock) patience(ctx context.Context) (until time.Time) {
	now := c.Now()
	deadline, ok := ctx.Deadline()
	if !ok {
		return now.Add(patienceWithoutDeadline)
	}
	return now.Add(deadline.Sub(now) / 2)
}

// end returns until when what must not fail is tried: all of the remaining time.
func (c Clock) end(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return c.Now().Add(patienceWithoutDeadline)
}

// machine returns a function that returns the present moment by the clocks of this machine.
func (c Clock) machine() func() serverclock.Moment {
	start := c.Now()
	return func() serverclock.Moment {
		now := c.Now()
		return serverclock.Moment{Wall: now.Round(0), Monotonic: now.Sub(start)}
	}
}

// patienceWithoutDeadline is long enough for DynamoDB to split the traffic of a hot partition, and for a failover.
const patienceWithoutDeadline = 30 * time.Second

// askUntil calls ask, with pauses, as long as it returns true. It gives up at the time until, or when the context ends.
func (c Clock) askUntil(ctx context.Context, until time.Time, ask func() (again bool)) {
	for wait := firstPause; ask(); wait = min(2*wait, maxPause) {
		if c.Now().Add(wait).After(until) || c.Pause(ctx, wait) != nil {
			return
		}
	}
}

// The pauses between two questions to a busy ledger.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)
