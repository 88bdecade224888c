package itembank

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/shared/pause"
)

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return pause.For(ctx, d) }

// now returns this machine's time in whole milliseconds, as stores keep it.
func (b *Bank) now() time.Time { return wholeMillis(b.clock.Now()) }

// serverNow returns a lower bound of the server's time, or this machine's time if the engine has no time of its own. It
// decides what has begun and ended, and sets the ends of new claims. So the clock of a container neither makes a hold
// too short nor ends one too early or too late.
//
// Two calls may return times of which the second is earlier, by about two seconds (engine.Store.ServerTime).
func (b *Bank) serverNow() time.Time {
	if t := b.store.ServerTime(); !t.IsZero() {
		return wholeMillis(t)
	}
	return b.now()
}

func wholeMillis(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Millisecond)
}

// elapsed returns the time between two moments: the larger of the two measurements, by the wall clock and by the
// monotonic clock. The wall clock can be set back. The monotonic clock stands still while a machine or container is
// suspended.
func elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)))
}
