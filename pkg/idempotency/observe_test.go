package idempotency_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/emftest"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// reports collects the reports of a Runner. Reports of calls that end at the same time come in any order.
type reports struct {
	mu  sync.Mutex
	all []string
}

func (r *reports) add(_ context.Context, one idempotency.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%+v", one))
}

func (f *fixture) observed(s idempotency.Settings) (*idempotency.Runner, *reports) {
	all := &reports{}
	r, err := idempotency.New(f, "shop", s, idempotency.WithObserver(all.add))
	if err != nil {
		f.t.Fatal(err)
	}
	return r, all
}

// wants checks the reports since the last time.
func (r *reports) wants(t *testing.T, want ...idempotency.Report) {
	t.Helper()
	wanted := &reports{}
	for _, one := range want {
		wanted.add(t.Context(), one)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(wanted.all)
	slices.Sort(r.all)
	if !slices.Equal(r.all, wanted.all) {
		t.Errorf("want %s\ngot  %s", strings.Join(wanted.all, "\n"), strings.Join(r.all, "\n"))
	}
	r.all = nil
}

// TestObserver: each call is reported once, with what happened in it.
func TestObserver(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, all := f.observed(idempotency.Settings{Lease: 30 * time.Second})
		do := func(key string, in order, fn func(context.Context, execution, order) (receipt, error)) error {
			_, err := idempotency.Do(t.Context(), r, key, in, fn)
			return err
		}
		fails := func(err error) func(context.Context, execution, order) (receipt, error) {
			return func(context.Context, execution, order) (receipt, error) { return receipt{}, err }
		}
		ran, replayed := idempotency.Report{Ran: true}, idempotency.Report{Replayed: true}

		_ = do("k", order{Amount: 1}, charge)
		_ = do("k", order{Amount: 1}, charge)
		_ = do("k", order{Amount: 2}, charge)
		_ = do("", order{Amount: 2}, charge)
		all.wants(t, ran, replayed, idempotency.Report{OtherPayload: true})

		_ = do("failed", order{}, fails(idempotency.ErrOtherPayload)) // of another key
		_ = do("failed", order{}, charge)                             // the row was released
		_ = do("final", order{}, fails(idempotency.Final(errors.New("refused"))))
		_ = do("final", order{}, charge)
		all.wants(t, ran, ran, ran, replayed)

		func() {
			defer func() { _ = recover() }()
			_ = do("panic", order{}, func(context.Context, execution, order) (receipt, error) { panic("oops") })
		}()
		all.wants(t, ran)

		_ = do("large", order{}, func(context.Context, execution, order) (receipt, error) {
			return receipt{strings.Repeat("x", f.MaxResult())}, nil
		})
		_ = do("large", order{}, charge)
		all.wants(t, idempotency.Report{Ran: true, NotStored: true}, replayed)

		_, _, _ = until(t, t.Context(), r, nil) // key "k" with another payload
		all.wants(t, idempotency.Report{OtherPayload: true})
	})
}

// TestObserverOfTwins: which call has waited, in one process or for another, and which has taken a key over.
func TestObserverOfTwins(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		r, all := f.observed(idempotency.Settings{})
		other, others := f.observed(idempotency.Settings{})
		impatient, refusals := f.observed(idempotency.Settings{DoNotWait: true})
		done := make(chan bool)
		for i, twin := range []*idempotency.Runner{r, r, other} {
			go func() {
				time.Sleep(time.Duration(i) * time.Second)
				_, err := idempotency.Do(t.Context(), twin, "k", order{}, slowly(10*time.Second))
				done <- err == nil
			}()
		}
		time.Sleep(3 * time.Second)
		_, err := idempotency.Do(t.Context(), impatient, "k", order{}, charge)
		if !errors.Is(err, idempotency.ErrInProgress) {
			t.Error(err)
		}
		for range 3 {
			if !<-done {
				t.Error("a call failed")
			}
		}
		waited := idempotency.Report{Replayed: true, Waited: true}
		all.wants(t, idempotency.Report{Ran: true}, waited)
		others.wants(t, waited)
		refusals.wants(t, idempotency.Report{})
	})
}

