// Package serverclock bounds the time of a server by the Date of its last reply. Clocks of Lambda containers and
// laptops can be wrong by minutes, and can be set at any moment. So this machine's clocks only measure how much time
// has passed since the reply.
//
// [Clock.Early] is never after the server's time, and [Clock.Late] is never before it. What must not happen too early
// asks Early: whether the claim of another has ended. What must not happen too late asks Late: whether there is still
// time to use something.
package serverclock

import (
	"sync"
	"time"
)

// A Date has whole seconds, and a server may round it to the nearest one. So the server's time at the reply is between
// half a second before the Date and one second after it. The last half second of afterDate is for servers of one
// service whose clocks differ.
const (
	beforeDate = 500 * time.Millisecond
	afterDate  = 1500 * time.Millisecond
)

// Moment is a moment by the two clocks of a machine.
type Moment struct {
	// Wall is the time by the wall clock. The clock can be set forward or back.
	Wall time.Time
	// Monotonic is the time since an arbitrary moment by the monotonic clock. Nobody can set it, but it may stand
	// still while the machine or the container is frozen.
	Monotonic time.Duration
}

// since returns the time since an earlier moment by the monotonic clock, and the larger of the two measurements.
func (m Moment) since(earlier Moment) (monotonic, larger time.Duration) {
	monotonic = m.Monotonic - earlier.Monotonic
	return monotonic, max(monotonic, m.Wall.Sub(earlier.Wall))
}

// Clock knows two bounds of a server's time. It is safe for concurrent use.
type Clock struct {
	machine func() Moment
	mu      sync.Mutex
	last    reply
}

// reply is the last reply: the one whose request was sent last. Replies arrive in any order.
type reply struct {
	date           time.Time // zero: there was no reply
	sent, received Moment
}

// New returns a Clock that has seen no reply.
func New() *Clock {
	start := time.Now()
	return On(func() Moment {
		now := time.Now()
		return Moment{now.Round(0), now.Sub(start)}
	})
}

// On returns a Clock that has seen no reply, on a machine with other clocks. It is for tests.
func On(machine func() Moment) *Clock { return &Clock{machine: machine} }

// Moment returns the present moment by the clocks of this machine. Call it just before a request is sent.
func (c *Clock) Moment() Moment { return c.machine() }

// Observe tells the clock the Date of a reply that has just arrived, and when its request was sent. Only the last reply
// counts, even if its Date is earlier than that of the reply before: a wrong Date must not last.
func (c *Clock) Observe(date time.Time, sent Moment) {
	received := c.machine()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.date.IsZero() || sent.Monotonic >= c.last.sent.Monotonic {
		c.last = reply{date, sent, received}
	}
}

// Early returns a time that the server's clock has reached, or the zero time if there was no reply. It may be earlier
// than at the last call, by about two seconds if all Dates are right.
//
// It measures the time since the reply by the monotonic clock alone. The wall clock may have been set forward.
func (c *Clock) Early() time.Time {
	last := c.lastReply()
	if last.date.IsZero() {
		return time.Time{}
	}
	passed, _ := c.machine().since(last.received)
	return last.date.Add(passed - beforeDate).UTC()
}

// Late returns a time that the server's clock has not passed, or the zero time if there was no reply. Like Early, it
// may be earlier than at the last call.
//
// It measures the time since the reply by the clock that says more. The monotonic clock may have stood still.
func (c *Clock) Late() time.Time {
	last := c.lastReply()
	if last.date.IsZero() {
		return time.Time{}
	}
	_, roundTrip := last.received.since(last.sent)
	_, passed := c.machine().since(last.received)
	return last.date.Add(afterDate + roundTrip + passed).UTC()
}

func (c *Clock) lastReply() reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}
