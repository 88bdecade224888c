package dedupe

import (
	"cmp"
	"context"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
)

// Delivery reads records, and turns decisions into records that can be sent. A Processor uses it. A program with its
// own pipeline uses it together with a Decider.
//
// Both methods return two kinds of errors. A *PoisonError is for a record that can never be processed, for any
// reason, including a panic of the format. All other errors may pass: those of the family ErrTryAgain, of the context
// and of the network. After such an error, try the record again.
type Delivery struct {
	Format      Format
	PassNatural bool // natural duplicates pass unchanged
	// Check returns an error for an output that the sink can never take, like Sink.Check. It may be nil.
	Check func(context.Context, Output) error
}

// Read reads the id and the fingerprint of a record before it is decided. It also checks whether the sink can take the
// record: if a record is too large, its key stays free, so that the producer can send a smaller one.
func (d *Delivery) Read(ctx context.Context, o Output) (fields format.Fields, err error) {
	defer poisonOnPanic(&err)
	if fields, err = d.readFields(ctx, o); err != nil {
		return format.Fields{}, aboutRecord(err)
	}
	if fields.ID == "" || fields.Fingerprint == "" {
		return format.Fields{}, &PoisonError{reasonNoFields} // otherwise all such records would be copies of each other
	}
	o.ID = fields.ID
	return fields, d.check(ctx, o)
}

func (d *Delivery) readFields(ctx context.Context, o Output) (format.Fields, error) {
	if keyed, ok := d.Format.(KeyedFormat); ok {
		return keyed.ReadKeyed(ctx, o.PartitionKey, o.Data)
	}
	return d.Format.Read(ctx, o.Data)
}

// rename gives an output its new id.
func (d *Delivery) rename(ctx context.Context, o Output, id string) (Output, error) {
	var err error
	if keyed, ok := d.Format.(KeyedFormat); ok {
		o.PartitionKey, o.Data, err = keyed.RenameKeyed(ctx, o.PartitionKey, o.Data, o.ID, id)
	} else {
		o.Data, err = d.Format.Rename(ctx, o.Data, o.ID, id)
	}
	o.ID = id
	return o, err
}

func (d *Delivery) check(ctx context.Context, o Output) error {
	if d.Check == nil {
		return nil
	}
	if err := d.Check(ctx, o); err != nil {
		return aboutRecord(err)
	}
	return nil
}

// Prepare executes the decision about a record, except for sending it. o has the record as it was read. The decision
// must not be Undecided.
//
// If deliver is true, send the returned output under the id of the decision. If deliver is false and there is no error,
// the record is a duplicate and is dropped.
func (d *Delivery) Prepare(ctx context.Context, o Output, fields format.Fields, decision Decision) (
	out Output, deliver bool, err error,
) {
	defer poisonOnPanic(&err)
	o.ID = fields.ID
	switch {
	case decision.Outcome == NoID:
		return o, false, &PoisonError{reasonNoID}
	case decision.Outcome == TooOld:
		return o, false, &PoisonError{reasonTooOld}
	case decision.Outcome == Natural:
		return o, d.PassNatural, nil
	case decision.ID == fields.ID:
		return o, true, nil
	}
	if out, err = d.rename(ctx, o, decision.ID); err != nil {
		return o, false, aboutRecord(err)
	}
	if err := d.check(ctx, out); err != nil {
		return o, false, err
	}
	return out, true, nil
}

// deliver executes the decisions about a chunk, one piece at a time: it dead-letters the poison records, sends the
// others in order, and stores which records are done. It stops after the first piece with a record that fails, and
// returns why the first record that is not done has failed.
func (r *batchRun) deliver(ctx context.Context, c *chunk) (err error) {
	if c.err != nil {
		return c.err
	}
	for begin := 0; begin < len(c.users) && !r.endsAt(err); {
		end := r.endOfPiece(c.users, begin)
		err = graver(err, r.deliverPiece(ctx, c.users[begin:end]))
		begin = end
	}
	return err
}

