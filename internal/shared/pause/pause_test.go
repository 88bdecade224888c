package pause_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/shared/pause"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := pause.For(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		begun = time.Now()
		if err := pause.UpTo(t.Context(), time.Minute); err != nil || time.Since(begun) < 30*time.Second || time.Since(begun) >= time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		for attempt, limit := range map[int]time.Duration{1: 1, 2: 2, 3: 4, 4: 5, 1000: 5} {
			begun = time.Now()
			err := pause.Growing(t.Context(), attempt, time.Second, 5*time.Second)
			if took := time.Since(begun); err != nil || took < limit*time.Second/2 || took >= limit*time.Second {
				t.Errorf("attempt %d: %v after %v", attempt, err, took)
			}
		}
		begun = time.Now()
		for attempt := 1; attempt < 6; attempt++ {
			if err := pause.BackOff(t.Context(), attempt); err != nil {
				t.Error(err)
			}
		}
		// The limits of services count for a second.
		if took := time.Since(begun); took < time.Second || took > 3*time.Second {
			t.Errorf("the pauses of six attempts took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if err := pause.For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
	})
}
