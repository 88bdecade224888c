package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Counters makes effects of an engine for RunTransactor. A counter that no effect has changed is 0.
type Counters interface {
	// Add returns effects that add 1 to a counter, then to another one. The second part is refused if the second counter
	// is not 0. If the names are the same, there is only the first part.
	Add(counter, onlyOnce string) engine.Effects
	// Count reads a counter.
	Count(t testing.TB, counter string) int
}

// RunTransactor checks an engine that completes records together with effects. open returns a store for one case, as for
// Run, and effects on it.
func RunTransactor(t *testing.T, open func(testing.TB) (engine.Transactor, Counters)) {
	t.Helper()
	var all []testCase
	for name, test := range transactorCases {
		all = append(all, testCase{name, func(r *run) {
			counters := r.store.(withCounters)
			test(&transactorRun{r, counters, r.key.Name + "-a", r.key.Name + "-b"})
		}})
	}
	runCases(t, all, func(t testing.TB) engine.Store {
		store, counters := open(t)
		return withCounters{store, counters}
	})
}

type withCounters struct {
	engine.Transactor
	Counters
}

// transactorRun is the run of a case on a key and two counters of its own.
type transactorRun struct {
	*run
	store withCounters
	a, b  string
}

func (r *transactorRun) complete(token string) engine.Answer {
	r.Helper()
	return r.ask(r.send(token))
}

func (r *transactorRun) send(token string) (engine.Answer, error) {
	return r.store.CompleteWith(r.Context(), r.key, token, completion(), r.store.Add(r.a, r.b))
}

func (r *transactorRun) counts(a, b int) {
	r.Helper()
	if gotA, gotB := r.store.Count(r, r.a), r.store.Count(r, r.b); gotA != a || gotB != b {
		r.Errorf("the counters are %d and %d, want %d and %d", gotA, gotB, a, b)
	}
}

// use makes the second counter 1, so that the effects of the case are refused.
func (r *transactorRun) use() {
	r.Helper()
	other := r.key
	other.Name += "-other"
	r.ask(r.store.Put(r.Context(), other, progress()))
	a := r.ask(r.store.CompleteWith(r.Context(), other, "mine", completion(), r.store.Add(r.b, r.b)))
	if !a.Done {
		r.Fatalf("got %+v", a)
	}
}

var transactorCases = map[string]func(*transactorRun){
	"effects": func(r *transactorRun) {
		r.put(progress())
		r.done(r.complete("mine"), completed())
		r.counts(1, 1)
		if a := r.complete("mine"); !a.Done { // a repeat may be answered without a look at the row
			r.refused(a, ref(completed()))
		}
		r.is(ref(completed()))
		r.counts(1, 1)
	},
	"effects-absent": func(r *transactorRun) {
		r.refused(r.complete("mine"), nil)
		r.counts(0, 0)
	},
	"effects-of-another-token": func(r *transactorRun) {
		r.put(progress())
		r.refused(r.complete("other"), ref(progress()))
		r.counts(0, 0)
	},
	"effects-after-release": func(r *transactorRun) {
		r.put(progress())
		r.release("mine")
		r.refused(r.complete("mine"), ref(released()))
		r.counts(0, 0)
	},
	"effects-of-a-completed-record": func(r *transactorRun) {
		r.put(progress())
		r.run.complete("mine")
		r.refused(r.complete("mine"), ref(completed()))
		r.counts(0, 0)
	},
	"effects-refused": func(r *transactorRun) {
		r.use()
		r.put(progress())
		a, err := r.send("mine")
		if _, ok := errors.AsType[*engine.RefusedError](err); !ok || errors.Is(err, engine.ErrTryAgain) {
			r.Errorf("want refused effects, got %+v, %v", a, err)
		}
		r.is(ref(progress()))
		r.counts(0, 1)
		r.done(r.release("mine"), released())
	},
	"effects-refused-and-the-record": func(r *transactorRun) { // the record decides first
		r.use()
		r.put(progress())
		r.refused(r.complete("other"), ref(progress()))
		r.counts(0, 1)
	},
	"effects-of-another-engine": func(r *transactorRun) {
		if err := r.store.CheckEffects(r.key, r.store.Add(r.a, r.b)); err != nil {
			r.Error(err)
		}
		for _, effects := range []engine.Effects{nil, "text", struct{}{}} {
			if err := r.store.CheckEffects(r.key, effects); err == nil {
				r.Errorf("%T has no error", effects)
			}
		}
	},
	"effects-of-calls": (*transactorRun).calls,
}

func ref(record engine.Record) *engine.Record { return &record }

func released() engine.Record {
	row := progress()
	row.Token, row.LeaseEnd = "next", zero
	return row
}

// calls has 15 calls of 3 keys in 5 processes at once, whose effects are on one counter. Each key counts once. Some
// functions fail first.
func (r *transactorRun) calls() {
	const processes, keys = 5, 3
	ctx, cancel := context.WithTimeout(r.Context(), mostTime)
	defer cancel()
	var runs atomic.Int64
	var all sync.WaitGroup
	for range processes {
		runner, err := idempotency.New(r.store.Transactor, r.key.Namespace, idempotency.Settings{})
		if err != nil {
			r.Fatal(err)
		}
		for n := range keys {
			all.Go(func() {
				fn := func(_ context.Context, e idempotency.Execution, _ int) (int, error) {
					e.Commit(r.store.Add(r.a, r.a))
					if runs.Add(1)%2 == 1 {
						return 0, errFirst
					}
					return n, nil
				}
				for {
					out, err := idempotency.Do(ctx, runner, r.key.Name+fmt.Sprint(n), n, fn)
					if errors.Is(err, errFirst) {
						continue
					}
					if err != nil || out.Value != n {
						r.Errorf("key %d: got %+v and %v", n, out, err)
					}
					return
				}
			})
		}
	}
	all.Wait()
	r.counts(keys, 0)
}

var errFirst = errors.New("fails first")
