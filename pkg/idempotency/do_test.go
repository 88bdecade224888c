package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

func TestRunsOnce(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		first, err := idempotency.Do(t.Context(), r, "k", order{Amount: 5}, charge)
		if err != nil || first.Replayed || first.Number == 0 || !strings.HasPrefix(first.Value.Charge, "5 by ") {
			t.Fatal(first, err)
		}
		if got := f.told(); got != "[read put complete]" {
			t.Error("a process that has seen no Date reads first:", got)
		}
		again, err := idempotency.Do(t.Context(), r, "k", order{Amount: 5}, charge)
		if err != nil || !again.Replayed || again.Number != first.Number || again.Value != first.Value {
			t.Error(again, err)
		}
		if got := f.told(); got != "[put]" {
			t.Error(got)
		}
		_, err = idempotency.Do(t.Context(), r, "k", order{Amount: 6}, charge)
		if !errors.Is(err, idempotency.ErrOtherPayload) || !errors.Is(err, idempotency.ErrRefused) {
			t.Error(err)
		}
		if _, err := idempotency.Do(t.Context(), r, "k", order{Amount: 5}, charge); err != nil {
			t.Error(err)
		}
		f.told()
		_, err = idempotency.Do(t.Context(), r, "new", order{}, charge)
		if got := f.told(); err != nil || got != "[cheap-read put complete]" {
			t.Error("replays are frequent, so a cheap read goes first", got, err)
		}
	})
}

// TestSuperseded: an execution that lost its key gets the result of the other execution, never its own. The function has
// changed the bytes of the payload meanwhile (rule 1).
func TestSuperseded(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		payload := []byte("order 1")
		function := func(ctx context.Context, e execution) (idempotency.Result, error) {
			payload[0] = 'X'
			mine := f.row("k")
			other := *mine
			other.Status, other.Token, other.CompletedBy, other.Number = engine.Completed, "other", "other", mine.Number+1
			other.Result = engine.Result{Kind: engine.Value, Body: []byte("other")}
			_, err := f.Calls.Replace(ctx, engine.Key{Namespace: "shop", Name: "k"}, mine.Version(), other)
			return idempotency.Result{Body: []byte("mine")}, err
		}
		out, err := f.runner(idempotency.Settings{}).Do(t.Context(), "k", payload, function)
		if err != nil || string(out.Value.Body) != "other" || !out.Replayed || out.Number != f.row("k").Number {
			t.Error(out, err)
		}
	})
}

// TestInputChangedByTheFunction: rule 1.
func TestInputChangedByTheFunction(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		for replayed := range 2 {
			input := &order{Lines: []string{"tea"}}
			out, err := idempotency.Do(t.Context(), r, "k", input, func(_ context.Context, _ execution, in *order) (int, error) {
				in.Amount, in.Lines[0] = 9, "coffee"
				return 1, nil
			})
			if err != nil || out.Replayed != (replayed == 1) {
				t.Error(out, err)
			}
		}
	})
}

func TestKeysForCalls(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		var keys []string
		var numbers []int64
		for _, err := range []error{errors.New("no"), nil} {
			_, _ = idempotency.Do(t.Context(), r, "k", 0, func(_ context.Context, e execution, _ int) (int, error) {
				keys, numbers = append(keys, e.KeyFor("charge"), e.KeyFor("mail")), append(numbers, e.Number)
				return 0, err
			})
		}
		if len(keys) != 4 || keys[0] != keys[2] || keys[1] != keys[3] || keys[0] == keys[1] || numbers[0] >= numbers[1] {
			t.Error(keys, numbers)
		}
	})
}

func TestFailures(t *testing.T) {
	t.Parallel()
	broke := errors.New("card refused")
	for name, test := range map[string]struct {
		fail  func() error
		check func(first, second error) bool
		runs  int
	}{
		"frees the key": {
			func() error { return broke }, func(first, second error) bool { return errors.Is(first, broke) && errors.Is(second, broke) }, 2,
		},
		"final": {
			func() error { return idempotency.Final(broke) },
			func(first, second error) bool {
				return errors.Is(first, broke) && !errors.Is(second, broke) && errors.Is(second, idempotency.ErrFailed) &&
					errors.Is(second, idempotency.ErrRefused) && first.Error() == "card refused" && second.Error() == "card refused"
			}, 1,
		},
		"panic": {
			func() error { panic(broke) },
			func(first, second error) bool {
				return first.Error() == "panic: card refused" && second.Error() == first.Error()
			}, 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				r, runs := f.runner(idempotency.Settings{}), 0
				once := func() (err error) {
					defer func() {
						if reason := recover(); reason != nil {
							err = errors.New("panic: " + reason.(error).Error())
						}
					}()
					_, err = idempotency.Do(t.Context(), r, "k", 0, func(context.Context, execution, int) (int, error) {
						runs++
						return 0, test.fail()
					})
					return err
				}
				if first, second := once(), once(); !test.check(first, second) || runs != test.runs {
					t.Error(first, second, runs)
				}
			})
		})
	}
}

