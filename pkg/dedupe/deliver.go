package dedupe

import (
	"cmp"
	"context"
	"fmt"
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
// returns the error of the first record that is not done.
func (r *batchRun) deliver(ctx context.Context, c *chunk) (err error) {
	if c.err != nil {
		return c.err
	}
	for begin := 0; begin < len(c.users) && (err == nil || r.batch.Order == None); {
		end := r.endOfPiece(c.users, begin)
		err = cmp.Or(err, r.deliverPiece(ctx, c.users[begin:end]))
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

// deliverPiece delivers user records as the level of the sink requires.
func (r *batchRun) deliverPiece(ctx context.Context, users []userRecord) (err error) {
	work, cancel := r.workTime(ctx)
	defer cancel()
	begun := r.clock.Now()
	switch {
	case r.parts.Tx != nil:
		err = r.transact(work, users)
	case r.parts.Objects != nil:
		err = r.commit(work, users)
	default:
		err = r.sendReady(work, users)
	}
	r.result.SinkTime += r.clock.Now().Sub(begun)
	r.acknowledge(ctx, users)
	return err
}

// sendReady dead-letters the poison among user records, and sends the others, up to the first one that is not ready.
func (r *batchRun) sendReady(ctx context.Context, users []userRecord) error {
	ready, err := r.prepare(ctx, users)
	if stored, putErr := r.putDeadLetters(ctx, users[:ready]); putErr != nil {
		err = putErr
		if r.batch.Order != None {
			ready = stored
		}
	}
	if sendErr := r.send(ctx, users[:ready]); sendErr != nil {
		err = sendErr
	}
	return err
}

// prepare prepares the user records up to the first one that has no decision, and returns how many it prepared. If the
// batch has no order, it prepares all that have a decision.
func (r *batchRun) prepare(ctx context.Context, users []userRecord) (ready int, err error) {
	for i := range users {
		u := &users[i]
		r.prepareOne(ctx, u)
		if u.err == nil {
			continue
		}
		if r.batch.Order != None {
			return i, u.err
		}
		err = cmp.Or(err, u.err)
	}
	return len(users), err
}

func (r *batchRun) prepareOne(ctx context.Context, u *userRecord) {
	switch {
	case u.acked:
		u.done = true
	case u.err != nil, u.poison != nil:
	case u.decision.Outcome == Undecided:
		u.err = cmp.Or(u.decision.Err, errIncomplete)
	default:
		out, deliver, err := r.delivery.Prepare(ctx, u.output, u.fields, u.decision)
		if err != nil {
			u.setErr(err)
			return
		}
		u.output, u.deliver, u.done = out, deliver, !deliver
	}
}

// putDeadLetters stores the poison among the user records, one chunk at a time, because a KPL aggregate may have
// hundreds of thousands of poison records. After an error it returns the index of the first user record that is not
// stored.
func (r *batchRun) putDeadLetters(ctx context.Context, users []userRecord) (stored int, err error) {
	var poison []*userRecord
	for i := range users {
		if users[i].poison != nil {
			poison = append(poison, &users[i])
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
	return DeadLetter{
		Owner: position.Owner().String(), Scope: r.settings.Scope, Position: position, Reason: u.poison.Reason,
		PartitionKey: u.output.PartitionKey, ExplicitHashKey: u.output.ExplicitHashKey,
		Arrival: u.source.Arrival, Data: u.output.Data,
		Unaggregated: u.sub != Plain && !u.output.Aggregated,
	}
}

// send sends the user records that are to be delivered.
func (r *batchRun) send(ctx context.Context, users []userRecord) error {
	ready := make([]*userRecord, 0, len(users))
	for i := range users {
		if u := &users[i]; u.deliver {
			ready = append(ready, u)
		}
	}
	outputs, ends, err := r.pack(ctx, ready)
	if err != nil || len(outputs) == 0 {
		return err
	}
	answer, err := r.parts.Sink.Send(ctx, outputs)
	delivered, err := answer.check(len(outputs), err)
	for i, output := 0, 0; i < len(ready); i++ {
		for i == ends[output] {
			output++
		}
		if ready[i].done = delivered[output]; ready[i].done {
			r.result.Tally.Out++
		}
	}
	r.result.Tally.Repeated += int64(answer.Repeated)
	return err
}

// check returns which of the outputs are delivered. An output that the sink does not report as delivered is not, even
// if the sink returns no error.
func (s Sent) check(asked int, err error) (delivered []bool, _ error) {
	switch {
	case s.Delivered == nil:
		delivered = make([]bool, asked)
		for i := range delivered {
			delivered[i] = err == nil
		}
		return delivered, err
	case len(s.Delivered) != asked:
		return make([]bool, asked), fmt.Errorf("%w: %d results for %d outputs: %w", errMisfit, len(s.Delivered), asked, err)
	case !slices.Contains(s.Delivered, false):
		return s.Delivered, nil
	}
	return s.Delivered, cmp.Or(err, errIncomplete)
}
