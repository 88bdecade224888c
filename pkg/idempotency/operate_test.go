package idempotency_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// result is a function of the untyped form that succeeds.
func result(context.Context, execution) (idempotency.Result, error) {
	return idempotency.Result{Body: []byte("charged")}, nil
}

// afterwards returns a function that succeeds after some time.
func afterwards(d time.Duration) func(context.Context, execution) (idempotency.Result, error) {
	return func(ctx context.Context, e execution) (idempotency.Result, error) {
		time.Sleep(d)
		return result(ctx, e)
	}
}

// TestEvictSentTwice: an engine sends a write again by itself, and the first one refuses the second.
func TestEvictSentTwice(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "replace" || name == "release" {
				_, _ = do()
			}
			return do()
		}
		evict := func() {
			t.Helper()
			e := idempotency.Eviction{Number: f.row("k").Number, Running: true}
			if freed, err := r.Evict(t.Context(), "k", e); err != nil || freed == nil {
				t.Error(freed, err)
			}
		}
		if _, err := r.Do(t.Context(), "k", nil, result); err != nil {
			t.Fatal(err)
		}
		evict()
		go func() { _, _ = r.Do(t.Context(), "k", nil, afterwards(time.Minute)) }()
		time.Sleep(time.Second)
		evict()
		time.Sleep(time.Hour)
	})
}

// TestEvictBesideItsExecution: between the read and the write of an eviction a heartbeat does not stop it. A completion
// does.
func TestEvictBesideItsExecution(t *testing.T) {
	t.Parallel()
	for pause, want := range map[time.Duration]error{time.Minute: nil, 2 * time.Hour: idempotency.ErrChanged} {
		in(t, func(t *testing.T, f *fixture) {
			r := f.runner(idempotency.Settings{})
			go func() { _, _ = r.Do(t.Context(), "k", nil, afterwards(time.Hour)) }()
			time.Sleep(time.Second)
			synctest.Wait()
			f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
				if name == "release" || name == "replace" {
					time.Sleep(pause)
				}
				return do()
			}
			freed, err := r.Evict(t.Context(), "k", idempotency.Eviction{Number: f.row("k").Number, Running: true})
			if !errors.Is(err, want) || (freed != nil) != (want == nil) {
				t.Error("after", pause, freed, err)
			}
			time.Sleep(2 * time.Hour)
		})
	}
}
