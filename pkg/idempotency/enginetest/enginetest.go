// Package enginetest is the conformance suite of an engine of package idempotency. It is for authors of engines.
//
// Each condition of each write has a case in which only that condition fails. An engine that leaves one out fails the
// suite. One case runs functions by package idempotency, in several processes at once.
package enginetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Run checks an engine. open returns a store for one case. Two cases may get the same store: they use different keys.
func Run(t *testing.T, open func(testing.TB) engine.Store) {
	t.Helper()
	runCases(t, cases, open)
}

func runCases(t *testing.T, cases []testCase, open func(testing.TB) engine.Store) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			run := &run{TB: t, store: open(t), key: engine.Key{Namespace: "enginetest", Name: t.Name() + time.Now().String()}}
			c.run(run)
		})
	}
}

// run is the run of a case on a key of its own.
type run struct {
	testing.TB
	store engine.Store
	key   engine.Key
}

// The times of the cases. They are ahead, so that no engine deletes the rows.
var (
	leaseEnd = time.Date(2090, 1, 1, 0, 0, 0, int(250*time.Millisecond), time.UTC)
	expiry   = leaseEnd.Add(time.Hour)
	later    = leaseEnd.Add(time.Second)
	zero     = time.UnixMilli(0).UTC()
)

func purgeAt(expiry time.Time) time.Time { return expiry.Add(16 * time.Minute).Truncate(time.Second) }

// progress is a row in progress.
func progress() engine.Record {
	return engine.Record{
		Status: engine.InProgress, Token: "mine", Number: 1_700_000_000_007, Payload: "hash",
		LeaseEnd: leaseEnd, Expiry: expiry, PurgeAt: purgeAt(expiry),
	}
}

func completion() engine.Completion {
	return engine.Completion{
		Result: engine.Result{Kind: engine.Value, ContentType: "text/plain", Body: []byte("\x00result\xff")},
		Expiry: expiry, PurgeAt: purgeAt(expiry),
	}
}

// completed is the row after a completion.
func completed() engine.Record {
	row, c := progress(), completion()
	row.Status, row.CompletedBy, row.Result = engine.Completed, row.Token, c.Result
	row.Expiry, row.PurgeAt = c.Expiry, c.PurgeAt
	return row
}

// The requests. Each checks that there is an answer with a Date.

func (r *run) ask(a engine.Answer, err error) engine.Answer {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
	if a.Date.IsZero() {
		r.Fatal("the answer has no Date")
	}
	return a
}

func (r *run) put(row engine.Record) engine.Answer {
	r.Helper()
	return r.ask(r.store.Put(r.Context(), r.key, row))
}

func (r *run) replace(old engine.Version, row engine.Record) engine.Answer {
	r.Helper()
	return r.ask(r.store.Replace(r.Context(), r.key, old, row))
}

func (r *run) prolong(token string, leaseEnd time.Time) engine.Answer {
	r.Helper()
	end := leaseEnd.Add(time.Hour)
	ends := engine.Ends{LeaseEnd: leaseEnd, Expiry: end, PurgeAt: purgeAt(end)}
	return r.ask(r.store.Prolong(r.Context(), r.key, token, ends))
}

func (r *run) complete(token string) engine.Answer {
	r.Helper()
	return r.ask(r.store.Complete(r.Context(), r.key, token, completion()))
}

func (r *run) release(token string) engine.Answer {
	r.Helper()
	return r.ask(r.store.Release(r.Context(), r.key, token, "next"))
}

// is checks the row of the key.
func (r *run) is(want *engine.Record) {
	r.Helper()
	for range 2 { // a read changes nothing
		if got := r.ask(r.store.Read(r.Context(), r.key, engine.Strong)).Row; !same(got, r.kept(want)) {
			r.Errorf("the row is %+v, want %+v", got, r.kept(want))
		}
	}
}

// foreign returns the store if its rows are read by others, too.
func (r *run) foreign() (engine.Foreign, bool) {
	store := r.store
	if with, ok := store.(withCounters); ok {
		store = with.Transactor
	}
	foreign, ok := store.(engine.Foreign)
	return foreign, ok
}

// kept is a row as the store keeps it: a Foreign has one end, in whole seconds.
func (r *run) kept(row *engine.Record) *engine.Record {
	if _, ok := r.foreign(); !ok || row == nil {
		return row
	}
	kept := *row
	kept.Expiry = row.Expiry.Add(time.Second - time.Nanosecond).Truncate(time.Second)
	kept.PurgeAt = kept.Expiry
	return &kept
}

