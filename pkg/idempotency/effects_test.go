package idempotency_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

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
	refused      error // nil: never
}

var errRefused = errors.New("the account is closed")

func (b *booking) run(_ context.Context, e execution, _ int) (string, error) {
	b.runs++
	e.Commit("is replaced")
	e.Commit(memstore.CallEffects(func() error {
		if b.refused == nil {
			b.booked++
		}
		return b.refused
	}))
	return "booked", nil
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

// TestRefusedEffectsAreNotFinal: refused effects free the key also with an error that is marked as final, and it does not become
// final for the key of its caller.
func TestRefusedEffectsAreNotFinal(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		b := &booking{refused: idempotency.Final(errRefused)}
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
