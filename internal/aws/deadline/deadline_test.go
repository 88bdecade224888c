package deadline_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/aws/deadline"
)

func TestWithMargin(t *testing.T) {
	t.Parallel()
	for left, want := range map[time.Duration]time.Duration{
		time.Minute:            time.Minute - deadline.Margin,
		time.Second:            500 * time.Millisecond,
		600 * time.Millisecond: 300 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), left)
			defer cancel()
			ctx, cancel = deadline.WithMargin(ctx)
			defer cancel()
			until, ok := ctx.Deadline()
			if got := time.Until(until); !ok || got != want {
				t.Errorf("%v left: want %v for the work, got %v", left, want, got)
			}
		})
	}
	ctx, cancel := deadline.WithMargin(t.Context())
	if until, ok := ctx.Deadline(); ok {
		t.Errorf("a context without a deadline got %v", until)
	}
	cancel()
	if ctx.Err() == nil {
		t.Error("cancel does not end the context")
	}
}