// TestFinalOfAnotherKey: a failure that is final for one key does not become final for the key of its caller.
func TestFinalOfAnotherKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, runs := f.runner(idempotency.Settings{}), 0
		refused := func(context.Context, execution, int) (int, error) {
			return 0, fmt.Errorf("charge: %w", idempotency.Final(errors.New("card refused")))
		}
		for range 2 {
			_, err := idempotency.Do(t.Context(), r, "order", 0, func(ctx context.Context, _ execution, _ int) (int, error) {
				runs++
				_, err := idempotency.Do(ctx, r, "charge", 0, refused)
				return 0, err
			})
			if !errors.Is(err, idempotency.ErrFailed) || err.Error() != "charge: card refused" {
				t.Error(err)
			}
		}
		if runs != 2 || f.row("order").Status != engine.InProgress || f.row("charge").Status != engine.Completed {
			t.Error(runs, f.row("order"), f.row("charge"))
		}
	})
}

func TestGoexitFreesTheKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = idempotency.Do(t.Context(), r, "k", 0, func(context.Context, execution, int) (int, error) {
				runtime.Goexit()
				return 0, nil
			})
		}()
		<-ended
		if f.row("k").LeaseEnd.Unix() != 0 {
			t.Error(f.row("k"))
		}
	})
}

// TestResultsThatCannotBeStored: I5.
func TestResultsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"not encodable": func() {},
		"too large":     strings.Repeat("x", 2000),
		// The store keeps 1,000 bytes, and the content type is one of them.
		"too large with its content type": strings.Repeat("x", 990),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				r := f.runner(idempotency.Settings{})
				give := func(context.Context, execution, int) (any, error) { return value, nil }
				first, err := idempotency.Do(t.Context(), r, "k", 0, give)
				if err != nil || !first.NotStored || first.Value == nil {
					t.Error(first, err)
				}
				if _, err := idempotency.Do(t.Context(), r, "k", 0, give); !errors.Is(err, idempotency.ErrResultNotStored) {
					t.Error(err)
				}
				if got := f.told(); got != "[read put complete put]" {
					t.Error(got)
				}
			})
		})
	}
}

func TestResultOfAnotherType(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		if _, err := idempotency.Do(t.Context(), r, "k", order{}, charge); err != nil {
			t.Fatal(err)
		}
		_, err := idempotency.Do(t.Context(), r, "k", order{}, func(context.Context, execution, order) (int, error) {
			t.Error("the function runs again")
			return 0, nil
		})
		if !errors.Is(err, idempotency.ErrResultUnreadable) {
			t.Error(err)
		}
	})
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, deadline := f.runner(idempotency.Settings{}), f.runner(idempotency.Settings{LeaseUntilDeadline: true})
		try := func(r *idempotency.Runner, key string, input any) error {
			nothing := func(context.Context, execution, any) (int, error) { return 0, nil }
			_, err := idempotency.Do(t.Context(), r, key, input, nothing)
			return err
		}
		type limits = idempotency.Settings
		settings := func(namespace string, s limits) error {
			_, err := idempotency.New(f, namespace, s)
			return err
		}
		for want, err := range map[string]error{
			"key: it has 0 bytes: use 1 to 1024":                            try(r, "", 0),
			"key: it has 1025 bytes: use 1 to 1024":                         try(r, strings.Repeat("k", 1025), 0),
			"input: it has no JSON: json: unsupported type: chan int":       try(r, "k", make(chan int)),
			"context: it has no deadline, and LeaseUntilDeadline needs one": try(deadline, "k", 0),
			"namespace: it has 0 bytes: use 1 to 1024":                      settings("", limits{}),
			"Window: 1ms is too short: use 1s or longer":                    settings("n", limits{Window: time.Millisecond}),
			"Lease: 4s is too short: use 5s or longer":                      settings("n", limits{Lease: 4 * time.Second}),
		} {
			if err == nil || err.Error() != want || !errors.Is(err, idempotency.ErrInvalid) {
				t.Errorf("want %q, got %v", want, err)
			}
		}
		if got := f.told(); got != "[]" {
			t.Error(got)
		}
	})
}

// TestTwinsInOneProcess: they cost no requests (rule 8).
func TestTwinsInOneProcess(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				out, err := idempotency.Do(t.Context(), r, "k", order{}, slowly(time.Second))
				if err != nil || out.Value.Charge == "" {
					t.Error(out, err)
				}
			})
		}
		all.Wait()
		if got := f.told(); got != "[read put complete]" {
			t.Error(got)
		}
	})
}

// TestTwinInAnotherProcess: it waits, or gets an error at once.
func TestTwinInAnotherProcess(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, patient := f.runner(idempotency.Settings{}), f.runner(idempotency.Settings{})
		hasty := f.runner(idempotency.Settings{DoNotWait: true})
		go func() {
			_, _ = idempotency.Do(t.Context(), r, "k", order{}, slowly(2*time.Minute))
		}()
		time.Sleep(time.Minute)
		_, err := idempotency.Do(t.Context(), hasty, "k", order{}, charge)
		twin, ok := errors.AsType[*idempotency.InProgressError](err)
		if !ok || twin.Left < 20*time.Second || twin.Left > 33*time.Second || !errors.Is(err, idempotency.ErrTryAgain) {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := idempotency.Do(short, patient, "k", order{}, charge); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if out, err := idempotency.Do(t.Context(), patient, "k", order{}, charge); err != nil || !out.Replayed {
			t.Error(out, err)
		}
	})
}

// TestNoDate: an engine that breaks its contract.
func TestNoDate(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(string, func() (engine.Answer, error)) (engine.Answer, error) { return engine.Answer{}, nil }
		if _, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", order{}, charge); err == nil {
			t.Error("no error")
		}
	})
}