func same(a, b *engine.Record) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.Token == b.Token && a.Number == b.Number && a.LeaseEnd.Equal(b.LeaseEnd) &&
		a.Expiry.Equal(b.Expiry) && a.PurgeAt.Equal(b.PurgeAt) && a.Payload == b.Payload &&
		a.CompletedBy == b.CompletedBy && a.Result.Kind == b.Result.Kind &&
		a.Result.ContentType == b.Result.ContentType && bytes.Equal(a.Result.Body, b.Result.Body)
}

// done checks that a write was done, and the row after it.
func (r *run) done(a engine.Answer, want engine.Record) {
	r.Helper()
	if !a.Done || a.Row != nil {
		r.Errorf("the write was not done, or shows a row: %+v", a)
	}
	r.is(&want)
}

// refused checks that a write was refused, showed the row, and changed nothing.
func (r *run) refused(a engine.Answer, row *engine.Record) {
	r.Helper()
	if a.Done || !same(a.Row, r.kept(row)) {
		r.Errorf("want a refusal that shows %+v, got %+v", r.kept(row), a)
	}
	r.is(row)
}

type testCase struct {
	name string
	run  func(*run)
}

var cases = []testCase{
	{"absent", func(r *run) {
		r.is(nil)
		r.refused(r.prolong("mine", later), nil)
		r.refused(r.complete("mine"), nil)
		r.refused(r.release("mine"), nil)
	}},
	{"put", func(r *run) {
		row := progress()
		r.done(r.put(row), row)
		other := row
		other.Token = "other"
		r.refused(r.put(other), &row)
		r.refused(r.put(row), &row)
	}},
	{"replace-absent", func(r *run) { r.done(r.replace(progress().Version(), progress()), progress()) }},
	{"replace", func(r *run) {
		row, next := progress(), progress()
		r.put(row)
		next.Token, next.Number, next.Payload, next.LeaseEnd = "next", row.Number+1, "other hash", later
		r.done(r.replace(row.Version(), next), next)
		r.refused(r.replace(row.Version(), row), &next)
	}},
	{"replace-completed", func(r *run) {
		r.put(progress())
		r.complete("mine")
		next := progress()
		next.Token = "next"
		r.done(r.replace(completed().Version(), next), next) // without the result
	}},
	{"replace-status", func(r *run) { // the completion has kept the token, the lease end and the expiry
		r.put(progress())
		r.complete("mine")
		next, row := progress(), completed()
		next.Token = "next"
		r.refused(r.replace(progress().Version(), next), &row)
	}},
	{"replace-token", func(r *run) { r.replaceRefused(func(v *engine.Version) { v.Token = "other" }) }},
	{"replace-number", func(r *run) { r.replaceRefused(func(v *engine.Version) { v.Number++ }) }},
	{"replace-lease-end", func(r *run) {
		r.replaceRefused(func(v *engine.Version) { v.LeaseEnd = v.LeaseEnd.Add(time.Millisecond) })
	}},
	{"replace-expiry", func(r *run) {
		step := time.Millisecond
		if _, ok := r.foreign(); ok {
			step = time.Second
		}
		r.replaceRefused(func(v *engine.Version) { v.Expiry = v.Expiry.Add(step) })
	}},
	{"prolong", func(r *run) {
		r.put(progress())
		want := progress()
		want.LeaseEnd, want.Expiry, want.PurgeAt = later, later.Add(time.Hour), purgeAt(later.Add(time.Hour))
		r.done(r.prolong("mine", later), want)
		r.refused(r.prolong("mine", later), &want)
		r.refused(r.prolong("mine", leaseEnd), &want)
		r.refused(r.prolong("other", later.Add(time.Second)), &want)
	}},
	{"prolong-completed", func(r *run) {
		r.put(progress())
		r.complete("mine")
		want := completed()
		r.refused(r.prolong("mine", later), &want)
	}},
	{"complete", func(r *run) {
		row, want := progress(), completed()
		r.put(row)
		r.refused(r.complete("other"), &row)
		r.done(r.complete("mine"), want)
		r.refused(r.complete("mine"), &want)
	}},
	{"release", func(r *run) {
		row, want := progress(), progress()
		want.Token, want.LeaseEnd = "next", zero
		r.put(row)
		r.refused(r.release("other"), &row)
		r.done(r.release("mine"), want)
		r.refused(r.release("mine"), &want)
		r.refused(r.complete("mine"), &want)
		r.refused(r.prolong("mine", later), &want)
	}},
	{"release-completed", func(r *run) {
		r.put(progress())
		r.complete("mine")
		want := completed()
		r.refused(r.release("mine"), &want)
	}},
	{"replace-released", func(r *run) {
		r.put(progress())
		r.release("mine")
		released, next := progress(), progress()
		released.Token, released.LeaseEnd = "next", zero
		next.Token, next.Number = "third", next.Number+1
		r.refused(r.replace(progress().Version(), next), &released)
		r.done(r.replace(released.Version(), next), next)
	}},
	{"kinds", func(r *run) {
		for n, kind := range []engine.Kind{engine.Value, engine.Failure, engine.Missing} {
			one := &run{r.TB, r.store, r.key}
			one.key.Name += fmt.Sprint(n)
			one.put(progress())
			c, want := completion(), completed()
			c.Result = engine.Result{Kind: kind, Body: []byte("text é")}
			want.Result = c.Result
			one.done(one.ask(one.store.Complete(one.Context(), one.key, "mine", c)), want)
		}
	}},
	{"together", func(r *run) { // of many requests with the same condition, one is done
		one := func(next engine.Record, send func(engine.Record) (engine.Answer, error)) engine.Record {
			r.Helper()
			var all sync.WaitGroup
			var mu sync.Mutex
			var done []engine.Record
			for n := range 8 {
				all.Go(func() {
					row := next
					row.Token += fmt.Sprint(n)
					a, err := send(row)
					if mu.Lock(); err != nil && !errors.Is(err, engine.ErrTryAgain) {
						r.Error(err)
					} else if a.Done {
						done = append(done, row)
					}
					mu.Unlock()
				})
			}
			if all.Wait(); len(done) != 1 {
				r.Fatalf("%d requests were done, want 1", len(done))
			}
			r.is(&done[0])
			return done[0]
		}
		first := one(progress(), func(row engine.Record) (engine.Answer, error) {
			return r.store.Put(r.Context(), r.key, row)
		})
		second := first
		second.Number++
		one(second, func(row engine.Record) (engine.Answer, error) {
			return r.store.Replace(r.Context(), r.key, first.Version(), row)
		})
	}},
	{"largest-result", func(r *run) {
		r.put(progress())
		c, want := completion(), completed()
		c.Result.ContentType = strings.Repeat("t", 1000)
		c.Result.Body = bytes.Repeat([]byte{0xff}, r.store.MaxResult()-1000)
		want.Result = c.Result
		r.done(r.ask(r.store.Complete(r.Context(), r.key, "mine", c)), want)
	}},
	{"empty-result", func(r *run) {
		r.put(progress())
		c, want := completion(), completed()
		c.Result = engine.Result{Kind: engine.Value}
		want.Result = c.Result
		r.done(r.ask(r.store.Complete(r.Context(), r.key, "mine", c)), want)
	}},
	{"calls", (*run).calls},
	{"keys", func(r *run) { // keys and namespaces that must not be confused
		space, name := r.key.Namespace, r.key.Name
		keys := []engine.Key{
			{Namespace: space, Name: name}, {Namespace: space + "#", Name: name}, {Namespace: space, Name: "#" + name},
			{Namespace: space, Name: name + strings.Repeat("é", 200)}, {Namespace: space, Name: name + "\x00"},
		}
		for n, key := range keys {
			one := &run{r.TB, r.store, key}
			row := progress()
			row.Number = int64(n + 1)
			one.done(one.put(row), row)
		}
	}},
}

