package dedupe

import (
	"context"
	"errors"
)

// redriven is a dead letter that comes again.
type redriven struct{ DeadLetter }

// output returns the record as it was read.
func (d *redriven) output() Output {
	return Output{
		PartitionKey: d.PartitionKey, ExplicitHashKey: d.ExplicitHashKey,
		Aggregated: d.Position.Sub != Plain && !d.Unaggregated, Data: d.Data,
	}
}

// Redrive takes a dead letter through all steps again, with its original owner. name is the name of its object. The
// letter must have been dead-lettered alone, as poison. Other attempts of its batch say nothing about it, so Redrive
// does not ask the acks or objects of its shard. For a batch that Lambda gave up, use Process.
//
// If the record is still poison, Result.Err is a *PoisonError. Parts of an aggregate that are poison become separate
// dead letters. It is safe to redrive a letter again: a TxSink and an ObjectSink then do nothing, and a Sink gets the
// record again with the same id.
func (p *Processor) Redrive(ctx context.Context, d DeadLetter, name string) Result {
	return p.letterRun(d, name).process(ctx)
}

func (p *Processor) letterRun(d DeadLetter, name string) *batchRun {
	r := p.batchRun(Batch{
		Stream: d.Position.Stream, Shard: d.Position.Shard, Order: AsGiven,
		Records: []Record{{
			Sequence: d.Position.Sequence, PartitionKey: d.PartitionKey, Arrival: d.Arrival, Data: d.Data,
		}},
	})
	r.letter, r.level, r.suspicion, r.refusals = &redriven{d}, p.level.forLetter(name), nil, nil
	return r
}

// InspectLetter reads a dead letter as Redrive does, and does nothing else: it asks no ledger, and it stores and
// sends nothing. In the Tally of its Result, poison records count as DeadLettered, and all others only as In. If the
// whole letter is still poison, Result.Err is a *PoisonError.
func (p *Processor) InspectLetter(ctx context.Context, d DeadLetter) Result {
	return p.letterRun(d, "").inspect(ctx)
}

// Inspect does the same for a batch, which it reads as Process does.
func (p *Processor) Inspect(ctx context.Context, b Batch) Result { return p.batchRun(b).inspect(ctx) }

func (r *batchRun) inspect(ctx context.Context) Result {
	var err error
	if r.repeats, err = r.batch.check(); err != nil {
		r.fail(0, err)
		return r.failRest(0)
	}
	for next := 0; next < len(r.batch.Records); {
		c := r.decode(ctx, next, r.size)
		if err := errors.Join(c.err, r.inspectUsers(c.users)); err != nil {
			r.fail(next, err)
			return r.failRest(c.next)
		}
		r.spare, next = c.users, c.next
		r.result.Done = next
	}
	return r.result
}

func (r *batchRun) inspectUsers(users []userRecord) error {
	t := &r.result.Tally
	for i := range users {
		u := &users[i]
		t.In++
		switch {
		case u.err != nil:
			t.Failed++
			return u.err
		case u.poison != nil && r.letter != nil && u.sub == r.letter.Position.Sub:
			t.Failed++
			return u.poison
		case u.poison != nil:
			t.DeadLettered++
			r.countReason(u.poison)
		case !u.acked:
			r.result.Read = append(r.result.Read, u.fields)
		}
	}
	return nil
}
