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

// TestFailedHeartbeats: only those that are confirmed count. The context ends before the lease, and the release comes
// within it.
func TestFailedHeartbeats(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "prolong" && time.Now().Second() >= 15 {
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		took, cause, err := until(t, t.Context(), f.runner(idempotency.Settings{Lease: 30 * time.Second}), nil)
		// The heartbeat after 10 seconds is confirmed. The reserve is 3 seconds.
		if took < 35*time.Second || took > 37*time.Second || !errors.Is(cause, idempotency.ErrLeaseLost) ||
			!errors.Is(err, idempotency.ErrLeaseLost) || f.row("k").LeaseEnd.Unix() != 0 {
			t.Error(took, cause, err, f.row("k"))
		}
	})
}

func TestLeaseUntilDeadline(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		begun, leaseEnd := time.Now(), time.Time{}
		r := f.runner(idempotency.Settings{LeaseUntilDeadline: true})
		took, _, _ := until(t, ctx, r, func() { leaseEnd = f.row("k").LeaseEnd })
		if lease := leaseEnd.Sub(begun); lease < 10*time.Minute || lease > 10*time.Minute+2*time.Second {
			t.Error("the lease is", lease)
		}
		if took < 9*time.Minute+50*time.Second || took > 9*time.Minute+58*time.Second {
			t.Error("the context ended after", took)
		}
		if got := f.told(); got != "[read put release]" {
			t.Error(got)
		}
	})
}

// TestLateReply: a lease of which less than half is left is put again before the function runs. The early clock knows
// only the Date of the late reply, so the second lease is too short, too. Its own reply sets the clock right.
func TestLateReply(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			a, err := do()
			if name == "put" {
				time.Sleep(20 * time.Second)
			}
			return a, err
		}
		r := f.runner(idempotency.Settings{})
		if out, err := idempotency.Do(t.Context(), r, "k", order{}, charge); err != nil || out.Replayed {
			t.Error(out, err)
		}
		if got := f.told(); got != "[read put replace replace complete]" {
			t.Error(got)
		}
	})
}

// TestLatePutOverTheOwnRow: the function does not begin while a put over the own row may be on its way. It would run
// with a number and a lease that the row has no longer.
func TestLatePutOverTheOwnRow(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		puts, replaces := 0, 0
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			switch {
			case name == "put" && puts == 0: // so slow that the lease seems too short
				puts++
				time.Sleep(9500 * time.Millisecond)
			case name == "replace" && replaces == 0:
				replaces++
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		out, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", order{}, charge)
		if got := f.told(); err != nil || got != "[read put replace put replace complete]" || out.Number != f.row("k").Number {
			t.Error(got, out, err)
		}
	})
}

// TestLatePutOfTheSameLeaseEnd: leases that last until a deadline end at the same time. A late put over the own row must
// not take effect after another such put, with which the function began.
func TestLatePutOfTheSameLeaseEnd(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		puts, late := 0, func() (engine.Answer, error) { return engine.Answer{}, nil }
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			switch {
			case name == "put" && puts == 0: // so slow that the lease seems too short
				puts++
				time.Sleep(6 * time.Second)
			case name == "replace" && puts == 1:
				puts++
				late = do
				return engine.Answer{}, idempotency.ErrTryAgain
			case name == "put" && puts == 2: // Dates have whole seconds
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second)))
			}
			return do()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var before, after *engine.Record
		out, err := idempotency.Do(ctx, f.runner(idempotency.Settings{LeaseUntilDeadline: true}), "k", order{},
			func(ctx context.Context, e execution, in order) (receipt, error) {
				before = f.row("k")
				if answer, err := late(); err != nil || answer.Done {
					t.Error("the late put takes effect", answer, err)
				}
				after = f.row("k")
				return charge(ctx, e, in)
			})
		if got := f.told(); err != nil || got != "[read put replace put replace complete]" || out.Number != f.row("k").Number {
			t.Error(got, out, err)
		}
		if !before.LeaseEnd.Equal(after.LeaseEnd) || before.Number != after.Number {
			t.Error(before, after)
		}
	})
}

// TestCopiesAndTheLateClock: near its expiry a record is taken neither from a cheap read nor from a call of the same
// process. Only the store says whether it counts.
func TestCopiesAndTheLateClock(t *testing.T) {
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
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{Window: time.Minute})
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			a, err := do()
			if name == "complete" {
				time.Sleep(time.Until(f.row("k").Expiry.Add(-time.Second))) // the reply is slow
			}
			return a, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = idempotency.Do(t.Context(), r, "k", order{}, charge)
		}()
		time.Sleep(time.Second)
		out, err := idempotency.Do(t.Context(), r, "k", order{}, charge)
		if <-ended; err != nil || !out.Replayed || f.told() != "[read put complete put]" {
			t.Error("the result of the other call is used", out, err)
		}
	})
}
