package logledger

import (
	"testing"
	"time"
)

func TestNeededMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond float64
		window    time.Duration
		bytes     float64
	}{
		{1000, 16 * time.Minute, 32 * 1000 * 17 * 60},
		{1000, 32 * time.Hour, 32 * 1000 * 34 * 3600},
		{2, time.Minute, 32 * 2 * 120}, // an epoch lasts a minute at least
	} {
		if got := NeededMemory(c.perSecond, c.window); got != c.bytes {
			t.Errorf("%v/s, %s: got %v, want %v", c.perSecond, c.window, got, c.bytes)
		}
	}
}

// TestLongestWindow: the window fits, and one that is a minute longer does not.
func TestLongestWindow(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.001, 1, 900, 33_000, 100_000} {
		for _, memory := range []int64{1 << 29, 1 << 30, 6 << 30} {
			window := LongestWindow(perSecond, memory)
			fits, longer := NeededMemory(perSecond, window), NeededMemory(perSecond, window+time.Minute)
			if window <= 0 || fits > float64(memory) || longer <= float64(memory) && perSecond > 0.001 {
				t.Errorf("%v/s in %d bytes: %s takes %v, and a minute more %v", perSecond, memory, window, fits, longer)
			}
		}
	}
	if got := LongestWindow(1e6, 1<<20); got != 0 {
		t.Errorf("a window that does not fit is %s", got)
	}
}
