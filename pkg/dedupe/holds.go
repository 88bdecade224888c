package dedupe

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/internal/shared/lease"
	"github.com/oncebox/oncebox/pkg/format"
)

// Token names one run of a batch. It is random.
type Token [16]byte

// Hold says which run of a batch has an entry in progress, and until when. The zero Hold is the state of all entries
// that no queue has made: nobody knows whether their effect is done.
type Hold struct {
	Token Token
	Ends  int64 // the end of the lease, in Unix milliseconds by the engine's clock
}

// Holds is implemented by an engine that stores one row for each key. With it a Processor knows for each message of a
// queue whether its effect is done: see Batch.Queue. The entry of a message is put with a Hold, taken over by another
// run after the lease, and Done at the end.
//
// An engine that is busy, throttled or out of reach returns an error of the family ErrTryAgain. The call may then have
// taken effect, and may take effect later. All methods are safe to repeat.
type Holds interface {
	// ServerTime returns the engine's time. The scope says which rows the caller may read.
	ServerTime(ctx context.Context, scope string) (time.Time, error)
	// TakeOver puts each entry in place of an old one, if that is stored unchanged. It changes nothing if there is no
	// entry. The keys of one call differ. The results are in the order of the requests.
	TakeOver(ctx context.Context, requests []TakeOverRequest) ([]TakeOverResult, error)
	// Finish sets Done in each entry that has the owner and the token. The results are in the order of the requests.
	Finish(ctx context.Context, requests []FinishRequest) ([]FinishResult, error)
}

// TakeOverRequest is a request to put an entry in place of an old one. It has the key of both.
type TakeOverRequest struct {
	Old   Existing
	Entry Entry
}

// TakeOverResult is the result of one TakeOverRequest.
type TakeOverResult struct {
	Taken bool // the entry is put now
	Err   error
}

// FinishRequest names the entry of a record whose effect is done. The token alone is not enough: in one run a record can
// take the key of another one whose entry does not count any more.
type FinishRequest struct {
	Scope string
	Key   Key
	Owner Digest // Owner.Digest of the record
	Token Token
}

// FinishResult is the result of one FinishRequest.
type FinishResult struct {
	Finished bool // the entry has the owner and the token and is Done, by this call or an earlier one
	Err      error
}

// holding is the Hold of one run of a batch. Its clock rests on one reply of the engine at the begin of the run: a process
// may have been frozen since the run before.
type holding struct {
	Hold
	store   Holds
	machine func() serverclock.Moment
	server  *serverclock.Clock
	marked  map[Digest]bool // the owners of the entries that this run has finished
}

// holdsOf returns the engine of a ledger with one row for each key, or nil if it has no Holds.
func holdsOf(l Ledger) Holds {
	if of, ok := l.(byKey); ok {
		store, _ := of.entries.(Holds)
		return store
	}
	store, _ := l.(Holds)
	return store
}

// leaseWithoutDeadline is the lease of a batch whose context has no deadline: the longest run of a Lambda function.
const leaseWithoutDeadline = 15 * time.Minute

// holdOf makes the Hold of a run of a batch of a queue: the entries of its messages are its own until its deadline.
func (r *batchRun) holdOf(ctx context.Context) (*holding, error) {
	if !r.batch.Queue || r.parts.Sink == nil || r.parts.Acks == nil || r.settings.PassNatural {
		return nil, nil
	}
	store := holdsOf(r.parts.Ledger)
	if store == nil {
		return nil, ErrNoHolds
	}
	server, err := r.readTime(ctx, store)
	if err != nil {
		return nil, err
	}
	length := leaseWithoutDeadline
	if deadline, ok := ctx.Deadline(); ok {
		length = max(0, deadline.Sub(r.clock.Now()))
	}
	h := &holding{store: store, machine: r.machine, server: server, marked: map[Digest]bool{}}
	h.Ends = lease.End(server.Early(), length).UnixMilli()
	_, err = rand.Read(h.Token[:])
	return h, err
}

// readTime returns the clock of the engine. While the engine is busy, it asks again, as for decisions.
func (r *batchRun) readTime(ctx context.Context, store Holds) (server *serverclock.Clock, err error) {
	server = serverclock.On(r.machine)
	r.clock.askUntil(ctx, r.clock.patience(ctx), func() (again bool) {
		var now time.Time
		sent := server.Moment()
		if now, err = store.ServerTime(ctx, r.settings.Scope); err == nil {
			server.Observe(now, sent)
		}
		return errors.Is(err, ErrTryAgain) && ctx.Err() == nil
	})
	return server, err
}

// moment returns the present moment, before a request is sent.
func (h *holding) moment() (m serverclock.Moment) {
	if h != nil {
		m = h.server.Moment()
	}
	return m
}

// over reports whether the lease may be over.
func (h *holding) over() bool { return h != nil && !h.server.Late().Before(time.UnixMilli(h.Ends)) }

// endless is after every time.
var endless = time.UnixMilli(1 << 60)

// decide says what an entry means for a message that is the same as the record that holds it, or is that record. The
// reply that showed the entry had this date, and its request was sent at this moment.
func (h *holding) decide(e Existing, date time.Time, sent serverclock.Moment) lease.Decision {
	at := serverclock.On(h.machine)
	at.Observe(date, sent)
	ends := time.UnixMilli(e.Hold.Ends)
	if e.Done { // until its purge time, which the put has compared
		ends = endless
	}
	return lease.Row{Done: e.Done, Mine: e.Hold.Token == h.Token, Same: true, Ends: ends}.Decide(at.Early())
}

// finish stores for user records of a queue that their effect is done, after the sink or the dead-letter store has
// confirmed them. A message whose mark is not confirmed is not done: without the mark, a copy would be delivered after
// the lease. Then finish decides the copies that wait for a record before them.
func (r *batchRun) finish(ctx context.Context, users []userRecord) (err error) {
	if r.hold == nil {
		return nil
	}
	var held []*userRecord
	for i := range users {
		if u := &users[i]; u.done && u.decision.state.value().held {
			held = append(held, u)
		}
	}
	r.clock.askUntil(ctx, r.clock.end(ctx), func() (again bool) {
		held, again = r.mark(ctx, held)
		return again
	})
	for i := range users {
		u := &users[i]
		if u.waits {
			if u.done = r.hold.marked[u.decision.state.waitsFor]; !u.done {
				u.err = ErrInWork
			}
		}
		err = graver(err, u.err)
	}
	return err
}

// mark tries once to finish the entries of user records. It returns those that may be tried again. Each of the others
// is either done or has an error.
func (r *batchRun) mark(ctx context.Context, users []*userRecord) (again []*userRecord, some bool) {
	if len(users) == 0 {
		return nil, false
	}
	requests := make([]FinishRequest, len(users))
	for i, u := range users {
		requests[i] = FinishRequest{
			Scope: r.settings.Scope, Key: format.KeyOf(u.decision.ID), Owner: r.ownerOf(u).Digest(), Token: r.hold.Token,
		}
	}
	results, err := r.hold.store.Finish(ctx, requests)
	err = checkNumber(len(results), len(requests), err)
	for i, u := range users {
		var result FinishResult
		if result.Err = err; err == nil {
			result = results[i]
		}
		switch {
		case result.Err != nil:
			u.done, u.err = false, result.Err
			if mayPass(result.Err) && ctx.Err() == nil {
				again = append(again, u)
			}
		case !result.Finished:
			u.done, u.err = false, errTakenOver
		default:
			u.done, u.err = true, nil
			r.hold.marked[requests[i].Owner] = true
		}
	}
	return again, len(again) > 0
}
