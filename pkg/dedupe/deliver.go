package dedupe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
)

// Delivery reads records, and turns decisions into records that can be sent. A Processor uses it. A program with a
// pipeline of its own uses it together with a Decider.
//
// The errors of both methods are a *PoisonError for a record that can never be processed, whatever went wrong, a panic
// of the format included; and every error that may pass by itself: of the family ErrTryAgain, of the context, and of
// the network. After such an error the record is to be tried again.
type Delivery struct {
	Format      Format
	PassNatural bool // natural duplicates pass unchanged
	// Check returns an error for an output that the sink can never take, as Sink.Check does. It may be nil.
	Check func(context.Context, Output) error
}

// Read reads what identifies a record, before it is decided. It also checks whether the sink can take the record: the
// key of a record that is too large stays free, so that the producer can send a smaller one.
func (d *Delivery) Read(ctx context.Context, o Output) (fields format.Fields, err error) {
	defer poisonOnPanic(&err)
	if fields, err = d.Format.Read(ctx, o.Data); err != nil {
		return format.Fields{}, aboutRecord(err)
	}
	if fields.ID == "" || fields.Fingerprint == "" {
		return format.Fields{}, &PoisonError{reasonNoFields} // all such records would be copies of each other
	}
	o.ID = fields.ID
	return fields, d.check(ctx, o)
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

// Prepare does what the decision about a record asks for, short of sending it. The output o holds the record as it was
// read; the decision must not be Undecided.
//
// If deliver is true, the returned output is to be sent, under the id of the decision. If deliver is false and there is
// no error, the record is a duplicate and is dropped.
func (d *Delivery) Prepare(ctx context.Context, o Output, fields format.Fields, decision Decision) (
	out Output, deliver bool, err error,
) {
	defer poisonOnPanic(&err)
	o.ID = fields.ID
	switch {
	case decision.Outcome == NoID:
		return o, false, &PoisonError{reasonNoID}
	case decision.Outcome == Natural:
		return o, d.PassNatural, nil
	case decision.ID == fields.ID:
		return o, true, nil
	}
	renamed, err := d.Format.Rename(ctx, o.Data, fields.ID, decision.ID)
	if err != nil {
		return o, false, aboutRecord(err)
	}
	out = o
	out.ID, out.Data = decision.ID, renamed
	if err := d.check(ctx, out); err != nil {
		return o, false, err
	}
	return out, true, nil
}

// deliver does what the decisions about a chunk ask for, some records at a time: it dead-letters the poison, sends the
// other records, in order, and writes down what is done. After the first piece with a record that fails, it ends. It
// returns the error of the first record that is not done.
func (r *batchRun) deliver(ctx context.Context, c *chunk) (err error) {
	if c.err != nil {
		return c.err
	}
	for begin := 0; begin < len(c.users) && err == nil; {
		end := r.endOfPiece(c.users, begin)
		err = r.deliverPiece(ctx, c.users[begin:end])
		begin = end
	}
	return err
}

// endOfPiece returns where the user records end that are sent and acknowledged together: between Kinesis records.
func (r *batchRun) endOfPiece(users []userRecord, begin int) int {
	end := min(begin+r.settings.Chunk, len(users))
	for end < len(users) && users[end].record == users[end-1].record {
		end++
	}
	return end
}

func (r *batchRun) deliverPiece(ctx context.Context, users []userRecord) error {
	work, cancel := r.workTime(ctx)
	defer cancel()
	ready, err := r.prepare(work, users)
	if stored, putErr := r.putDeadLetters(work, users[:ready]); putErr != nil {
		ready, err = stored, putErr
	}
	if sendErr := r.send(work, users[:ready]); sendErr != nil {
		err = sendErr
	}
	r.acknowledge(ctx, users)
	return err
}

// prepare prepares the user records up to the first one that has no decision. It returns how many it prepared.
func (r *batchRun) prepare(ctx context.Context, users []userRecord) (ready int, err error) {
	for i := range users {
		u := &users[i]
		switch {
		case u.err != nil:
			return i, u.err
		case u.acked:
			u.done = true
		case u.poison != nil:
		case u.decision.Outcome == Undecided:
			return i, u.decision.Err
		default:
			out, deliver, err := r.delivery.Prepare(ctx, u.output, u.fields, u.decision)
			if err != nil {
				if u.setErr(err); u.err != nil {
					return i, err
				}
				continue
			}
			u.output, u.deliver, u.done = out, deliver, !deliver
		}
	}
	return len(users), nil
}

// putDeadLetters stores the poison among the user records, one chunk at a time: a KPL aggregate may hold hundreds of
// thousands of poison records. With an error it returns the index of the first user record that is not stored.
func (r *batchRun) putDeadLetters(ctx context.Context, users []userRecord) (stored int, err error) {
	var poison []*userRecord
	for i := range users {
		if users[i].poison != nil {
			poison = append(poison, &users[i])
		}
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
		Owner: position.Owner().String(), Position: position, Reason: u.poison.Reason,
		PartitionKey: u.output.PartitionKey, ExplicitHashKey: u.output.ExplicitHashKey,
		Arrival: u.source.Arrival, Data: u.output.Data,
	}
}

// send sends what is to be delivered of the user records.
func (r *batchRun) send(ctx context.Context, users []userRecord) error {
	outputs, sent := make([]Output, 0, len(users)), make([]*userRecord, 0, len(users))
	for i := range users {
		if u := &users[i]; u.deliver {
			outputs, sent = append(outputs, u.output), append(sent, u)
		}
	}
	if len(outputs) == 0 {
		return nil
	}
	answer, err := r.parts.Sink.Send(ctx, outputs)
	delivered, err := answer.check(len(outputs), err)
	for i, u := range sent {
		if u.done = delivered[i]; u.done {
			r.result.Tally.Out++
		}
	}
	r.result.Tally.Repeated += int64(answer.Repeated)
	return err
}

// check returns which of the outputs are delivered. What a sink does not name as delivered is not, even without an
// error.
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
