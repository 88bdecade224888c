package oncelambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/oncelambda"
)

// order is an event.
type order struct {
	ID    string `json:"id"`
	Cents int    `json:"cents"`
	Sent  int    `json:"sent"`
}

type receipt struct {
	Number int64
	Key    string
}

func idOf(_ context.Context, o order) (string, error) { return o.ID, nil }

// function is a function that Event wraps.
type function struct {
	t     *testing.T
	store *memstore.Calls
	mu    sync.Mutex
	runs  int
	run   func(ctx context.Context, o *order) error
	call  oncelambda.Handler[order, receipt]
}

func newFunction(t *testing.T, store *memstore.Calls, s oncelambda.Settings[order]) *function {
	t.Helper()
	f := &function{t: t, store: store, run: func(context.Context, *order) error { return nil }}
	runner, err := idempotency.New(store, namespace, idempotency.Settings{LeaseUntilDeadline: true})
	must(t, err)
	f.call, err = oncelambda.Event(runner, s, func(ctx context.Context, o order) (receipt, error) {
		f.mu.Lock()
		f.runs++
		f.mu.Unlock()
		execution, protected := oncelambda.ExecutionOf(ctx)
		equal(t, "protected", protected, o.ID != "")
		return receipt{execution.Number, execution.KeyFor("charge")}, f.run(ctx, &o)
	})
	must(t, err)
	return f
}

// invoke invokes the function with a time-out of a minute.
func (f *function) invoke(o order) (receipt, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	return f.call(ctx, o)
}

// TestEvent: an event runs once for its key, and each invocation gets the same result. Only the key is compared.
func TestEvent(t *testing.T) {
	t.Parallel()
	f := newFunction(t, memstore.NewCalls(time.Now), oncelambda.Settings[order]{Key: idOf})
	first, err := f.invoke(order{ID: "order-1", Cents: 450, Sent: 1})
	must(t, err)
	again, err := f.invoke(order{ID: "order-1", Cents: 450, Sent: 2})
	must(t, err)
	equal(t, "second result", again, first)
	if first.Number == 0 || len(first.Key) != 64 {
		t.Errorf("the handler found the execution %+v", first)
	}
	other, err := f.invoke(order{ID: "order-2"})
	must(t, err)
	equal(t, "keys of two orders are equal", other.Key == first.Key, false)
	equal(t, "runs", f.runs, 2)
}

// TestEventPayload: with Payload another payload under a key is refused, whatever the handler does to its event.
func TestEventPayload(t *testing.T) {
	t.Parallel()
	cents, err := oncelambda.JMESPath[order]("cents")
	must(t, err)
	key, err := oncelambda.JMESPath[order]("id")
	must(t, err)
	f := newFunction(t, memstore.NewCalls(time.Now), oncelambda.Settings[order]{Key: key, Payload: cents})
	f.run = func(_ context.Context, o *order) error { o.Cents++; return nil }
	for _, o := range []order{{"order-1", 450, 1}, {"order-1", 450, 2}} {
		_, err := f.invoke(o)
		must(t, err)
	}
	if _, err := f.invoke(order{ID: "order-1", Cents: 9900}); !errors.Is(err, idempotency.ErrOtherPayload) {
		t.Errorf("got %v", err)
	}
	equal(t, "runs", f.runs, 1)
}

// TestEventWithoutKey: an event without a key is refused, or runs each time, without an execution.
func TestEventWithoutKey(t *testing.T) {
	t.Parallel()
	for _, optional := range []bool{false, true} {
		f := newFunction(t, memstore.NewCalls(time.Now), oncelambda.Settings[order]{Key: idOf, KeyOptional: optional})
		for range 2 {
			r, err := f.invoke(order{Cents: 450})
			equal(t, "refused", errors.Is(err, idempotency.ErrInvalid), !optional)
			equal(t, "key for others", r.Key, "")
		}
		equal(t, "runs", f.runs, map[bool]int{false: 0, true: 2}[optional])
	}
}

