package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// until runs a function that takes until its context ends, and returns how long that was and why it ended.
func until(
	t *testing.T, ctx context.Context, r *idempotency.Runner, first func(),
) (took time.Duration, cause, err error) {
	t.Helper()
	_, err = idempotency.Do(ctx, r, "k", order{}, func(ctx context.Context, _ execution, _ order) (int, error) {
		if first != nil {
			first()
		}
		begun := time.Now()
		<-ctx.Done()
		took, cause = time.Since(begun), context.Cause(ctx)
		return 0, ctx.Err()
	})
	return took, cause, err
}

// TestRefusedHeartbeat: it ends the context at once.
func TestRefusedHeartbeat(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		took, cause, err := until(t, t.Context(), f.runner(idempotency.Settings{Lease: 30 * time.Second}), func() {
			row := f.row("k")
			other := *row
			other.Token = "another"
			if a, err := f.Calls.Replace(t.Context(), engine.Key{Namespace: "shop", Name: "k"}, row.Version(), other); !a.Done {
				t.Error(err)
			}
		})
		if took != 10*time.Second || !errors.Is(cause, idempotency.ErrLeaseLost) || !errors.Is(err, idempotency.ErrLeaseLost) {
			t.Error(took, cause, err)
		}
	})
}

// TestFailedHeartbeats: the context ends before the lease, so that the release comes within it.
func TestFailedHeartbeats(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "prolong" {
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		took, cause, err := until(t, t.Context(), f.runner(idempotency.Settings{Lease: 30 * time.Second}), nil)
		if took < 25*time.Second || took > 27*time.Second || !errors.Is(cause, idempotency.ErrLeaseLost) ||
			!errors.Is(err, idempotency.ErrLeaseLost) || f.row("k").LeaseEnd.Unix() != 0 {
			t.Error(took, cause, err, f.row("k"))
		}
	})
}

// TestCheapReadAndTheLateClock: near its expiry a record is not taken from a cheap read. Only the store says whether it
// counts.
func TestCheapReadAndTheLateClock(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{Window: time.Minute})
		for range 3 {
			if _, err := idempotency.Do(t.Context(), r, "k", order{}, charge); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Until(f.row("k").Expiry.Add(-time.Second)))
		f.told()
		out, err := idempotency.Do(t.Context(), r, "k", order{}, charge)
		if got := f.told(); err != nil || !out.Replayed || got != "[cheap-read put]" {
			t.Error("the cheap read is used, or was not sent", out, got, err)
		}
	})
}
