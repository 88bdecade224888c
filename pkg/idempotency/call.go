package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/shared/lease"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// call is one call of Do. Its key, payload hash and token are fixed before the first request, whatever the function
// does to its input.
type call struct {
	r       *Runner
	key     engine.Key
	payload string // hash
	token   string // the same in all tries of the call, so that a try whose reply was lost is recognised
	// deadline is when the process ends the call, by its own wall clock; zero: the setting Lease counts.
	deadline time.Time
	lease    time.Duration // of the last put
	report   Report
}

func (r *Runner) newCall(ctx context.Context, key string, payload []byte) (*call, error) {
	hashed, err := r.hash(payload)
	if err != nil {
		return nil, err
	}
	c := &call{r: r, key: engine.Key{Namespace: r.namespace, Name: key}, payload: hashed}
	if r.settings.LeaseUntilDeadline {
		var ok bool
		if c.deadline, ok = ctx.Deadline(); !ok {
			return nil, &InvalidError{"context", "it has no deadline, and LeaseUntilDeadline needs one"}
		}
		if length := c.newLease(); length > maxLease {
			return nil, &InvalidError{"context", fmt.Sprintf("its deadline is in %s, and LeaseUntilDeadline allows %s: a crash "+
				"blocks the key for as long; set an earlier deadline, or use Lease", length.Round(time.Second), maxLease)}
		}
	}
	c.token, err = r.newToken()
	return c, err
}

// newLease returns how long a lease lasts that begins now. The own clock only measures what is left to a deadline that
// rests on the own clock.
func (c *call) newLease() time.Duration {
	if c.deadline.IsZero() {
		return c.r.settings.Lease
	}
	return max(0, c.deadline.Sub(c.r.machine.Moment().Wall))
}

// run returns the completed record of the key, and what the function returned if the record is of this call.
func (c *call) run(ctx context.Context, fn function) (*engine.Record, *returned, error) {
	if row, err := c.useCopy(c.r.copies.get(c.key.Name), c.r.server.Late()); row != nil || err != nil {
		return row, nil, err
	}
	record, ran, err := c.runAtStore(ctx, fn)
	if err == nil {
		c.r.copies.add(c.key.Name, record)
	}
	return record, ran, err
}

// runAtStore is run without a copy in the cache.
func (c *call) runAtStore(ctx context.Context, fn function) (*engine.Record, *returned, error) {
	row, err := c.begin(ctx)
	if err != nil {
		return nil, nil, err
	}
	replayed := row.Status == engine.Completed
	c.r.replays.Count(replayed)
	if replayed {
		return row, nil, nil
	}
	return newHold(c, *row).execute(ctx, fn)
}

// maxTries is how many requests in a row can fail, come too late, or find neither this execution nor another.
const maxTries = 10

// begin returns the row of the key: a completed record to replay, or the row of this execution, with at least half of
// its lease left.
func (c *call) begin(ctx context.Context) (*engine.Record, error) {
	if row, err := c.readFirst(ctx); row != nil || err != nil {
		return row, err
	}
	var failure error
	next, waits := c.show, 0
	// tooShort is the number of the own row over which a new row was last put. That put may still be on its way, so the
	// function does not run with the old number and the old lease.
	var tooShort int64
	for tries := 0; tries < maxTries; {
		a, err := next(ctx)
		switch {
		case errors.Is(err, ErrTryAgain):
			failure, next = err, c.show
			tries++
			if err := c.r.backOff(ctx, tries); err != nil {
				return nil, err
			}
			continue
		case err != nil:
			return nil, err
		case a.Row == nil: // a read has found none
			next = c.show
			tries++
			continue
		}
		row := *a.Row
		switch seen(&row, c.token, c.payload).Decide(a.at.Early()) {
		case lease.Mine:
			if row.Number != tooShort && row.LeaseEnd.Sub(a.at.Late()) >= c.lease/2 {
				return &row, nil
			}
			next, tooShort = c.replace(row), row.Number
			tries++
		case lease.OtherPayload:
			return nil, ErrOtherPayload
		case lease.Done:
			return &row, nil
		case lease.Twin:
			tries, waits = 0, waits+1 // the store answers
			if err := c.wait(ctx, a, waits); err != nil {
				return nil, err
			}
			next = c.read
		case lease.Free:
			c.report.TookOver = abandoned(row)
			next = c.replace(row)
			tries++ // the reply to the next request shows an execution, usually that of this call
		}
	}
	if failure == nil {
		failure = fmt.Errorf("%w: %d requests did not get the key with half of its lease", ErrTryAgain, maxTries)
	}
	return nil, failure
}

