package itembankfault

import (
	"context"
	"sync"
	"time"
)

// Clock is an itembank.Clock that only a test moves. Sleep moves it, and does not wait.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	flows  bool      // with the time of a synctest bubble
	bubble time.Time // when the clock was read last
}

// NewClock makes a Clock that shows the present.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// newBubbleClock makes a Clock that goes on with the time of the caller's synctest bubble, too.
// Its Sleep waits.
func newBubbleClock() *Clock { return &Clock{now: time.Now(), flows: true, bubble: time.Now()} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flows {
		now := time.Now()
		c.now, c.bubble = c.now.Add(now.Sub(c.bubble)), now
	}
	return c.now
}

// ahead is a clock that is ahead of another one.
type ahead struct {
	*Clock
	by time.Duration
}

// Now returns what the clock shows.
func (a ahead) Now() time.Time { return a.Clock.Now().Add(a.by) }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// SetTo moves the clock to a time, forward or back.
func (c *Clock) SetTo(to time.Time) { c.Advance(to.Round(0).Sub(c.Now())) }

// Sleep moves the clock and returns at once. In a bubble it waits.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	if !c.flows {
		c.Advance(d)
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
