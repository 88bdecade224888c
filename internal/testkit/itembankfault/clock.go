package itembankfault

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock is an itembank.Clock that moves only when a test moves it. Sleep moves it by the duration and does not wait.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	flows  bool      // the clock also follows the time of a synctest bubble
	bubble time.Time // the bubble's time at the last reading of the clock
}

// NewClock returns a Clock that starts at the present time.
func NewClock() *Clock { return &Clock{now: time.Now()} }

// newBubbleClock returns a Clock that also follows the time of the caller's synctest bubble. Its Sleep waits.
func newBubbleClock() *Clock { return &Clock{now: time.Now(), flows: true, bubble: time.Now()} }

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flows {
		now := time.Now()
		c.now, c.bubble = c.now.Add(now.Sub(c.bubble)), now
	}
	return c.now
}

// ahead is a clock that is ahead of another clock by a fixed duration.
type ahead struct {
	*Clock
	by time.Duration
}

// Now returns the time of the other clock plus the duration.
func (a ahead) Now() time.Time { return a.Clock.Now().Add(a.by) }

// mostBehind is how far a server's time that is known by replies is usually behind, at most.
const mostBehind = 2 * time.Second

// steppingBack shows the time of another clock, or a time up to mostBehind before it. So it often steps back, as a
// server's time does that is known by replies.
type steppingBack struct {
	*Clock
	readings atomic.Int64
}

// Now returns a time that is up to mostBehind before that of the other clock.
func (s *steppingBack) Now() time.Time {
	behind := []time.Duration{0, 700 * time.Millisecond, mostBehind}
	return s.Clock.Now().Add(-behind[s.readings.Add(1)%3])
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// SetTo sets the clock to a time, which may be earlier or later than its own.
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
