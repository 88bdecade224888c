package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
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

// TestAnotherPayloadDoesNotWait for the call in this process that runs the function.
func TestAnotherPayloadDoesNotWait(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		first := make(chan error, 1)
		go func() {
			_, err := idempotency.Do(t.Context(), r, "k", order{Amount: 5}, slowly(10*time.Second))
			first <- err
		}()
		synctest.Wait()
		begun := time.Now()
		_, err := idempotency.Do(t.Context(), r, "k", order{Amount: 6}, charge)
		if waited := time.Since(begun); !errors.Is(err, idempotency.ErrOtherPayload) || waited > 0 {
			t.Error(err, "after", waited)
		}
		if err := <-first; err != nil {
			t.Error(err)
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

// TestTwinGivesUp: a call that waits in its process ends with its context, and sends nothing.
func TestTwinGivesUp(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		ended := make(chan error)
		go func() {
			_, err := idempotency.Do(t.Context(), r, "k", order{}, slowly(5*time.Second))
			ended <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := idempotency.Do(ctx, r, "k", order{}, charge)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Error(err, time.Since(begun))
		}
		if lines := r.Lines(); lines != 1 {
			t.Error("lines of calls:", lines)
		}
		if err := <-ended; err != nil || f.told() != "[read put complete]" {
			t.Error(err)
		}
		if lines := r.Lines(); lines != 0 {
			t.Error("lines of calls after the last:", lines)
		}
	})
}

// TestCompletionsThatFail: rule 7.
func TestCompletionsThatFail(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails, lands int // from 1 on: the last completion that fails, and the one that takes effect nevertheless
		check        func(out idempotency.Outcome[receipt], took time.Duration, requests string, err error) bool
	}{
		"some": {3, 0, func(out idempotency.Outcome[receipt], _ time.Duration, requests string, err error) bool {
			return err == nil && !out.Replayed && requests == "[read put complete complete complete complete]"
		}},
		"lost reply": {1, 1, func(out idempotency.Outcome[receipt], _ time.Duration, requests string, err error) bool {
			return err == nil && !out.Replayed && out.Value.Charge != "" && requests == "[read put complete complete]"
		}},
		"all": {1 << 30, 0, func(_ idempotency.Outcome[receipt], took time.Duration, _ string, err error) bool {
			return errors.Is(err, idempotency.ErrOutcomeUnknown) && errors.Is(err, idempotency.ErrTryAgain) &&
				took > 28*time.Second && took < 33*time.Second
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				completions := 0
				f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
					if name != "complete" {
						return do()
					}
					if completions++; completions > test.fails {
						return do()
					}
					if completions == test.lands {
						_, _ = do()
					}
					return engine.Answer{}, idempotency.ErrTryAgain
				}
				begun := time.Now()
				out, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", order{}, charge)
				if took, requests := time.Since(begun), f.told(); !test.check(out, took, requests, err) {
					t.Error(out, took, requests, err)
				}
			})
		})
	}
}

// TestTimesOfRows: an engine stores whole milliseconds. An expiry between two would come back changed.
func TestTimesOfRows(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{Window: time.Hour/7 + 1})
		check := func() {
			t.Helper()
			for _, at := range []time.Time{f.row("k").LeaseEnd, f.row("k").Expiry} {
				if at.Location() != time.UTC || !at.Equal(at.Truncate(time.Millisecond)) {
					t.Error(at)
				}
			}
		}
		_, err := idempotency.Do(t.Context(), r, "k", 0, func(context.Context, execution, int) (int, error) {
			check()
			time.Sleep(time.Minute)
			check()
			return 0, nil
		})
		if check(); err != nil {
			t.Error(err)
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
		if key := (execution{}).KeyFor("charge"); key != "" { // calls of no Runner must not share one
			t.Error(key)
		}
	})
}

