package idempotency_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

var errCard = errors.New("card refused")

// result is a function of the untyped form that succeeds.
func result(context.Context, execution) (idempotency.Result, error) {
	return idempotency.Result{Body: []byte("charged")}, nil
}

func failure(context.Context, execution) (idempotency.Result, error) {
	return idempotency.Result{}, errCard
}

// afterwards returns a function that succeeds after some time.
func afterwards(d time.Duration) func(context.Context, execution) (idempotency.Result, error) {
	return func(ctx context.Context, e execution) (idempotency.Result, error) {
		time.Sleep(d)
		return result(ctx, e)
	}
}

// TestExplain: what is explained is what the next call then does, and nothing is changed.
func TestExplain(t *testing.T) {
	t.Parallel()
	mine, other := []byte("order 1"), []byte("order 2")
	type calls = func(r *idempotency.Runner)
	do := func(r *idempotency.Runner, fn func(context.Context, execution) (idempotency.Result, error)) {
		_, _ = r.Do(context.Background(), "k", mine, fn) // not the context of t, which is outside of the bubbles
	}
	for name, test := range map[string]struct {
		before    calls
		own, next idempotency.NextCall // of the same payload, and of another one
	}{
		"no record":   {func(*idempotency.Runner) {}, idempotency.NextRuns, idempotency.NextRuns},
		"completed":   {func(r *idempotency.Runner) { do(r, result) }, idempotency.NextReplays, idempotency.NextRefused},
		"failed":      {func(r *idempotency.Runner) { do(r, failure) }, idempotency.NextRuns, idempotency.NextRuns},
		"in progress": {func(r *idempotency.Runner) { go do(r, afterwards(time.Hour)) }, idempotency.NextWaits, idempotency.NextRefused},
		"window over": {
			func(r *idempotency.Runner) { do(r, result); time.Sleep(time.Minute + 3*time.Second) },
			idempotency.NextRuns, idempotency.NextRuns,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				test.before(f.runner(idempotency.Settings{Window: time.Minute}))
				time.Sleep(time.Second)
				synctest.Wait()
				before := f.row("k")
				f.told()
				r := f.runner(idempotency.Settings{DoNotWait: true})
				for _, look := range []struct {
					payload []byte
					want    idempotency.NextCall
				}{{nil, test.own}, {mine, test.own}, {other, test.next}} {
					got, err := r.Explain(t.Context(), "k", look.payload)
					if err != nil || got.Next != look.want || !reflect.DeepEqual(got.Record, before) {
						t.Errorf("%q: want %s of %+v, got %+v, %v", look.payload, look.want, before, got, err)
					}
				}
				if got := f.told(); got != "[read read read]" || !reflect.DeepEqual(f.row("k"), before) {
					t.Error("something else than a read:", got)
				}
				for _, look := range []struct {
					payload []byte
					next    idempotency.NextCall
				}{{other, test.next}, {mine, test.own}} {
					if look.next == idempotency.NextRuns && string(look.payload) == string(other) {
						continue // it would take the key
					}
					out, err := r.Do(t.Context(), "k", look.payload, result)
					got := idempotency.NextRuns
					switch {
					case errors.Is(err, idempotency.ErrInProgress):
						got = idempotency.NextWaits
					case errors.Is(err, idempotency.ErrOtherPayload):
						got = idempotency.NextRefused
					case out.Replayed:
						got = idempotency.NextReplays
					}
					if got != look.next {
						t.Errorf("%q: explained as %s, and it %s: %v", look.payload, look.next, got, err)
					}
				}
				time.Sleep(2 * time.Hour)
			})
		})
	}
}