// TestObserverOfTakeOvers: an execution crashes, the next one takes the key over, and the first one wakes.
func TestObserverOfTakeOvers(t *testing.T) {
	t.Parallel()
	in(t, func(t *testing.T, f *fixture) {
		f.around = func(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
			if name == "prolong" {
				return engine.Answer{}, idempotency.ErrTryAgain
			}
			return do()
		}
		first, slow := f.observed(idempotency.Settings{})
		second, fast := f.observed(idempotency.Settings{})
		done := make(chan bool)
		go func() {
			_, err := idempotency.Do(t.Context(), first, "k", order{}, slowly(2*time.Minute))
			done <- err == nil
		}()
		time.Sleep(time.Second)
		if _, err := idempotency.Do(t.Context(), second, "k", order{}, charge); err != nil {
			t.Error(err)
		}
		fast.wants(t, idempotency.Report{Ran: true, Waited: true, TookOver: true})
		if !<-done {
			t.Error("the first call got no result")
		}
		slow.wants(t, idempotency.Report{Ran: true, Replayed: true, Superseded: true, LeaseLost: true})
	})
}

// TestLogToOfAFunction: in a Lambda function each metric has the function as its dimension.
func TestLogToOfAFunction(t *testing.T) {
	t.Setenv("AWS_LAMBDA_FUNCTION_NAME", "prod-payment")
	var line bytes.Buffer
	idempotency.LogTo(slog.New(slog.NewJSONHandler(&line, nil)), "payments")(t.Context(), idempotency.Report{Ran: true})
	want := []emftest.Point{{Namespace: "payments", Name: "Ran", Unit: "Count", Dimensions: "FunctionName=prod-payment", Value: 1}}
	if got := emftest.Points(t, line.Bytes()); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestLogTo: a line has what happened and its metrics, and nothing of the key, the payload or the result.
func TestLogTo(t *testing.T) {
	t.Parallel()
	var lines bytes.Buffer
	observe := idempotency.LogTo(slog.New(slog.NewJSONHandler(&lines, nil)), "Shop")
	everything := idempotency.Report{
		Ran: true, Replayed: true, Waited: true, OtherPayload: true, TookOver: true, Superseded: true, LeaseLost: true,
		NotStored: true,
	}
	observe(t.Context(), everything)
	observe(t.Context(), idempotency.Report{Ran: true})
	var found []string
	for _, point := range emftest.Points(t, lines.Bytes()) {
		found = append(found, fmt.Sprint(point.Namespace, point.Name, point.Value))
	}
	want := "[ShopRan1 ShopReplayed1 ShopWaited1 ShopOtherPayload1 ShopTookOver1 ShopSuperseded1 ShopLeaseLost1 " +
		"ShopNotStored1 ShopRan1]"
	if fmt.Sprint(found) != want {
		t.Errorf("want %s\ngot  %v", want, found)
	}
	for i, level := range []string{"WARN", "INFO"} {
		line := strings.Split(lines.String(), "\n")[i]
		if !strings.Contains(line, `"level":"`+level+`","msg":"idempotent call","ran":true,`) {
			t.Errorf("line %d is %s", i, line)
		}
	}
	if !strings.Contains(lines.String(), `"took_over":true,"superseded":true,"lease_lost":true,"not_stored":true,`) {
		t.Errorf("the lines are %s", &lines)
	}

	lines.Reset()
	const trace = "1-5759e988-bd862e3fe1be46a994272793"
	traced := context.WithValue(t.Context(), "x-amzn-trace-id", "Root="+trace) //nolint:staticcheck // the runtime's own key
	idempotency.LogTo(slog.New(slog.NewJSONHandler(&lines, nil)), "")(traced, everything)
	if !strings.Contains(lines.String(), `"trace_id":"`+trace+`"`) {
		t.Errorf("with a trace the line is %s", &lines)
	}
	if strings.Contains(lines.String(), "_aws") || !strings.Contains(lines.String(), `"waited":true`) {
		t.Errorf("without metrics the line is %s", &lines)
	}
}
