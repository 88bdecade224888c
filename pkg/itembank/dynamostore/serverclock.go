package dynamostore

import (
	"sync"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

// serverClock has a lower bound of DynamoDB's time, from the Date of its latest response. Clocks of Lambda containers
// and laptops can be wrong by minutes.
type serverClock struct {
	mu       sync.Mutex
	date     time.Time
	received time.Time // when this machine received it, by its own clock
}

// observe records the Date of a response.
func (c *serverClock) observe(response middleware.Metadata) {
	date, ok := awsmiddleware.GetServerTime(response)
	if !ok {
		return
	}
	received := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if date.After(c.at(received)) { // a Date has whole seconds, and responses arrive in any order
		c.date, c.received = date, received
	}
}

// now returns the latest Date plus the time since then. The time since is the smaller of the two measurements, by the
// wall clock and by the monotonic clock, because the wall clock may have been set.
func (c *serverClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at(time.Now())
}

func (c *serverClock) at(now time.Time) time.Time {
	if c.date.IsZero() {
		return time.Time{}
	}
	passed := min(now.Sub(c.received), now.Round(0).Sub(c.received.Round(0)))
	return c.date.Add(max(passed, 0)).UTC()
}

// ServerTime implements engine.Store. The Date of an HTTP response has whole seconds. So the bound is early by up to a
// second, plus the time that the response travels.
func (s *Store) ServerTime() time.Time { return s.server.now() }
