package itembank

import (
	"context"
	"time"
)

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// now returns the time with the precision of the store.
func (b *Bank) now() time.Time { return wholeMillis(b.clock.Now()) }

func wholeMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// elapsed returns the time between two moments: the larger of what the wall clock
// and the monotonic clock measured. The wall clock can be set back. The monotonic
// clock stands still while a machine or container is suspended.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
