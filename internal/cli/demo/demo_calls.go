package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// These are the sizes of the third job.
const (
	demoCallers = 100
	demoKeys    = 20
	demoWorkers = 4
	demoLease   = 5 * time.Second // of the worker that freezes
	demoFreeze  = 2 * demoLease
)

type demoCallsResult struct {
	Callers int `json:"callers"`
	Keys    int `json:"keys"`
	Charges int `json:"charges"`
	Refused int `json:"charges_refused_by_number"`
	Same    int `json:"callers_with_the_result_of_their_key"`
}

// calls runs the third job.
func (d *demo) calls(ctx context.Context) error {
	store, closeStore, err := d.app.OpenIdempotency(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	return d.callsOn(ctx, store)
}

// callsOn lets the first caller's worker freeze, lets all others call meanwhile, and wakes the worker.
func (d *demo) callsOn(ctx context.Context, store engine.Store) error {
	r, keys := &d.result.Calls, names("order", demoKeys)
	d.text("Idempotency: %d callers with %d keys, %d workers, and a payment provider that counts its charges", demoCallers, demoKeys, demoWorkers)
	workers := make([]*idempotency.Runner, demoWorkers)
	for i := range workers {
		var err error
		if workers[i], err = idempotency.New(store, d.campaign, idempotency.Settings{}); err != nil {
			return err
		}
	}
	p := &provider{numbers: map[string]int64{}, receipts: map[string][]byte{}}
	first, err := d.freeze(ctx, store, p, keys[0])
	if err != nil {
		return err
	}
	defer first.thaw()
	if err := d.isOver(ctx, workers[0], keys[0], p); err != nil {
		return err
	}
	results := make([]called, demoCallers)
	var all sync.WaitGroup
	for i := range results[1:] {
		caller := i + 1
		worker, key := workers[(caller/demoKeys+caller)%demoWorkers], keys[caller%demoKeys]
		all.Go(func() { results[caller] = call(ctx, worker, key, p.charge) })
	}
	all.Wait()
	d.step(fmt.Sprintf("%d other callers call at once", demoCallers-1), "%d charges for %d keys", p.charges, len(p.receipts))
	first.thaw()
	results[0] = <-first.result
	d.step("the worker wakes and charges, too late", "refused by its number: %d charges, %d refused", p.charges, p.refused)
	r.Callers, r.Keys, r.Charges, r.Refused = demoCallers, len(p.receipts), p.charges, p.refused
	for _, result := range results {
		if result.err != nil {
			return fmt.Errorf("the demo failed: a call of %s: %w", result.key, result.err)
		}
		if bytes.Equal(result.body, p.receipts[result.key]) {
			r.Same++
		}
	}
	d.step("all callers compare their receipts", "%d of %d are the provider's, byte for byte", r.Same, demoCallers)
	return errors.Join(
		check("keys charged", int64(r.Keys), demoKeys),
		check("charges", int64(r.Charges), demoKeys),
		check("charges refused by their number", int64(r.Refused), 1),
		check("callers with the result of their key", int64(r.Same), demoCallers),
	)
}

// isOver checks that the frozen worker holds a record whose lease is over, and that it has charged nothing.
func (d *demo) isOver(ctx context.Context, worker *idempotency.Runner, key string, p *provider) error {
	e, err := worker.Explain(ctx, key, nil)
	if err != nil {
		return err
	}
	if e.Record == nil || e.Record.Status != engine.InProgress || e.Next != idempotency.NextRuns {
		return fmt.Errorf("the demo failed: the frozen worker does not hold %s, or its lease is not over", key)
	}
	d.step(fmt.Sprintf("a worker begins and freezes for %s", demoFreeze), "its lease of %s is over; %d charges", demoLease, p.charges)
	return check("charges of a frozen worker", int64(p.charges), 0)
}

// called is what a caller got.
type called struct {
	key  string
	body []byte
	err  error
}

// call pays an order, and repeats that while the call may get a result.
func call(
	ctx context.Context, worker *idempotency.Runner, order string, charge func(string, int64) (idempotency.Result, error),
) called {
	var err error
	for range demoAttempts {
		var out idempotency.Outcome[idempotency.Result]
		out, err = worker.Do(ctx, order, []byte(order), func(_ context.Context, e idempotency.Execution) (idempotency.Result, error) {
			return charge(order, e.Number)
		})
		if err == nil {
			return called{key: order, body: out.Value.Body}
		}
		if !errors.Is(err, idempotency.ErrTryAgain) && !errors.Is(err, errOldNumber) {
			break
		}
	}
	return called{key: order, err: err}
}

// provider is a payment provider. It keeps the largest number of each order, and refuses smaller ones.
type provider struct {
	mu               sync.Mutex
	numbers          map[string]int64
	receipts         map[string][]byte // of the last charge, by order
	charges, refused int
}

var errOldNumber = errors.New("a later execution has charged")

// charge charges an order for an execution. A receipt is random, so that two charges have two receipts.
func (p *provider) charge(order string, number int64) (idempotency.Result, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number < p.numbers[order] {
		p.refused++
		return idempotency.Result{}, errOldNumber
	}
	p.charges++
	p.numbers[order] = number
	receipt := fmt.Appendf(nil, `{"receipt":%q}`, rand.Text())
	p.receipts[order] = receipt
	return idempotency.Result{ContentType: "application/json", Body: receipt}, nil
}

// frozen is a worker that freezes in the middle of a call: its code stands still until thaw. The demo does not wait for
// the end of its lease. Until thaw the worker lives in the past instead: the clocks of its machine and of its store
// are behind.
type frozen struct {
	engine.Store
	start      time.Time
	begun      chan struct{} // closed when the function begins
	woken      chan struct{} // closed by thaw
	begin, end sync.Once
	result     chan called
}

// freeze starts a call whose worker freezes when its function has begun.
func (d *demo) freeze(ctx context.Context, store engine.Store, p *provider, order string) (*frozen, error) {
	f := &frozen{
		Store: store, start: time.Now(), begun: make(chan struct{}), woken: make(chan struct{}), result: make(chan called, 1),
	}
	worker, err := idempotency.New(f, d.campaign, idempotency.Settings{Lease: demoLease}, idempotency.WithMachine(f))
	if err != nil {
		return nil, err
	}
	go func() {
		f.result <- call(ctx, worker, order, func(order string, number int64) (idempotency.Result, error) {
			f.begin.Do(func() { close(f.begun) })
			<-f.woken
			return p.charge(order, number)
		})
	}()
	select {
	case <-f.begun:
		return f, nil
	case got := <-f.result:
		return nil, fmt.Errorf("the demo failed: the worker has not begun: %w", got.err)
	}
}

func (f *frozen) thaw() { f.end.Do(func() { close(f.woken) }) }

// behind returns how far the clocks are behind.
func (f *frozen) behind() time.Duration {
	select {
	case <-f.woken:
		return 0
	default:
		return demoFreeze
	}
}

// Moment implements idempotency.Machine. The monotonic clock stands still in a frozen machine, so it does not leap.
func (f *frozen) Moment() idempotency.Moment {
	now := time.Now()
	return idempotency.Moment{Wall: now.Round(0).Add(-f.behind()), Monotonic: now.Sub(f.start)}
}

// Sleep implements idempotency.Machine. While the machine is frozen, no timer ends.
func (f *frozen) Sleep(ctx context.Context, d time.Duration) error {
	err := pause.For(ctx, d)
	select {
	case <-f.begun:
		<-f.woken
	default:
	}
	return err
}

// inThePast changes the Date of an answer. Until thaw the worker sends only the requests below.
func (f *frozen) inThePast(a engine.Answer, err error) (engine.Answer, error) {
	a.Date = a.Date.Add(-f.behind())
	return a, err
}

// Put implements engine.Store.
func (f *frozen) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	return f.inThePast(f.Store.Put(ctx, key, record))
}

// Replace implements engine.Store.
func (f *frozen) Replace(
	ctx context.Context, key engine.Key, old engine.Version, record engine.Record,
) (engine.Answer, error) {
	return f.inThePast(f.Store.Replace(ctx, key, old, record))
}

// Read implements engine.Store.
func (f *frozen) Read(ctx context.Context, key engine.Key, c engine.Consistency) (engine.Answer, error) {
	return f.inThePast(f.Store.Read(ctx, key, c))
}
