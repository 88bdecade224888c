package dedupe

import (
	"context"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
)

// Delivery turns decisions into records that can be sent. A Processor uses it. A program with a pipeline of its own
// uses it together with a Decider.
type Delivery struct {
	Format      Format
	PassNatural bool // natural duplicates pass unchanged
	// Check returns an error for an output that the sink can never take, as Sink.Check does. It may be nil.
	Check func(Output) error
}

// Prepare does what the decision about a record asks for, short of sending it. The output o holds the record as it was
// read; the decision must not be Undecided.
//
// If deliver is true, the returned output is to be sent, under the id of the decision. If deliver is false, the record
// is a duplicate and is dropped, unless poison says that the record can never be processed. Whatever goes wrong, a
// panic of the format included, makes this one record poison.
func (d *Delivery) Prepare(o Output, fields format.Fields, decision Decision) (
	out Output, deliver bool, poison *PoisonError,
) {
	defer poisonOnPanic(&poison)
	out = o
	out.ID = fields.ID
	switch decision.Outcome {
	case NoID:
		return out, false, &PoisonError{reasonNoID}
	case Natural:
		if !d.PassNatural {
			return out, false, nil
		}
	default:
		if decision.ID == fields.ID {
			break
		}
		renamed, err := d.Format.Rename(o.Data, fields.ID, decision.ID)
		if err != nil {
			return out, false, poisonOf(err)
		}
		out.ID, out.Data = decision.ID, renamed
	}
	if d.Check != nil {
		if err := d.Check(out); err != nil {
			return out, false, poisonOf(err)
		}
	}
	return out, true, nil
}

// deliver does what the decisions about a chunk ask for: it dead-letters the poison and sends the other records, in
// order. It returns the index of the first Kinesis record that is not done, which is next if all are done. After the
// first user record that fails, none is sent.
func (r *batchRun) deliver(ctx context.Context, next int) (done int, err error) {
	ready, err := r.prepare()
	if stored, putErr := r.putDeadLetters(ctx, ready); putErr != nil {
		ready, err = stored, putErr
	}
	if sent, sendErr := r.send(ctx, ready); sendErr != nil {
		ready, err = sent, sendErr
	}
	if err != nil {
		return r.users[ready].record, err // a failed part fails its whole aggregate
	}
	return next, nil
}

// prepare prepares the user records up to the first one that has no decision. It returns how many it prepared.
func (r *batchRun) prepare() (ready int, err error) {
	for i := range r.users {
		u := &r.users[i]
		if u.poison != nil {
			continue
		}
		if u.decision.Outcome == Undecided {
			return i, u.decision.Err
		}
		u.output.Data = u.payload
		u.output, u.deliver, u.poison = r.delivery.Prepare(u.output, u.fields, u.decision)
	}
	return len(r.users), nil
}

// putDeadLetters stores the poison among the first user records, one chunk at a time: a KPL aggregate may hold hundreds
// of thousands of poison records. With an error it returns the index of the first user record that is not stored.
func (r *batchRun) putDeadLetters(ctx context.Context, ready int) (stored int, err error) {
	var poison []int
	for i := range r.users[:ready] {
		if r.users[i].poison != nil {
			poison = append(poison, i)
		}
	}
	letters := make([]DeadLetter, 0, min(len(poison), r.settings.Chunk))
	for indexes := range slices.Chunk(poison, r.settings.Chunk) {
		letters = letters[:0]
		for _, i := range indexes {
			letters = append(letters, r.deadLetter(&r.users[i]))
		}
		n, err := r.deadLetters.Put(ctx, letters)
		if n, err = checkCount(n, len(letters), err); err != nil {
			return indexes[min(n, len(indexes)-1)], err
		}
	}
	return ready, nil
}

func (r *batchRun) deadLetter(u *userRecord) DeadLetter {
	position := r.position(u)
	return DeadLetter{
		Owner: position.String(), Position: position, Reason: u.poison.Reason,
		PartitionKey: u.output.PartitionKey, ExplicitHashKey: u.output.ExplicitHashKey,
		Arrival: u.source.Arrival, Data: u.payload,
	}
}

// send sends what is to be delivered of the first user records. With an error it returns the index of the first user
// record that is not delivered.
func (r *batchRun) send(ctx context.Context, ready int) (delivered int, err error) {
	outputs, indexes := make([]Output, 0, ready), make([]int, 0, ready)
	for i := range r.users[:ready] {
		if u := &r.users[i]; u.deliver {
			outputs, indexes = append(outputs, u.output), append(indexes, i)
		}
	}
	if len(outputs) == 0 {
		return ready, nil
	}
	n, err := r.sink.Send(ctx, outputs)
	n, err = checkCount(n, len(outputs), err)
	r.result.Tally.Out += int64(n)
	if err != nil {
		return indexes[min(n, len(indexes)-1)], err
	}
	return ready, nil
}

// checkCount checks how much a sink or a dead-letter store says that it has done. What it does not name as done is not
// done, even without an error.
func checkCount(done, asked int, err error) (int, error) {
	done = min(max(done, 0), asked)
	if err == nil && done < asked {
		err = errIncomplete
	}
	return done, err
}
