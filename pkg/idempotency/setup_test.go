package idempotency_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// fixture is a store whose requests are noted and can be changed. It runs in a bubble of package synctest: times are
// exact.
type fixture struct {
	*memstore.Calls
	t        *testing.T
	mu       sync.Mutex // guards requests
	requests []string
	// around does a request, or something else.
	around func(name string, do func() (engine.Answer, error)) (engine.Answer, error)
}

func in(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, &fixture{
			Calls: memstore.NewCalls(time.Now), t: t,
			around: func(_ string, do func() (engine.Answer, error)) (engine.Answer, error) { return do() },
		})
	})
}

func (f *fixture) runner(s idempotency.Settings) *idempotency.Runner {
	r, err := idempotency.New(f, "shop", s)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

// row returns the row of a key.
func (f *fixture) row(key string) *engine.Record {
	return f.Row(engine.Key{Namespace: "shop", Name: key})
}

// told returns the requests since the last time.
func (f *fixture) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	told := fmt.Sprint(f.requests)
	f.requests = nil
	return told
}

func (f *fixture) do(name string, do func() (engine.Answer, error)) (engine.Answer, error) {
	f.mu.Lock()
	f.requests = append(f.requests, name)
	f.mu.Unlock()
	return f.around(name, do)
}

func (f *fixture) Put(ctx context.Context, k engine.Key, r engine.Record) (engine.Answer, error) {
	return f.do("put", func() (engine.Answer, error) { return f.Calls.Put(ctx, k, r) })
}

func (f *fixture) Replace(ctx context.Context, k engine.Key, v engine.Version, r engine.Record) (engine.Answer, error) {
	return f.do("replace", func() (engine.Answer, error) { return f.Calls.Replace(ctx, k, v, r) })
}

func (f *fixture) Prolong(ctx context.Context, k engine.Key, token string, e engine.Ends) (engine.Answer, error) {
	return f.do("prolong", func() (engine.Answer, error) { return f.Calls.Prolong(ctx, k, token, e) })
}

func (f *fixture) Complete(
	ctx context.Context, k engine.Key, token string, c engine.Completion,
) (engine.Answer, error) {
	return f.do("complete", func() (engine.Answer, error) { return f.Calls.Complete(ctx, k, token, c) })
}

func (f *fixture) Release(ctx context.Context, k engine.Key, token, next string) (engine.Answer, error) {
	return f.do("release", func() (engine.Answer, error) { return f.Calls.Release(ctx, k, token, next) })
}

func (f *fixture) Read(ctx context.Context, k engine.Key, c engine.Consistency) (engine.Answer, error) {
	name := map[engine.Consistency]string{engine.Strong: "read", engine.Eventual: "cheap-read"}[c]
	return f.do(name, func() (engine.Answer, error) { return f.Calls.Read(ctx, k, c) })
}

type execution = idempotency.Execution

// order is the input of the tests, and receipt the result.
type order struct {
	Amount int
	Lines  []string
}

type receipt struct{ Charge string }

// charge is a function that succeeds.
func charge(_ context.Context, e execution, in order) (receipt, error) {
	return receipt{fmt.Sprint(in.Amount, " by ", e.Number)}, nil
}

// slowly returns a function that succeeds after some time.
func slowly(d time.Duration) func(context.Context, execution, order) (receipt, error) {
	return func(ctx context.Context, e execution, in order) (receipt, error) {
		time.Sleep(d)
		return charge(ctx, e, in)
	}
}
