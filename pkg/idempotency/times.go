package idempotency

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/internal/shared/lease"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// purgeGrace is how long a record stays after its expiry. A request that is later than that does not come: its put
// would make a row of an execution that has ended.
const purgeGrace = 15 * time.Minute

// answer is an answer of the engine, with a clock that knows only this reply.
type answer struct {
	engine.Answer
	at *serverclock.Clock
}

// ask sends a request. Its Date moves the clock of the Runner.
func (r *Runner) ask(send func() (engine.Answer, error)) (answer, error) {
	sent := r.server.Moment()
	a, err := send()
	if err != nil {
		return answer{}, err
	}
	if a.Date.IsZero() {
		return answer{}, errNoDate
	}
	r.server.Observe(a.Date, sent)
	at := serverclock.On(r.machine.Moment)
	at.Observe(a.Date, sent)
	return answer{a, at}, nil
}

// ends returns the ends of a lease that begins now. They rest on the early clock: a lease that ends too early is seen
// by its holder, and a lease that ends too late blocks others.
func (r *Runner) ends(length time.Duration) engine.Ends {
	end := lease.End(r.server.Early(), length)
	expiry := roundUp(end.Add(r.settings.Window), time.Millisecond)
	return engine.Ends{LeaseEnd: end, Expiry: expiry, PurgeAt: purgeAt(expiry)}
}

// completion returns what a completion now stores. Its expiry rests on the late clock: the window is never too short.
func (r *Runner) completion(result engine.Result) engine.Completion {
	expiry := roundUp(r.server.Late().Add(r.settings.Window), time.Millisecond)
	return engine.Completion{Result: result, Expiry: expiry, PurgeAt: purgeAt(expiry)}
}

func purgeAt(expiry time.Time) time.Time { return roundUp(expiry.Add(purgeGrace), time.Second) }

func roundUp(t time.Time, unit time.Duration) time.Time {
	if cut := t.Truncate(unit); cut.Before(t) {
		return cut.Add(unit)
	}
	return t
}

// nextNumber returns the number of an execution that begins now, after the execution of old or none.
func (r *Runner) nextNumber(old *engine.Record) int64 {
	number := r.server.Early().UnixMilli()
	if old != nil {
		number = max(number, old.Number+1)
	}
	return number
}

// until returns a context that ends when reserve is left of the lease, by the late clock. It compares each second,
// because a timer stops in a frozen machine. The caller must end it.
func (h *hold) until(ctx context.Context, reserve time.Duration) (context.Context, context.CancelCauseFunc) {
	ctx, end := context.WithCancelCause(ctx)
	go func() {
		for h.left() > reserve {
			if h.r.machine.Sleep(ctx, time.Second) != nil {
				return
			}
		}
		end(ErrLeaseLost)
	}()
	return ctx, end
}
