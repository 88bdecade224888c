package logledger_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
)

func TestNeededMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond float64
		window    time.Duration
		perItem   float64
		bytes     float64
	}{
		{1000, 16 * time.Minute, 500, 32 * 1000 * 17 * 60},
		{1000, 32 * time.Hour, 88, 32 * 1000 * 34 * 3600},
		{2, time.Minute, 4, (31 + 22) * 2 * 120}, // an epoch lasts at least a minute
	} {
		if got := logledger.NeededMemory(c.perSecond, c.window, c.perItem); got != c.bytes {
			t.Errorf("%v/s, %s: got %v, want %v", c.perSecond, c.window, got, c.bytes)
		}
	}
}

// TestLongestWindow: the window fits, and a window that is a minute longer does not.
func TestLongestWindow(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []float64{0.001, 1, 900, 33_000, 100_000} {
		for _, memory := range []int64{1 << 29, 1 << 30, 6 << 30} {
			window := logledger.LongestWindow(perSecond, memory, 10)
			fits := logledger.NeededMemory(perSecond, window, 10)
			longer := logledger.NeededMemory(perSecond, window+time.Minute, 10)
			if window <= 0 || fits > float64(memory) || longer <= float64(memory) && perSecond > 0.001 {
				t.Errorf("%v/s in %d bytes: %s takes %v, and a minute more %v", perSecond, memory, window, fits, longer)
			}
		}
	}
	if got := logledger.LongestWindow(1e6, 1<<20, 100); got != 0 {
		t.Errorf("a window that does not fit is %s", got)
	}
}

// TestNeededMemoryIsEnough runs a ledger at a rate for three windows. It fits into the needed memory, and not into
// three quarters of it.
func TestNeededMemoryIsEnough(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{20, 1000} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			t.Parallel()
			neededMemoryIsEnough(t, batch)
		})
	}
}

func neededMemoryIsEnough(t *testing.T, batch int) {
	const perSecond, lanes = 200, 2
	window := 16 * time.Minute
	if testing.Short() {
		window /= 4
	}
	every := time.Duration(batch) * time.Second / perSecond
	needed := int64(logledger.NeededMemory(perSecond, window, float64(batch)/lanes))
	for memory, fits := range map[int64]bool{needed: true, needed * 3 / 4: false} {
		l := newLedger(t, memlog.New(), logledger.Options{Lanes: lanes, Memory: memory})
		var full *logledger.MemoryError
		for n := 0; n < int(3*window/every) && full == nil; n++ {
			q := dedupe.Question{Scope: "orders", Retention: dedupe.Retention{Window: window, Horizon: time.Hour}}
			for i := range batch {
				id := fmt.Sprint(n*batch + i)
				q.Records = append(q.Records, candidate(id, id, "x", time.Duration(n)*every))
			}
			answers, err := l.Enter(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range answers {
				if a.Err != nil && !errors.As(a.Err, &full) {
					t.Fatal(a.Err)
				}
			}
		}
		if fits != (full == nil) {
			t.Errorf("%d bytes of %d: fits %t, and the ledger says %v", memory, needed, fits, full)
		}
	}
}
