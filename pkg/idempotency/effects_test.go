package idempotency_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

func (f *fixture) CompleteWith(
	ctx context.Context, k engine.Key, token string, c engine.Completion, e engine.Effects,
) (engine.Answer, error) {
	return f.do("commit", func() (engine.Answer, error) { return f.Calls.CompleteWith(ctx, k, token, c, e) })
}

// booking is a function whose effect is counted, unless it is refused.
type booking struct {
	runs, booked int
	refuse       func() error // nil: never
	fail         error        // of the function
}

var errRefused = errors.New("the account is closed")

func (b *booking) run(_ context.Context, e execution, _ int) (string, error) {
	b.runs++
	e.Commit("is replaced")
	e.Commit(memstore.CallEffects(func() error {
		if b.refuse != nil {
			if err := b.refuse(); err != nil {
				return err
			}
		}
		b.booked++
		return nil
	}))
	return "booked", b.fail
}

// does calls the function once, and compares its runs, its effects and the requests.
func (b *booking) does(t *testing.T, f *fixture, runs, booked int, requests string) error {
	t.Helper()
	out, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", 0, b.run)
	if got := f.told(); b.runs != runs || b.booked != booked || got != requests || (err == nil) != (out.Value == "booked") {
		t.Errorf("want %d runs, %d effects and %s, got %d, %d and %s: %+v, %v", runs, booked, requests, b.runs, b.booked, got, out, err)
	}
	return err
}

// TestEffects: they happen once, with the result.
func TestEffects(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		b := &booking{}
		for _, requests := range []string{"[read put commit]", "[read]"} {
			if err := b.does(t, f, 1, 1, requests); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestEffectsOfFailures: a function that fails has no effects, also if the failure is final.
func TestEffectsOfFailures(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		b := &booking{fail: errRefused}
		if err := b.does(t, f, 1, 0, "[read put release]"); !errors.Is(err, errRefused) {
			t.Error(err)
		}
		b.fail = idempotency.Final(errRefused)
		if err := b.does(t, f, 2, 0, "[read replace complete]"); !errors.Is(err, errRefused) {
			t.Error(err)
		}
		if err := b.does(t, f, 2, 0, "[read]"); !errors.Is(err, idempotency.ErrFailed) {
			t.Error(err)
		}
	})
}

// TestEffectsOfAResultThatCannotBeStored: they happen once, with the completion (I5).
func TestEffectsOfAResultThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"not encodable": func() {}, "too large": strings.Repeat("x", 2000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				b := &booking{}
				for _, want := range []error{nil, idempotency.ErrResultNotStored} {
					_, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", 0,
						func(ctx context.Context, e execution, in int) (any, error) {
							_, err := b.run(ctx, e, in)
							return value, err
						})
					if !errors.Is(err, want) || b.runs != 1 || b.booked != 1 {
						t.Error(b.runs, b.booked, err)
					}
				}
			})
		})
	}
}

// TestEffectsWithoutAReply: the content of each try is the same, and a try whose reply was lost is found (rule 9).
func TestEffectsWithoutAReply(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		lost := 0
		var sent []engine.Completion
		s := &noting{f, &sent}
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			switch {
			case name != "commit":
				return do()
			case lost < 2: // did not arrive
				lost++
				time.Sleep(2 * time.Second)
				return engine.Answer{}, idempotency.ErrTryAgain
			case lost == 2: // arrived, and its reply was lost
				lost++
				_, _ = do()
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		b := &booking{}
		r, err := idempotency.New(s, "shop", idempotency.Settings{})
		if err != nil {
			t.Fatal(err)
		}
		out, err := idempotency.Do(t.Context(), r, "k", 0, b.run)
		if err != nil || out.Replayed || b.booked != 1 || len(sent) != 4 {
			t.Error(out, err, b, len(sent))
		}
		for _, c := range sent {
			if c.Expiry != sent[0].Expiry || !c.Expiry.Equal(f.row("k").Expiry) {
				t.Errorf("the content of a try has changed: %v, %v", c, f.row("k"))
			}
		}
	})
}

// noting notes the completions that are sent with effects.
type noting struct {
	*fixture
	sent *[]engine.Completion
}

func (n *noting) CompleteWith(
	ctx context.Context, k engine.Key, token string, c engine.Completion, e engine.Effects,
) (engine.Answer, error) {
	*n.sent = append(*n.sent, c)
	return n.fixture.CompleteWith(ctx, k, token, c, e)
}

// TestRefusedEffects: the key becomes free, and the caller gets the reason.
func TestRefusedEffects(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		b := &booking{refuse: func() error { return errRefused }}
		if err := b.does(t, f, 1, 0, "[read put commit release]"); !errors.Is(err, errRefused) {
			t.Error(err)
		}
		if row := f.row("k"); row.Status != engine.InProgress || row.LeaseEnd.Unix() != 0 {
			t.Error(row)
		}
		b.refuse = nil
		if err := b.does(t, f, 2, 1, "[read replace commit]"); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedEffectsAreNotFinal: refused effects free the key also with an error that is marked as final, and it does not become
// final for the key of its caller.
func TestRefusedEffectsAreNotFinal(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		b := &booking{refuse: func() error { return idempotency.Final(errRefused) }}
		_, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "order", 0,
			func(ctx context.Context, _ execution, _ int) (string, error) {
				out, err := idempotency.Do(ctx, f.runner(idempotency.Settings{}), "k", 0, b.run)
				return out.Value, err
			})
		if !errors.Is(err, errRefused) || f.row("k").Status != engine.InProgress || f.row("order").Status != engine.InProgress {
			t.Error(err, f.row("k"), f.row("order"))
		}
	})
}