// TestFinalOfAnotherKey: a failure that is final for one key does not become final for the key of its caller, however
// often it is marked.
func TestFinalOfAnotherKey(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, runs, card := f.runner(idempotency.Settings{}), 0, errors.New("card refused")
		refused := func(context.Context, execution, int) (int, error) {
			return 0, idempotency.Final(fmt.Errorf("charge: %w", idempotency.Final(card)))
		}
		for range 2 {
			_, err := idempotency.Do(t.Context(), r, "order", 0, func(ctx context.Context, _ execution, _ int) (int, error) {
				runs++
				_, err := idempotency.Do(ctx, r, "charge", 0, refused)
				return 0, err
			})
			if !errors.Is(err, idempotency.ErrFailed) || !errors.Is(err, idempotency.ErrRefused) ||
				err.Error() != "charge: card refused" || errors.Is(err, card) != (runs == 1) { // a replay has the text only
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

// failsToEncode is a value whose JSON fails with a long text, and panicsToEncode one whose JSON panics.
type (
	failsToEncode  struct{}
	panicsToEncode struct{}
)

func (failsToEncode) MarshalJSON() ([]byte, error) {
	return nil, errors.New(strings.Repeat("no ", 1000))
}

func (panicsToEncode) MarshalJSON() ([]byte, error) { panic("no") }

// TestResultsThatCannotBeStored: I5.
func TestResultsThatCannotBeStored(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{
		"not encodable":                  func() {},
		"too large":                      strings.Repeat("x", 2000),
		"not encodable, for a long text": failsToEncode{},
		"a panic while it is encoded":    panicsToEncode{},
		// The store keeps 1,000 bytes, and the content type is one of them.
		"too large with its content type": strings.Repeat("x", 990),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				defer func() {
					if reason := recover(); reason != nil {
						t.Error("panic:", reason)
					}
				}()
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

// TestContentTypes: a database keeps only valid texts. A result with another content type would come back changed.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r := f.runner(idempotency.Settings{})
		give := func(context.Context, execution) (idempotency.Result, error) {
			return idempotency.Result{ContentType: "text/\xff", Body: []byte("x")}, nil
		}
		if out, err := r.Do(t.Context(), "k", nil, give); err != nil || !out.NotStored {
			t.Error(out, err)
		}
		if _, err := r.Do(t.Context(), "k", nil, give); !errors.Is(err, idempotency.ErrResultNotStored) {
			t.Error(err)
		}
	})
}

// TestFinalTextFits: the text of a final failure never makes the completion fail.
func TestFinalTextFits(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, runs := f.runner(idempotency.Settings{}), 0
		var texts []string
		for range 2 {
			_, err := idempotency.Do(t.Context(), r, "k", 0, func(context.Context, execution, int) (int, error) {
				runs++
				return 0, idempotency.Final(errors.New("x" + strings.Repeat("é", 5000)))
			})
			if !errors.Is(err, idempotency.ErrFailed) {
				t.Fatal(err)
			}
			texts = append(texts, err.Error())
		}
		if want := "x" + strings.Repeat("é", 499); runs != 1 || texts[0] != want || texts[1] != want {
			t.Error(runs, texts)
		}
	})
}

// TestFinalOfNoError: Final marks an error. Without one the function has not failed.
func TestFinalOfNoError(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		out, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", 0,
			func(context.Context, execution, int) (int, error) { return 7, idempotency.Final(nil) })
		if err != nil || out.Value != 7 || f.row("k").Status != engine.Completed {
			t.Error(out, err, f.row("k"))
		}
	})
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
			"Window: 2562047h47m16.854775807s is too long: use 87600h0m0s or shorter; the store keeps each record for as long": settings(
				"n", limits{Window: math.MaxInt64}),
			"Lease: 24h0m1s is too long: use 24h0m0s or shorter; a crash blocks the key for as long, and heartbeats prolong a " +
				"shorter lease": settings("n", limits{Lease: 24*time.Hour + time.Second}),
			"CacheBytes: -1 is negative: use 0 for no cache": settings("n", limits{CacheBytes: -1}),
			"context: its deadline is in 25h0m0s, and LeaseUntilDeadline allows 24h0m0s: a crash blocks the key for as long; " +
				"set an earlier deadline, or use Lease": func() error {
				ctx, cancel := context.WithTimeout(t.Context(), 25*time.Hour)
				defer cancel()
				_, err := idempotency.Do(ctx, deadline, "k", order{}, charge)
				return err
			}(),
			`namespace: "shop#eu" has one of the characters # * ? and $: use a name without them, so that a policy can allow ` +
				"its rows and no others": settings("shop#eu", limits{}),
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
		_, err := idempotency.Do(t.Context(), r, "new", order{}, charge)
		if got := f.told(); err != nil || got != "[put complete]" {
			t.Error("replays are frequent, but not in the store:", got, err)
		}
	})
}

// TestTwinOfALongCall: requests that fail now and then do not end the wait.
func TestTwinOfALongCall(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		reads := 0
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "read" {
				reads++
			}
			if name == "read" && reads%10 == 0 {
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		r, twin := f.runner(idempotency.Settings{}), f.runner(idempotency.Settings{})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = idempotency.Do(t.Context(), r, "k", order{}, slowly(5*time.Minute))
		}()
		time.Sleep(time.Second)
		out, err := idempotency.Do(t.Context(), twin, "k", order{}, charge)
		if <-ended; err != nil || !out.Replayed || reads < 200 {
			t.Error(out, err, reads)
		}
	})
}

// TestBrokenEngines: an engine that breaks its contract causes an error, not requests without an end.
func TestBrokenEngines(t *testing.T) {
	t.Parallel()
	var dead engine.Record
	for name, answer := range map[string]func() engine.Answer{
		"no date": func() engine.Answer { return engine.Answer{} },
		"no row":  func() engine.Answer { return engine.Answer{Date: time.Now()} },
		"the row of an execution that is over": func() engine.Answer {
			return engine.Answer{Date: time.Now(), Row: &dead}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in(t, func(t *testing.T, f *fixture) {
				f.around = func(string, func() (engine.Answer, error)) (engine.Answer, error) {
					if len(f.requests) > 100 {
						t.Error("requests without an end")
						runtime.Goexit()
					}
					return answer(), nil
				}
				if _, err := idempotency.Do(t.Context(), f.runner(idempotency.Settings{}), "k", order{}, charge); err == nil {
					t.Error("no error")
				}
			})
		})
	}
}
