package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/shared/lease"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// NextCall is what the record of a key means for the next call.
type NextCall string

// The kinds of NextCall.
const (
	NextRuns    NextCall = "runs"          // it runs the function
	NextReplays NextCall = "replays"       // it gets what the completed record has
	NextWaits   NextCall = "waits"         // it waits for the execution that holds the key, or gets ErrInProgress
	NextRefused NextCall = "other-payload" // it gets ErrOtherPayload
)

// Explanation is the record of a key, and what it means for the next call.
type Explanation struct {
	Record *engine.Record // nil: the key has none
	Next   NextCall
}

// Explain says what the next call of the key gets if it has this payload. A nil payload is the payload of the record.
// Explain changes nothing. Errors belong to ErrInvalid or ErrTryAgain, or are faults of the store.
func (r *Runner) Explain(ctx context.Context, key string, payload []byte) (Explanation, error) {
	a, err := r.look(ctx, key)
	if err != nil || a.Row == nil {
		return Explanation{Next: NextRuns}, err
	}
	compared := a.Row.Payload
	if payload != nil {
		if compared, err = r.hash(payload); err != nil {
			return Explanation{}, err
		}
	}
	none, err := r.newToken() // of no execution
	next := map[lease.Decision]NextCall{
		lease.OtherPayload: NextRefused, lease.Done: NextReplays, lease.Twin: NextWaits, lease.Free: NextRuns,
	}[seen(a.Row, none, compared).Decide(a.at.Early())]
	return Explanation{a.Row, next}, err
}

// look reads the row of a key, for people.
func (r *Runner) look(ctx context.Context, key string) (answer, error) {
	if err := checkName("key", key); err != nil {
		return answer{}, err
	}
	return (&call{r: r, key: engine.Key{Namespace: r.namespace, Name: key}}).read(ctx)
}

// Eviction names the execution whose record Evict frees.
type Eviction struct {
	// Number is the number of the execution. The record of another execution stays. So a repeat is safe, also if its
	// first try took effect and the function has run since.
	Number int64
	// Running also evicts an execution whose lease is not over. It may go on: then two run at a time.
	Running bool
}

// Evict frees a key deliberately: the next call runs the function, although the key has a result or an execution. So
// its effects can happen twice: effects outside of the store, and of a completed record also effects of
// Execution.Commit. The row stays, because it holds the number: the next execution has a larger one. The result is
// removed from the row.
//
// Evict returns the record that it freed, or nil if the key was free. A call that has read the result before, or reads
// it in the next seconds with an eventually consistent read, can still return it. So can the calls of its process that
// wait for it, and the calls that wait for them.
//
// A Runner with a cache (Settings.CacheBytes) that has a copy of the result returns it until the window is over, and
// refuses other payloads until then. Evict removes the copy of its own Runner only. Restart the other processes, or use
// Runners without a cache, if that matters.
//
// Errors: an *InProgressError without Running; ErrNoRecord; ErrOtherExecution; ErrChanged; the errors of Explain.
func (r *Runner) Evict(ctx context.Context, key string, e Eviction) (freed *engine.Record, err error) {
	defer func() {
		if err == nil || errors.Is(err, ErrNoRecord) {
			r.copies.evict(key, e.Number)
		}
	}()
	a, err := r.look(ctx, key)
	if err != nil {
		return nil, err
	}
	row := a.Row
	switch {
	case row == nil:
		return nil, ErrNoRecord
	case row.Number != e.Number:
		return nil, fmt.Errorf("%w: it has the number %d", ErrOtherExecution, row.Number)
	case !seen(row, "", row.Payload).Counts(a.at.Early()):
		return nil, nil
	case row.Status == engine.InProgress && !e.Running:
		return nil, &InProgressError{row.LeaseEnd.Sub(a.at.Early())}
	}
	next, err := r.newToken()
	if err != nil {
		return nil, err
	}
	wrote, err := r.ask(func() (engine.Answer, error) { return r.free(ctx, key, *row, next) })
	switch {
	case err != nil:
		return nil, err
	case wrote.Done || wrote.Row != nil && wrote.Row.Token == next: // the engine sent it twice
		return row, nil
	}
	return nil, ErrChanged
}

// free gives a key back in the name of the execution in its row. A heartbeat does not stop that, and a completion does.
func (r *Runner) free(ctx context.Context, name string, row engine.Record, next string) (engine.Answer, error) {
	key := engine.Key{Namespace: r.namespace, Name: name}
	if row.Status == engine.InProgress && row.Token != "" { // a row of others may have no token
		return r.store.Release(ctx, key, row.Token, next)
	}
	return r.store.Replace(ctx, key, row.Version(), released(row, next))
}

// released is the row of a completed record as it would be if its execution had given the key back. It is purged as
// late as the record, which is later than any late request.
func released(row engine.Record, next string) engine.Record {
	return engine.Record{
		Status: engine.InProgress, Token: next, Number: row.Number, LeaseEnd: time.UnixMilli(0).UTC(),
		Expiry: row.Expiry, PurgeAt: row.PurgeAt, Payload: row.Payload,
	}
}