// TestEvict: the function runs again with a larger number, late requests of the evicted execution find the row, and a
// repeat never evicts the execution that followed.
func TestEvict(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		evict := func(number int64) (*engine.Record, error) {
			return r.Evict(t.Context(), "k", idempotency.Eviction{Number: number})
		}
		if _, err := evict(1); !errors.Is(err, idempotency.ErrNoRecord) {
			t.Error(err)
		}
		first, err := r.Do(t.Context(), "k", nil, result)
		if err != nil {
			t.Fatal(err)
		}
		before := f.row("k")
		if _, err := evict(first.Number - 1); !errors.Is(err, idempotency.ErrOtherExecution) || f.row("k").Status != engine.Completed {
			t.Error(err, f.row("k"))
		}
		freed, err := evict(first.Number)
		if err != nil || !reflect.DeepEqual(freed, before) {
			t.Errorf("want %+v, got %+v, %v", before, freed, err)
		}
		row := f.row("k")
		if row.Number != first.Number || row.PurgeAt.Before(before.PurgeAt) || row.Token == before.Token || row.Result.Body != nil {
			t.Errorf("unexpected row %+v", row)
		}
		if freed, err := evict(first.Number); err != nil || freed != nil {
			t.Error("a free key was evicted", freed, err)
		}
		again, err := r.Do(t.Context(), "k", []byte("another payload"), result)
		if err != nil || again.Replayed || again.Number <= first.Number {
			t.Error(again, err)
		}
		if _, err := evict(first.Number); !errors.Is(err, idempotency.ErrOtherExecution) || f.row("k").Status != engine.Completed {
			t.Error(err, f.row("k"))
		}
	})
}

// TestEvictNumbers: the clock of the store is set back after the eviction, and the number grows nevertheless.
func TestEvictNumbers(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		first, err := r.Do(t.Context(), "k", nil, result)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Evict(t.Context(), "k", idempotency.Eviction{Number: first.Number}); err != nil {
			t.Fatal(err)
		}
		f.around = func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) {
			a, err := do()
			a.Date = a.Date.Add(-time.Hour)
			return a, err
		}
		if out, err := f.runner(idempotency.Settings{}).Do(t.Context(), "k", nil, result); err != nil || out.Number <= first.Number {
			t.Error(first.Number, out.Number, err)
		}
	})
}

// TestEvictRunning: an execution is evicted only if the caller says so. It does not complete then.
func TestEvictRunning(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		ended := make(chan error)
		go func() {
			_, err := r.Do(t.Context(), "k", nil, afterwards(time.Hour))
			ended <- err
		}()
		time.Sleep(time.Minute) // heartbeats prolong the lease
		synctest.Wait()
		running := *f.row("k")
		_, err := r.Evict(t.Context(), "k", idempotency.Eviction{Number: running.Number})
		if !errors.Is(err, idempotency.ErrInProgress) || f.row("k").Token != running.Token {
			t.Error(err)
		}
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "release" {
				time.Sleep(time.Minute) // a heartbeat comes between
			}
			return do()
		}
		freed, err := r.Evict(t.Context(), "k", idempotency.Eviction{Number: running.Number, Running: true})
		if err != nil || freed == nil || freed.Token != running.Token || f.row("k").Token == running.Token {
			t.Fatal(freed, err)
		}
		if err := <-ended; !errors.Is(err, idempotency.ErrLeaseLost) || f.row("k").Status != engine.InProgress {
			t.Error(err, f.row("k"))
		}
	})
}

// TestEvictAgainstOthers: between the read and the write of an eviction another call begins, or the execution
// completes. Then the eviction changes nothing.
func TestEvictAgainstOthers(t *testing.T) {
	t.Parallel()
	t.Run("begin", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, f *fixture) {
			r := f.runner(idempotency.Settings{Window: time.Minute})
			first, err := r.Do(t.Context(), "k", nil, result)
			if err != nil {
				t.Fatal(err)
			}
			f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
				if name != "replace" {
					return do()
				}
				f.around = func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) { return do() }
				time.Sleep(2 * time.Minute)
				if out, err := r.Do(t.Context(), "k", nil, result); err != nil || out.Replayed {
					t.Error(out, err)
				}
				return do()
			}
			_, err = r.Evict(t.Context(), "k", idempotency.Eviction{Number: first.Number})
			if row := f.row("k"); !errors.Is(err, idempotency.ErrChanged) || row.Status != engine.Completed || row.Number <= first.Number {
				t.Error(err, row)
			}
		})
	})
	t.Run("complete", func(t *testing.T) {
		t.Parallel()
		in(t, func(t *testing.T, f *fixture) {
			r := f.runner(idempotency.Settings{})
			go func() { _, _ = r.Do(t.Context(), "k", nil, afterwards(time.Minute)) }()
			time.Sleep(time.Second)
			synctest.Wait()
			f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
				if name == "release" {
					time.Sleep(2 * time.Minute)
				}
				return do()
			}
			_, err := r.Evict(t.Context(), "k", idempotency.Eviction{Number: f.row("k").Number, Running: true})
			if !errors.Is(err, idempotency.ErrChanged) || f.row("k").Status != engine.Completed {
				t.Error(err, f.row("k"))
			}
		})
	})
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
