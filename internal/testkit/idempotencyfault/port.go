package idempotencyfault

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// port is the store as a process sees it.
type port struct{ *process }

// request is a request on its way.
type request struct {
	x     *execution
	name  string
	key   engine.Key
	sent  time.Time
	lease time.Duration // of a row that it puts
	do    func(context.Context) (engine.Answer, error)
}

// MaxResult implements engine.Store.
func (p *port) MaxResult() int { return p.store.MaxResult() }

// Put implements engine.Store.
func (p *port) Put(ctx context.Context, key engine.Key, r engine.Record) (engine.Answer, error) {
	return p.send(ctx, "put", key, func(ctx context.Context) (engine.Answer, error) { return p.store.Put(ctx, key, r) })
}

// Replace implements engine.Store.
func (p *port) Replace(
	ctx context.Context, key engine.Key, old engine.Version, r engine.Record,
) (engine.Answer, error) {
	return p.send(ctx, "replace", key, func(ctx context.Context) (engine.Answer, error) {
		return p.store.Replace(ctx, key, old, r)
	})
}

// Prolong implements engine.Store.
func (p *port) Prolong(ctx context.Context, key engine.Key, token string, e engine.Ends) (engine.Answer, error) {
	return p.send(ctx, "prolong", key, func(ctx context.Context) (engine.Answer, error) {
		return p.store.Prolong(ctx, key, token, e)
	})
}

// Complete implements engine.Store.
func (p *port) Complete(ctx context.Context, key engine.Key, token string, c engine.Completion) (engine.Answer, error) {
	return p.send(ctx, "complete", key, func(ctx context.Context) (engine.Answer, error) {
		return p.store.Complete(ctx, key, token, c)
	})
}

// CheckEffects implements engine.Transactor.
func (p *port) CheckEffects(key engine.Key, e engine.Effects) error {
	return p.store.CheckEffects(key, e)
}

// CompleteWith implements engine.Transactor. A transaction that took effect is known by its token for a while. A busy
// store decides nothing.
func (p *port) CompleteWith(
	ctx context.Context, key engine.Key, token string, c engine.Completion, e engine.Effects,
) (engine.Answer, error) {
	p.judge.transacts(ctx.Value(callKey{}).(*execution), token, c)
	return p.send(ctx, "complete", key, func(ctx context.Context) (engine.Answer, error) {
		switch {
		case p.committed[token] && p.luck.IntN(2) == 0:
			return engine.Answer{Date: p.now.Truncate(time.Second), Done: true}, nil
		case p.lossy > 0 && p.luck.IntN(20) == 0:
			return engine.Answer{}, fmt.Errorf("%w: busy", idempotency.ErrTryAgain)
		}
		answer, err := p.store.CompleteWith(ctx, key, token, c, e)
		p.committed[token] = p.committed[token] || answer.Done
		return answer, err
	})
}

// Release implements engine.Store.
func (p *port) Release(ctx context.Context, key engine.Key, token, next string) (engine.Answer, error) {
	return p.send(ctx, "release", key, func(ctx context.Context) (engine.Answer, error) {
		return p.store.Release(ctx, key, token, next)
	})
}

// Read implements engine.Store.
func (p *port) Read(ctx context.Context, key engine.Key, c engine.Consistency) (engine.Answer, error) {
	if c == engine.Strong {
		return p.send(ctx, "read", key, func(ctx context.Context) (engine.Answer, error) { return p.store.Read(ctx, key, c) })
	}
	return p.send(ctx, "cheap read", key, func(ctx context.Context) (engine.Answer, error) {
		answer, err := p.store.Read(ctx, key, c)
		answer.Row = p.rowAt(key, p.now.Add(-p.upTo(p.random, stale)))
		return answer, err
	})
}

// reply is what a process gets.
type reply struct {
	answer engine.Answer
	err    error
}

const (
	namespace = "test" // of all keys
	timeout   = 4 * time.Second
	// latest is how late a request can take effect: less than the grace of the purge.
	latest = 15*time.Minute - 10*time.Second
	// stale is how old the row of a cheap read can be.
	stale = 10 * time.Second
)