// endOfPiece returns the end of a piece: user records that are sent and acknowledged together. A piece ends between
// Kinesis records.
func (r *batchRun) endOfPiece(users []userRecord, begin int) int {
	end := min(begin+r.settings.Chunk, len(users))
	for end < len(users) && users[end].record == users[end-1].record {
		end++
	}
	return end
}

// deliverPiece delivers user records, and stores which of them are done: in the entries of messages of a queue, and in
// acks.
func (r *batchRun) deliverPiece(ctx context.Context, users []userRecord) error {
	work, cancel := r.workTime(ctx)
	defer cancel()
	begun := r.clock.Now()
	err := r.level.deliver(work, r, users)
	r.result.SinkTime += r.clock.Now().Sub(begun)
	err = graver(err, r.finish(ctx, users))
	r.acknowledge(ctx, users)
	return err
}

// makeReady prepares user records and dead-letters the poison among them, up to the first record that is not ready. It
// returns how many are ready, and an error if others are not.
func (r *batchRun) makeReady(ctx context.Context, users []userRecord) (ready int, err error) {
	ready, err = r.prepare(ctx, users)
	stored, putErr := r.putDeadLetters(ctx, users[:ready])
	switch {
	case putErr == nil:
		return ready, err
	case r.ordered():
		return stored, putErr
	}
	return ready, putErr
}

// prepare prepares the user records up to the first one that has no decision, and returns how many it prepared. If the
// batch has no order, it prepares all that have a decision.
func (r *batchRun) prepare(ctx context.Context, users []userRecord) (ready int, err error) {
	for i := range users {
		u := &users[i]
		r.prepareOne(ctx, u)
		if r.endsAt(u.err) {
			return i, u.err
		}
		err = graver(err, u.err)
	}
	return len(users), err
}

func (r *batchRun) prepareOne(ctx context.Context, u *userRecord) {
	switch {
	case u.acked:
		u.done = true
	case u.err != nil, u.poison != nil:
	default:
		out, deliver, err := r.delivery.Prepare(ctx, u.output, u.fields, u.decision)
		if err != nil {
			u.setErr(err)
			return
		}
		if out.ID != u.fields.ID {
			read := u.output
			u.read = &read
		}
		u.output, u.deliver = out, deliver
		u.waits = u.decision.state.value().waitsFor != Digest{}
		u.done = !deliver && !u.waits
	}
}

// putDeadLetters stores the poison among the user records, one chunk at a time, because a KPL aggregate may have
// hundreds of thousands of poison records. After an error it returns the index of the first user record that is not
// stored.
func (r *batchRun) putDeadLetters(ctx context.Context, users []userRecord) (stored int, err error) {
	var poison []*userRecord
	for i := range users {
		if u := &users[i]; u.poison != nil && !u.done {
			poison = append(poison, u)
		}
	}
	if r.letter != nil && len(poison) > 0 && poison[0].sub == r.letter.Position.Sub {
		return 0, poison[0].poison // the store has this letter already
	}
	letters := make([]DeadLetter, 0, min(len(poison), r.settings.Chunk))
	for part := range slices.Chunk(poison, r.settings.Chunk) {
		letters = letters[:0]
		for _, u := range part {
			letters = append(letters, r.deadLetter(u))
		}
		n, err := r.parts.DeadLetters.Put(ctx, letters)
		if n = min(max(n, 0), len(letters)); err == nil && n < len(letters) {
			err = errIncomplete
		}
		for _, u := range part[:n] {
			u.done = true
		}
		if err != nil {
			return slices.IndexFunc(users, func(u userRecord) bool { return u.poison != nil && !u.done }), err
		}
	}
	return len(users), nil
}

func (r *batchRun) deadLetter(u *userRecord) DeadLetter {
	position := Position{Stream: r.batch.Stream, Shard: r.batch.Shard, Sequence: u.source.Sequence, Sub: u.sub}
	read := cmp.Or(u.read, &u.output)
	return DeadLetter{
		Owner: position.Owner().String(), Scope: r.settings.Scope, Position: position, Reason: u.poison.Reason,
		PartitionKey: read.PartitionKey, ExplicitHashKey: read.ExplicitHashKey,
		Arrival: u.source.Arrival, Data: read.Data,
		Unaggregated: u.sub != Plain && !read.Aggregated,
	}
}
