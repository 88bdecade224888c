package dedupe

import "context"

// toStream is the level of a Sink: each record is delivered at least once.
type toStream struct {
	Sink
	byLedger
	byAcks
}

func (s toStream) forLetter(string) level { return s }

// deliver dead-letters the poison among user records, and sends the others, up to the first one that is not ready.
func (s toStream) deliver(ctx context.Context, r *batchRun, users []userRecord) error {
	ready, err := r.makeReady(ctx, users)
	if sendErr := s.send(ctx, r, users[:ready]); sendErr != nil {
		err = sendErr
	}
	return err
}

// send sends the user records that are to be delivered, and dead-letters those that the sink refuses. The others are
// delivered, or come again, whatever becomes of these.
func (s toStream) send(ctx context.Context, r *batchRun, users []userRecord) error {
	ready := make([]*userRecord, 0, len(users))
	for i := range users {
		if u := &users[i]; u.deliver {
			ready = append(ready, u)
		}
	}
	outputs, ends, err := s.pack(ctx, r.parts.Framing, ready)
	if err != nil || len(outputs) == 0 {
		return err
	}
	if r.hold.over() {
		return errLeaseOver
	}
	sending, cancel := r.earlier(ctx) // a record that is refused must not come again for lack of time to store its letter
	defer cancel()
	answer, err := s.Send(sending, outputs)
	answer, err = answer.check(len(outputs), err)
	refused := false
	for i, output := 0, 0; i < len(ready); i++ {
		for i == ends[output] {
			output++
		}
		u := ready[i]
		u.done, u.poison = answer.Delivered[output], answer.Refused[output]
		refused = refused || u.poison != nil
		if u.done {
			r.result.Tally.Out++
		}
	}
	r.result.Tally.Repeated += int64(answer.Repeated)
	if refusedErr := r.answered(ctx, users, refused); refusedErr != nil {
		return refusedErr
	}
	return err
}

// answered dead-letters the user records that the sink has refused, if there are any. If it refuses nearly all of the
// first records for one reason, a setting is wrong, such as the address of an API: then they come again.
func (r *batchRun) answered(ctx context.Context, users []userRecord, refused bool) error {
	if err := r.refusals.check(users, (*userRecord).answered, r.ownerOf); err != nil || !refused {
		return err
	}
	_, err := r.putDeadLetters(ctx, users)
	return err
}