// send sends a request. Its context ends the wait for the reply, and does not stop the request.
func (p *port) send(
	ctx context.Context, name string, key engine.Key, do func(context.Context) (engine.Answer, error),
) (engine.Answer, error) {
	if p.crashed() {
		return engine.Answer{}, errCrashed
	}
	if ctx.Err() != nil {
		return engine.Answer{}, ctx.Err()
	}
	x := ctx.Value(callKey{}).(*execution)
	r := &request{x, name, key, p.now, p.leaseOf(x, p.now), do}
	p.judge.sent(r)
	replied := make(chan reply, 2)
	p.travel(r, func(re reply) { p.awake(func() { replied <- re }) })
	select {
	case re := <-replied:
		p.judge.replied(r, re)
		return re.answer, re.err
	case <-p.dead:
		return engine.Answer{}, errCrashed
	case <-ctx.Done():
		return engine.Answer{}, ctx.Err()
	}
}

// travel plans what happens to a request.
func (p *port) travel(r *request, answer func(reply)) {
	there, back := p.delay(), p.delay()
	lost := func() {
		p.after(timeout, func() { answer(reply{err: fmt.Errorf("%w: time-out", idempotency.ErrTryAgain)}) })
	}
	arrives := func(d time.Duration, then func(reply)) { p.after(d, func() { then(p.effect(r)) }) }
	if r.name == "prolong" && p.deaf {
		lost()
		return
	}
	if p.random.Float64() >= p.lossy {
		arrives(there, func(re reply) { p.after(back, func() { answer(re) }) })
		return
	}
	switch p.random.IntN(4) {
	case 0: // the request is lost
		lost()
	case 1: // the reply is lost
		arrives(there, func(reply) {})
		lost()
	case 2: // the request is late, or both: the network has sent it twice
		if p.random.IntN(2) == 0 {
			arrives(there, func(reply) {})
		}
		arrives(p.upTo(p.random, one(p.random, 20*time.Second, latest)), func(reply) {})
		lost()
	case 3: // the client sends it again, and gets the second reply
		arrives(there, func(reply) {})
		arrives(there+p.delay(), func(re reply) { p.after(back, func() { answer(re) }) })
	}
}

// delay returns how long a message takes.
func (p *port) delay() time.Duration {
	if p.slow && p.random.IntN(5) == 0 {
		return p.upTo(p.random, p.settings.Lease/2)
	}
	if p.coarse {
		return p.upTo(p.random, time.Second)
	}
	return p.upTo(p.random, 60*time.Millisecond)
}

// version is a row that the store had from a time on.
type version struct {
	from time.Time
	row  *engine.Record
}

// effect lets a request take effect in the store. Rows that may be deleted are deleted before, or not.
func (p *port) effect(r *request) reply {
	if p.random.IntN(2) == 0 {
		p.purge()
	}
	before := p.store.Row(r.key)
	answer, err := r.do(context.Background())
	if p.rounds {
		answer.Date = p.now.Round(time.Second)
	}
	after := p.store.Row(r.key)
	p.log("call %d: %s takes effect: %t, %s", r.x.id, r.name, answer.Done, show(after))
	p.judge.wrote(r, before, after)
	p.remember(r.key, after)
	return reply{answer, err}
}

// purge deletes the rows that may be deleted.
func (w *world) purge() {
	var before [2]*engine.Record // of the keys a and b
	for n := range before {
		before[n] = w.store.Row(w.key(n))
	}
	w.store.Purge()
	for n, row := range before {
		if row != nil && w.store.Row(w.key(n)) == nil {
			w.log("key %s: purged", w.key(n).Name)
			w.remember(w.key(n), nil)
		}
	}
}

// key returns one of the keys of a history.
func (w *world) key(n int) engine.Key { return w.keyOf(string(rune('a' + n))) }

func (*world) keyOf(name string) engine.Key { return engine.Key{Namespace: namespace, Name: name} }

func (w *world) remember(key engine.Key, row *engine.Record) {
	w.past[key.Name] = append(w.past[key.Name], version{w.now, row})
}

// rowAt returns the row that a key had at a time.
func (w *world) rowAt(key engine.Key, at time.Time) (row *engine.Record) {
	for _, v := range w.past[key.Name] {
		if v.from.After(at) {
			break
		}
		row = v.row
	}
	return row
}

func show(row *engine.Record) string {
	if row == nil {
		return "no row"
	}
	return fmt.Sprintf("%s %.4s number %d lease %.3f expiry %.3f purge %.3f by %.4s: %.20s",
		row.Status, row.Token, row.Number, row.LeaseEnd.Sub(noon).Seconds(), row.Expiry.Sub(noon).Seconds(),
		row.PurgeAt.Sub(noon).Seconds(), row.CompletedBy, row.Result.Body)
}
