package dedupe

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncebox/oncebox/internal/pause"
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
	// Each runs f for the numbers from 0 to n-1, up to limit of them at the same time if it can, and returns when all have
	// ended.
	Each func(n, limit int, f func(i int))
}

// OrReal returns the clock with real time for what is not set.
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

// Panic is a panic in another goroutine of a Processor. It is thrown again in that of the caller, who may catch it.
type Panic struct {
	Value any
	Stack []byte // at the place of the panic
}

// String is what the runtime prints of a panic that is not recovered.
func (p *Panic) String() string { return fmt.Sprintf("%v\n\n%s", p.Value, p.Stack) }

// both runs g in a goroutine of its own.
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

// each runs f in as many goroutines as the limit allows.
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

// catch keeps a panic. It is deferred.
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

// askUntil asks a ledger, and asks it again, with pauses, as long as an answer says so. It gives up at a time, or when
// the context ends.
func (c Clock) askUntil(ctx context.Context, until time.Time, ask func() (again bool)) {
	for wait := firstPause; ask(); wait = min(2*wait, maxPause) {
		if c.Now().Add(wait).After(until) || c.Pause(ctx, wait) != nil {
			return
		}
	}
}

// The pauses between two questions to a ledger that is busy.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)