// seen is a row as a call with a token and a payload sees it.
func seen(row *engine.Record, token, payload string) lease.Row {
	ends := row.LeaseEnd
	if row.Status == engine.Completed {
		ends = row.Expiry
	}
	return lease.Row{
		Done: row.Status == engine.Completed, Mine: row.Token == token, Same: row.Payload == payload, Ends: ends,
	}
}

// useCopy returns a row that may be old, if it decides the call: it is completed, and its window is not over by the late
// clock. Such a record does not change within its window, unless it is evicted.
func (c *call) useCopy(row *engine.Record, late time.Time) (*engine.Record, error) {
	switch {
	case row == nil || row.Status != engine.Completed || !late.Before(row.Expiry):
		return nil, nil
	case row.Payload != c.payload:
		return nil, ErrOtherPayload
	}
	return row, nil
}

// readFirst looks for a completed record with a cheap read, where replays are frequent. Such a read may show an old
// row. Its error does not count.
func (c *call) readFirst(ctx context.Context) (*engine.Record, error) {
	if !c.r.replays.Frequent() {
		return nil, nil
	}
	a, err := c.r.ask(func() (engine.Answer, error) { return c.r.store.Read(ctx, c.key, engine.Eventual) })
	if err != nil {
		return nil, nil //nolint:nilerr // the put that follows fails by itself, or does not
	}
	return c.useCopy(a.Row, a.at.Late())
}

// show asks for the row of the key, and puts one if there is none. A process that has seen no Date cannot put: it would
// have no time for the lease.
func (c *call) show(ctx context.Context) (answer, error) {
	if c.r.server.Early().IsZero() {
		return c.read(ctx)
	}
	return c.put(nil, func(record engine.Record) (engine.Answer, error) {
		return c.r.store.Put(ctx, c.key, record)
	})
}

// replace returns the request that puts a row of this execution over an old one.
func (c *call) replace(old engine.Record) func(context.Context) (answer, error) {
	return func(ctx context.Context) (answer, error) {
		return c.put(&old, func(record engine.Record) (engine.Answer, error) {
			return c.r.store.Replace(ctx, c.key, old.Version(), record)
		})
	}
}

// put sends a new row of this execution. If it is put, the answer has it.
func (c *call) put(old *engine.Record, send func(engine.Record) (engine.Answer, error)) (answer, error) {
	c.lease = c.newLease()
	ends := c.r.ends(c.lease)
	record := engine.Record{
		Status: engine.InProgress, Token: c.token, Number: c.r.nextNumber(old), Payload: c.payload,
		LeaseEnd: ends.LeaseEnd, Expiry: ends.Expiry, PurgeAt: ends.PurgeAt,
	}
	a, err := c.r.ask(func() (engine.Answer, error) { return send(record) })
	if err == nil && a.Done {
		a.Row = &record
	}
	return a, err
}

func (c *call) read(ctx context.Context) (answer, error) {
	return c.r.ask(func() (engine.Answer, error) { return c.r.store.Read(ctx, c.key, engine.Strong) })
}

// wait waits for another call that holds the key, or says that it does.
func (c *call) wait(ctx context.Context, a answer, waits int) error {
	if c.r.settings.DoNotWait {
		return &InProgressError{a.Row.LeaseEnd.Sub(a.at.Early())}
	}
	c.report.Waited = true
	return c.r.backOff(ctx, waits)
}
