package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

var withCache = idempotency.Settings{Window: time.Minute, CacheBytes: 1 << 20}

// TestCache: replays of completed records cost no requests, whether this process has completed them or another one. They
// say what the store says: a result, a final failure, that the result is not stored, or that the payload is another.
func TestCache(t *testing.T) {
	t.Parallel()
	refused := func(context.Context, execution, order) (receipt, error) {
		return receipt{}, idempotency.Final(errors.New("refused"))
	}
	large := func(context.Context, execution, order) (receipt, error) {
		return receipt{strings.Repeat("x", 2000)}, nil
	}
	for name, test := range map[string]struct {
		function func(context.Context, execution, order) (receipt, error)
		want     error
	}{
		"result":        {charge, nil},
		"final failure": {refused, idempotency.ErrFailed},
		"not stored":    {large, idempotency.ErrResultNotStored},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				runs, reports := f.observed(withCache)
				reads, patient := f.runner(withCache), withCache
				patient.DoNotWait = true
				hasty := f.runner(patient)
				first, _ := idempotency.Do(t.Context(), runs, "k", order{Amount: 1}, test.function)
				for _, r := range []*idempotency.Runner{reads, hasty} {
					_, _ = idempotency.Do(t.Context(), r, "k", order{Amount: 1}, test.function)
				}
				f.told()
				for _, r := range []*idempotency.Runner{runs, reads, hasty} {
					out, err := idempotency.Do(t.Context(), r, "k", order{Amount: 1}, charge)
					if !errors.Is(err, test.want) || out.Number != f.row("k").Number || !out.Replayed ||
						err == nil && out.Value != first.Value {
						t.Error(out, err)
					}
					if _, err := idempotency.Do(t.Context(), r, "k", order{Amount: 2}, charge); !errors.Is(err, idempotency.ErrOtherPayload) {
						t.Error(err)
					}
				}
				if got := f.told(); got != "[]" {
					t.Error(got)
				}
				stored := errors.Is(test.want, idempotency.ErrResultNotStored)
				reports.wants(t, idempotency.Report{Ran: true, NotStored: stored}, idempotency.Report{Replayed: true},
					idempotency.Report{OtherPayload: true})
			})
		})
	}
}

// TestCallersCannotChangeTheCache: each caller gets bytes of its own.
func TestCallersCannotChangeTheCache(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(withCache)
		for range 3 {
			out, err := r.Do(t.Context(), "k", nil, result)
			if err != nil || string(out.Value.Body) != "charged" {
				t.Error(out, err)
			}
			out.Value.Body[0] = 'X'
		}
	})
}