// TestEventFailures: an error of the handler or of a Selector is the error of the invocation. Only the first frees the
// key, and a final one is its result.
func TestEventFailures(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	f := newFunction(t, memstore.NewCalls(time.Now), oncelambda.Settings[order]{Key: idOf})
	for _, final := range []bool{false, true, true} {
		f.run = func(context.Context, *order) error {
			if final {
				return idempotency.Final(broken)
			}
			return broken
		}
		if _, err := f.invoke(order{ID: "order-1"}); err == nil || err.Error() != "broken" {
			t.Errorf("got %v", err)
		}
	}
	equal(t, "runs", f.runs, 2)
	f = newFunction(t, memstore.NewCalls(time.Now), oncelambda.Settings[order]{
		Key: func(context.Context, order) (string, error) { return "", broken }, KeyOptional: true,
	})
	if _, err := f.invoke(order{}); !errors.Is(err, broken) || f.runs != 0 {
		t.Errorf("got %v after %d runs", err, f.runs)
	}
}

// TestEventsAtATime: two invocations at a time in one process have one execution if they have one key, and two
// executions at a time if they have not.
func TestEventsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFunction(t, memstore.NewCalls(time.Now), oncelambda.Settings[order]{Key: idOf})
		f.run = func(context.Context, *order) error { time.Sleep(10 * time.Second); return nil }
		begun := time.Now()
		receipts := make([]receipt, 6)
		var all sync.WaitGroup
		for i := range receipts {
			all.Go(func() {
				var err error
				if receipts[i], err = f.invoke(order{ID: []string{"a", "b"}[i%2]}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		for i, r := range receipts {
			equal(t, "receipt", r, receipts[i%2])
		}
		equal(t, "runs", f.runs, 2)
		equal(t, "time", time.Since(begun).Truncate(time.Second), 10*time.Second)
	})
}

// TestEventWaitsUntilTheDeadline: an invocation that waits for another one fails before Lambda stops it, with an error
// that says that a repeat is safe. After a crash the lease ends with the deadline of the invocation that crashed.
func TestEventWaitsUntilTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.NewCalls(time.Now)
		crashed, second := newFunction(t, store, oncelambda.Settings[order]{Key: idOf}),
			newFunction(t, store, oncelambda.Settings[order]{Key: idOf})
		stopped := make(chan struct{})
		crashed.run = func(context.Context, *order) error { <-stopped; return nil }
		begun := time.Now()
		go func() { _, _ = crashed.invoke(order{ID: "order-1"}) }()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := second.call(ctx, order{ID: "order-1"})
		if !errors.Is(err, idempotency.ErrTryAgain) || !strings.Contains(err.Error(), "the deadline") {
			t.Errorf("got %v", err)
		}
		equal(t, "waited", time.Since(begun), 10500*time.Millisecond)
		_, err = second.invoke(order{ID: "order-1"})
		must(t, err)
		if after := time.Since(begun); after < time.Minute || after > time.Minute+5*time.Second {
			t.Errorf("the key was taken over after %s", after)
		}
		equal(t, "runs of the second", second.runs, 1)
		close(stopped)
	})
}

// TestInterruptedStep: a step of a durable execution whose invocation was interrupted runs again in the next one. Then
// it is no twin of itself: the lease has ended with the interrupted invocation. It has the same key for others, and a
// larger number. A step that has ended is not called again by the SDK, and would get its result.
func TestInterruptedStep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.NewCalls(time.Now)
		stopped := make(chan struct{})
		step := func(body func()) (receipt, error) {
			runner, err := idempotency.New(store, namespace, idempotency.Settings{LeaseUntilDeadline: true})
			must(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			out, err := idempotency.Do(ctx, runner, "execution-1/charge", "order-1",
				func(_ context.Context, e idempotency.Execution, _ string) (receipt, error) {
					body()
					return receipt{e.Number, e.KeyFor("charge")}, nil
				})
			return out.Value, err
		}
		interrupted := make(chan receipt, 1)
		go func() {
			_, _ = step(func() { <-stopped })
			close(interrupted)
		}()
		time.Sleep(10 * time.Second) // Lambda ends the invocation, and begins the next one
		replayed, err := step(func() {})
		must(t, err)
		again, err := step(func() { t.Error("the step ran again") })
		must(t, err)
		equal(t, "result of the third call", again, replayed)
		close(stopped)
		<-interrupted
	})
}

