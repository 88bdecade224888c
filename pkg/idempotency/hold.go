package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/shared/lease"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// hold is an execution that holds its key.
type hold struct {
	*call
	number int64

	mu       sync.Mutex
	leaseEnd time.Time // that the store has confirmed
}

func newHold(c *call, row engine.Record) *hold {
	return &hold{call: c, number: row.Number, leaseEnd: row.LeaseEnd}
}

// left returns how much of the lease is left, or less.
func (h *hold) left() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.leaseEnd.Sub(h.r.server.Late())
}

func (h *hold) confirmed(leaseEnd time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaseEnd = leaseEnd
}

// execute runs the function, and completes the record or gives the key back.
func (h *hold) execute(ctx context.Context, fn function) (*engine.Record, *returned, error) {
	h.report.Ran = true
	f, lost := h.runFunction(ctx, fn)
	h.checkEffects(f)
	h.report.LeaseLost = lost
	result, ok := f.stored(h.r.store.MaxResult())
	if !ok {
		_, _ = h.release(ctx)
		if lost {
			return nil, nil, fmt.Errorf("%w: %w", ErrLeaseLost, f.err)
		}
		return nil, nil, f.err
	}
	return h.complete(ctx, f, result)
}

// The reserve is what is left of a lease for the completion when the context of the function ends.
const (
	reservePart = 10 // a tenth of the lease
	mostReserve = 5 * time.Second
)

// runFunction calls the function within the lease, and reports whether its context ended because of the lease. It gives
// the key back if the function panics or ends its goroutine.
func (h *hold) runFunction(ctx context.Context, fn function) (f *returned, lost bool) {
	within, end := h.until(ctx, min(h.lease/reservePart, mostReserve))
	stopped := h.keepAlive(within, end)
	stop := func() {
		end(context.Canceled)
		<-stopped
	}
	defer func() {
		if f == nil {
			stop()
			_, _ = h.release(ctx)
		}
	}()
	var effects Effects
	result, err := fn(within, Execution{h.number, h.key, &effects})
	lost = errors.Is(context.Cause(within), ErrLeaseLost)
	stop()
	return &returned{result, err, effects}, lost
}

// heartbeats is how many heartbeats a lease has.
const heartbeats = 3

// afterFailure is how long after a heartbeat that failed the next one is sent.
const afterFailure = time.Second

// keepAlive prolongs the lease until ctx ends. It ends ctx if another execution has the key. The channel is closed when
// no heartbeat is on its way.
func (h *hold) keepAlive(ctx context.Context, end context.CancelCauseFunc) (stopped chan struct{}) {
	stopped = make(chan struct{})
	if h.r.settings.LeaseUntilDeadline {
		close(stopped)
		return stopped
	}
	go func() {
		defer close(stopped)
		for pause := h.lease / heartbeats; h.r.machine.Sleep(ctx, pause) == nil; {
			held, err := h.prolong(ctx)
			if err == nil && !held {
				end(ErrLeaseLost)
				return
			}
			if pause = h.lease / heartbeats; err != nil {
				pause = afterFailure
			}
		}
	}()
	return stopped
}

// prolong sends a heartbeat. It returns false if the row belongs to another execution. Only what the store confirms
// counts.
func (h *hold) prolong(ctx context.Context) (held bool, err error) {
	ends := h.r.ends(h.lease)
	a, err := h.r.ask(func() (engine.Answer, error) { return h.r.store.Prolong(ctx, h.key, h.token, ends) })
	switch {
	case err != nil:
		return false, err
	case a.Done:
		h.confirmed(ends.LeaseEnd)
	case a.Row == nil || a.Row.Token != h.token || a.Row.Status != engine.InProgress:
		return false, nil
	default: // an earlier heartbeat has set a later end
		h.confirmed(a.Row.LeaseEnd)
	}
	return true, nil
}

// complete stores the result. It tries until the lease is over, and at least once: the function has run, and only its
// record stops others from running it again. The context of the caller may have ended meanwhile.
func (h *hold) complete(
	ctx context.Context, f *returned, result engine.Result,
) (*engine.Record, *returned, error) {
	whole := context.WithoutCancel(ctx)
	completion := h.r.completion(result)
	for tries := 1; ; tries++ {
		if f.effects == nil { // the content of a transaction is fixed, so that a late try does the same
			completion = h.r.completion(result)
		}
		a, err := h.r.ask(func() (engine.Answer, error) { return h.sendCompletion(whole, completion, f.effects) })
		refused, isRefused := errors.AsType[*engine.RefusedError](err)
		switch {
		case isRefused:
			return h.refused(whole, f, refused.Reason)
		case err == nil && a.Done:
			record := engine.Record{
				Status: engine.Completed, Number: h.number, Expiry: completion.Expiry, Payload: h.payload, Result: result,
			}
			return &record, f, nil
		case err == nil && h.completed(a.Row):
			return a.Row, f, nil
		case err == nil:
			record, err := h.superseded(ctx, a)
			return record, nil, err
		}
		if h.left() <= 0 || h.r.backOff(whole, tries) != nil {
			return nil, nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, err)
		}
	}
}

// completed reports whether a completion of this execution made the row: its reply was lost.
func (h *hold) completed(row *engine.Record) bool {
	return row != nil && row.Status == engine.Completed && row.CompletedBy == h.token
}

// superseded returns the record of the execution that took the key over, if it is for the same payload. It waits for
// it like a twin, but never runs the function: the function has run.
func (h *hold) superseded(ctx context.Context, a answer) (*engine.Record, error) {
	h.report.Superseded = true
	for waits, failures := 0, 0; ; waits++ {
		if a.Row == nil {
			return nil, ErrLeaseLost
		}
		switch seen(a.Row, h.token, h.payload).Decide(a.at.Early()) {
		case lease.Done:
			return a.Row, nil
		case lease.Twin:
			if h.r.settings.DoNotWait {
				return nil, ErrLeaseLost
			}
		default:
			return nil, ErrLeaseLost
		}
		if err := h.r.backOff(ctx, waits); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLeaseLost, err)
		}
		next, err := h.read(ctx)
		if err == nil {
			a, failures = next, 0
		} else if failures++; failures == maxTries || !errors.Is(err, ErrTryAgain) {
			return nil, fmt.Errorf("%w: %w", ErrLeaseLost, err)
		}
	}
}

// releaseTries is how often a release is tried. If none is confirmed, the lease ends by itself.
const releaseTries = 3

var errNotHeld = errors.New("the execution did not hold the key any more")

// release gives the key back, after the function or its effects have failed. It is never called while the outcome of a
// completion without effects is unknown. It returns the row that the store found instead of a row in progress with this
// token, and an error if no try was confirmed, or if the row was not of this execution any more.
func (h *hold) release(ctx context.Context) (*engine.Record, error) {
	whole := context.WithoutCancel(ctx)
	next, err := h.r.newToken()
	for tries := 1; err == nil; tries++ {
		a, failed := h.r.ask(func() (engine.Answer, error) {
			return h.r.store.Release(whole, h.key, h.token, next)
		})
		if sentTwice := a.Row != nil && a.Row.Token == next; failed == nil && !a.Done && !sentTwice {
			return a.Row, errNotHeld
		}
		if failed == nil || tries == releaseTries {
			return a.Row, failed
		}
		err = h.r.backOff(whole, tries)
	}
	return nil, err
}