// TestCacheBytes: the cache keeps the copies that were used last, within its bytes.
func TestCacheBytes(t *testing.T) {
	t.Parallel()
	const size = 512 + 1 + 500 // of a copy: its own bytes, its key and its result
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{CacheBytes: 3*size - 1}) // room for two
		do := func(key string, bytes int, requests string) {
			t.Helper()
			_, err := r.Do(t.Context(), key, nil, func(context.Context, execution) (idempotency.Result, error) {
				return idempotency.Result{ContentType: "text", Body: make([]byte, bytes-len("text"))}, nil
			})
			if got := f.told(); err != nil || got != requests {
				t.Errorf("key %s: %s, %v", key, got, err)
			}
			if copies, used := r.Copies(); used > 3*size-1 || used < copies*512 {
				t.Error(copies, used)
			}
		}
		do("a", 500, "[read put complete]")
		do("b", 500, "[put complete]")
		do("a", 500, "[]")             // used last
		do("c", 500, "[put complete]") // takes the place of b
		do("a", 500, "[]")
		do("c", 500, "[]")
		do("b", 500, "[put]")
		do("c", 500, "[]")
		do("b", 500, "[]")
		if copies, used := r.Copies(); copies != 2 || used != 2*size {
			t.Error(copies, used)
		}
	})
	in(t, func(t *testing.T, f *fixture) { // a result that is larger than the cache takes no place of others
		r := f.runner(idempotency.Settings{CacheBytes: 2 * size})
		for _, bytes := range []int{500, 900} {
			_, err := r.Do(t.Context(), fmt.Sprint(bytes/100), nil, func(context.Context, execution) (idempotency.Result, error) {
				return idempotency.Result{Body: make([]byte, bytes)}, nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		r = f.runner(idempotency.Settings{CacheBytes: size})
		for _, key := range []string{"5", "9"} {
			if _, err := r.Do(t.Context(), key, nil, result); err != nil {
				t.Error(err)
			}
		}
		if copies, used := r.Copies(); copies != 1 || used != size {
			t.Error(copies, used)
		}
	})
}

// TestEvictAndCaches: an eviction is seen by the Runner that makes it. Another Runner uses its copy until the window of
// the record is over.
func TestEvictAndCaches(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		operator, server := f.runner(withCache), f.runner(withCache)
		first, err := idempotency.Do(t.Context(), server, "k", order{}, charge)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := idempotency.Do(t.Context(), operator, "k", order{}, charge); err != nil {
			t.Fatal(err)
		}
		expiry := f.row("k").Expiry
		if _, err := operator.Evict(t.Context(), "k", idempotency.Eviction{Number: first.Number}); err != nil {
			t.Fatal(err)
		}
		f.told()
		out, err := idempotency.Do(t.Context(), server, "k", order{}, charge)
		if got := f.told(); err != nil || out.Value != first.Value || got != "[]" {
			t.Error("the server does not use its copy:", out, err, got)
		}
		time.Sleep(30 * time.Second)
		out, err = idempotency.Do(t.Context(), operator, "k", order{}, charge)
		if err != nil || out.Replayed || out.Value == first.Value {
			t.Error("the eviction is not seen:", out, err)
		}
		second := out.Value
		time.Sleep(time.Until(expiry))
		if out, err = idempotency.Do(t.Context(), server, "k", order{}, charge); err != nil || out.Value != second {
			t.Error("the copy is used for longer than its window:", out, err)
		}
	})
}

// TestEvictWithoutARecord: if somebody has deleted the row of a key, an eviction removes its copy.
func TestEvictWithoutARecord(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(withCache)
		first, err := idempotency.Do(t.Context(), r, "k", order{}, charge)
		if err != nil {
			t.Fatal(err)
		}
		f.around = func(string, func() (engine.Answer, error)) (engine.Answer, error) {
			return engine.Answer{Date: time.Now()}, nil
		}
		evict := idempotency.Eviction{Number: first.Number}
		if _, err := r.Evict(t.Context(), "k", evict); !errors.Is(err, idempotency.ErrNoRecord) {
			t.Error(err)
		}
		f.around = func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) { return do() }
		f.told()
		if _, err := idempotency.Do(t.Context(), r, "k", order{}, charge); err != nil || f.told() == "[]" {
			t.Error("the copy is used:", err)
		}
	})
}

// TestEvictAndStaleReads: a call that reads the evicted record after the eviction may return it. It does not bring it
// back into the cache.
func TestEvictAndStaleReads(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(withCache)
		first, err := idempotency.Do(t.Context(), r, "k", order{}, charge)
		if err != nil {
			t.Fatal(err)
		}
		old := f.row("k")
		if _, err := r.Evict(t.Context(), "k", idempotency.Eviction{Number: first.Number}); err != nil {
			t.Fatal(err)
		}
		f.around = func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) {
			a, err := do()
			a.Done, a.Row = false, old
			return a, err
		}
		if out, err := idempotency.Do(t.Context(), r, "k", order{}, charge); err != nil || out.Value != first.Value {
			t.Error(out, err)
		}
		f.around = func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) { return do() }
		f.told()
		for _, requests := range []string{"[put replace complete]", "[]"} {
			out, err := idempotency.Do(t.Context(), r, "k", order{}, charge)
			if got := f.told(); err != nil || out.Number <= first.Number || got != requests {
				t.Error(out, err, got)
			}
		}
	})
}