// TestDurable: the invocation of a durable execution is refused. Its result may be that the execution waits, which no
// later invocation must get.
func TestDurable(t *testing.T) {
	t.Parallel()
	runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace, idempotency.Settings{LeaseUntilDeadline: true})
	must(t, err)
	runs := 0
	call, err := oncelambda.Event(runner, oncelambda.Settings[json.RawMessage]{
		Key:         func(context.Context, json.RawMessage) (string, error) { return "", nil },
		KeyOptional: true,
	}, func(context.Context, json.RawMessage) (json.RawMessage, error) {
		runs++
		return json.RawMessage(`{"Status":"PENDING"}`), nil
	})
	must(t, err)
	const durable = `{"DurableExecutionArn":"arn:aws:lambda:eu-west-1:1:function:f:1/durable-execution/a/b",` +
		`"CheckpointToken":"t","InitialExecutionState":{"Operations":[]}}`
	if _, err := call(t.Context(), json.RawMessage(durable)); !errors.Is(err, oncelambda.ErrDurable) {
		t.Errorf("got %v", err)
	}
	_, err = call(t.Context(), json.RawMessage(`{"DurableExecutionArn":"arn"}`))
	must(t, err)
	equal(t, "runs", runs, 1)
	decoded, err := oncelambda.Event(runner, oncelambda.Settings[map[string]any]{
		Key: func(context.Context, map[string]any) (string, error) { return "key", nil },
	}, func(context.Context, map[string]any) (string, error) { return "PENDING", nil })
	must(t, err)
	var members map[string]any
	must(t, json.Unmarshal([]byte(durable), &members))
	if _, err := decoded(t.Context(), members); !errors.Is(err, oncelambda.ErrDurable) {
		t.Errorf("decoded: got %v", err)
	}
}

// TestCallsWithin: calls without a key within an execution do not find it, because their KeyFor would be the same. A
// call for a key within its own execution is refused, also if another call is between them.
func TestCallsWithin(t *testing.T) {
	t.Parallel()
	runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace,
		idempotency.Settings{LeaseUntilDeadline: true, DoNotWait: true})
	must(t, err)
	unprotected := func(ctx context.Context) {
		if e, ok := oncelambda.ExecutionOf(ctx); ok || e.KeyFor("charge") != "" {
			t.Errorf("a call without a key found %+v", e)
		}
	}
	messages, err := oncelambda.SQS(runner, oncelambda.Settings[events.SQSMessage]{
		Key: func(context.Context, events.SQSMessage) (string, error) { return "", nil }, KeyOptional: true,
	}, func(ctx context.Context, _ events.SQSMessage) error { unprotected(ctx); return nil })
	must(t, err)
	var call oncelambda.Handler[order, receipt]
	runs := 0
	call, err = oncelambda.Event(runner, oncelambda.Settings[order]{Key: idOf, KeyOptional: true},
		func(ctx context.Context, o order) (receipt, error) {
			runs++
			switch o.ID {
			case "a":
				return call(ctx, order{ID: "b"})
			case "b":
				_, err := messages(ctx, events.SQSEvent{Records: []events.SQSMessage{{MessageId: "1"}}})
				must(t, err)
				return call(ctx, order{})
			}
			unprotected(ctx)
			return call(ctx, order{ID: "a"})
		})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := call(ctx, order{ID: "a"}); err == nil || !strings.Contains(err.Error(), "wrapped twice") {
		t.Errorf("got %v", err)
	}
	equal(t, "runs", runs, 3)
}

// TestEventConstructor: a wrapper without what it needs is not made.
func TestEventConstructor(t *testing.T) {
	t.Parallel()
	runner, err := idempotency.New(memstore.NewCalls(time.Now), namespace, idempotency.Settings{})
	must(t, err)
	next := func(context.Context, order) (receipt, error) { return receipt{}, nil }
	for field, err := range map[string]error{
		"runner":  second(oncelambda.Event(nil, oncelambda.Settings[order]{Key: idOf}, next)),
		"Key":     second(oncelambda.Event(runner, oncelambda.Settings[order]{}, next)),
		"handler": second(oncelambda.Event[order, receipt](runner, oncelambda.Settings[order]{Key: idOf}, nil)),
	} {
		if wrong, ok := errors.AsType[*idempotency.InvalidError](err); !ok || wrong.Field != field {
			t.Errorf("without a %s: got %v", field, err)
		}
	}
}

func second[A any](_ A, err error) error { return err }
