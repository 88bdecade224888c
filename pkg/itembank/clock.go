package itembank

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/pause"
)

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error { return pause.For(ctx, d) }

// now returns the own time with the precision of the store.
func (b *Bank) now() time.Time { return wholeMillis(b.clock.Now()) }

// serverNow returns a lower bound of the server's time, or the own time where the server's is not
// known. It decides what has begun and ended, and makes ends: a hold that a container with a slow
// clock makes lasts as long as any other.
func (b *Bank) serverNow() time.Time {
	if t := b.store.ServerTime(); !t.IsZero() {
		return wholeMillis(t)
	}
	return b.now()
}

// closersNow returns serverNow, and never more than the own time. Nothing is closed before it: too
// late is only a delay, too early would take an item from its holder.
func (b *Bank) closersNow() time.Time {
	server, own := b.serverNow(), b.now()
	if own.Before(server) {
		return own
	}
	return server
}

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
