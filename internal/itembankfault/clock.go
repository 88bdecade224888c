package itembankfault

import (
	"context"
	"sync"
	"time"
)

// Clock is an itembank.Clock that only a test moves. Sleep moves it, and does not wait.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock makes a Clock that shows the present.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// Now returns what the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
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

// Sleep moves the clock and returns at once.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	c.Advance(d)
	return ctx.Err()
}