// mostTime only ends calls that wait for an engine that does not work.
const mostTime = 2 * time.Minute

// calls has 20 calls of 4 keys in 5 processes at once. Each key has one execution, and its calls get one result.
func (r *run) calls() {
	const processes, keys = 5, 4
	ctx, cancel := context.WithTimeout(r.Context(), mostTime)
	defer cancel()
	var runs [keys]atomic.Int64
	var results sync.Map
	var all sync.WaitGroup
	for range processes {
		runner, err := idempotency.New(r.store, r.key.Namespace, idempotency.Settings{})
		if err != nil {
			r.Fatal(err)
		}
		for n := range keys {
			all.Go(func() {
				fn := func(_ context.Context, e idempotency.Execution, _ int) (string, error) {
					return fmt.Sprint(n, " by ", e.Number, ", run ", runs[n].Add(1)), nil
				}
				out, err := idempotency.Do(ctx, runner, r.key.Name+fmt.Sprint(n), n, fn)
				if first, _ := results.LoadOrStore(n, out.Value); err != nil || first != out.Value {
					r.Errorf("key %d: got %+v and %v, and another call got %v", n, out, err, first)
				}
			})
		}
	}
	all.Wait()
	for n := range runs {
		if got := runs[n].Load(); got != 1 {
			r.Errorf("key %d: the function ran %d times", n, got)
		}
	}
}

// replaceRefused checks that a replace is refused if only one part of the version has changed.
func (r *run) replaceRefused(change func(*engine.Version)) {
	r.Helper()
	row, old, next := progress(), progress().Version(), progress()
	change(&old)
	next.Token = "next"
	r.put(row)
	r.refused(r.replace(old, next), &row)
}