// commitsLate lets the first try of a commit arrive before the release. Other tries are refused.
func (f *fixture) commitsLate(t *testing.T, b *booking, arrived func()) {
	t.Helper()
	var late func() (engine.Answer, error)
	b.refuse = func() error { return errRefused }
	f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
		switch {
		case name == "commit" && late == nil:
			late = do
			return engine.Answer{}, idempotency.ErrTryAgain
		case name == "release":
			b.refuse = nil
			if a, err := late(); !a.Done {
				t.Error(a, err)
			}
			arrived()
		}
		return do()
	}
}

// TestRefusedEffectsOfALateTry: a try that is on its way arrives after another try was refused. If it arrives before the
// release, the execution has completed (rule 9).
func TestRefusedEffectsOfALateTry(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		b := &booking{}
		f.commitsLate(t, b, func() {})
		if err := b.does(t, f, 1, 1, "[read put commit commit release]"); err != nil {
			t.Error(err)
		}
		if err := b.does(t, f, 1, 1, "[read]"); err != nil {
			t.Error(err)
		}
	})
}

// TestRefusedEffectsOfATryThatIsForgotten: a try that is on its way arrives after another try was refused, and the
// process freezes before its release. Then its row is purged or replaced, so nothing shows that the effects happened.
func TestRefusedEffectsOfATryThatIsForgotten(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(f *fixture){
		"purged": func(f *fixture) { time.Sleep(48 * time.Hour); f.Purge() },
		"replaced": func(f *fixture) {
			time.Sleep(48 * time.Hour)
			if _, err := f.runner(idempotency.Settings{}).Do(context.Background(), "k", []byte("0"), result); err != nil {
				f.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				b := &booking{}
				f.commitsLate(t, b, func() {
					f.around = func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) { return do() }
					forget(f)
				})
				_, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", 0, b.run)
				if !errors.Is(err, idempotency.ErrOutcomeUnknown) || errors.Is(err, errRefused) || b.booked != 1 {
					t.Error(err, b.booked)
				}
			})
		})
	}
}

// TestRefusedEffectsThatMayStillHappen: without a confirmed release a late try may arrive, so the caller must not
// believe that nothing was written (rule 9).
func TestRefusedEffectsThatMayStillHappen(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "release" {
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		b := &booking{refuse: func() error { return errRefused }}
		err := b.does(t, f, 1, 0, "[read put commit release release release]")
		if !errors.Is(err, idempotency.ErrOutcomeUnknown) || !errors.Is(err, idempotency.ErrTryAgain) || errors.Is(err, errRefused) {
			t.Error(err)
		}
	})
}

// TestSupersededEffects: an execution that lost its key has no effects (I7), and gets the other's result.
func TestSupersededEffects(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if mine := f.row("k"); name == "commit" {
				other := *mine
				other.Status, other.Token, other.CompletedBy, other.Number = engine.Completed, "other", "other", mine.Number+1
				other.Result = engine.Result{Kind: engine.Value, Body: []byte(`"booked"`)}
				if a, err := f.Calls.Replace(t.Context(), engine.Key{Namespace: "shop", Name: "k"}, mine.Version(), other); !a.Done {
					t.Error(a, err)
				}
			}
			return do()
		}
		if err := (&booking{}).does(t, f, 1, 0, "[read put commit]"); err != nil {
			t.Error(err)
		}
	})
}

// TestEffectsThatPanic: a panic of effects, and the end of their goroutine, free the key.
func TestEffectsThatPanic(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(){"panic": func() { panic("oops") }, "Goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				ended := make(chan any)
				f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
					if name == "commit" {
						end()
					}
					return do()
				}
				go func() {
					defer func() { ended <- recover() }()
					_, _ = idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", 0, (&booking{}).run)
				}()
				if reason := <-ended; reason != nil && reason != "oops" || f.row("k").LeaseEnd.Unix() != 0 {
					t.Error(reason, f.row("k"))
				}
			})
		})
	}
}

// TestEffectsThatCannotBe: effects of another engine, or on a store without them, free the key.
func TestEffectsThatCannotBe(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		for want, store := range map[string]engine.Store{
			"the function has effects, and this store cannot do them together with a result": struct{ engine.Store }{f},
			"the effects of the function: got string, want memstore.CallEffects":             f,
		} {
			r, err := idempotency.New(store, "shop", idempotency.Settings{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = idempotency.Do(t.Context(), r, "k", 0, func(_ context.Context, e execution, _ int) (int, error) {
				e.Commit("text")
				return 0, nil
			})
			if err == nil || err.Error() != "idempotency: "+want || f.row("k").LeaseEnd.Unix() != 0 {
				t.Error(want, err, f.row("k"))
			}
		}
		execution{}.Commit("text") // of no Runner
	})
}
