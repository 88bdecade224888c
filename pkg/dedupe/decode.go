package dedupe

import (
	"context"
	"errors"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// userRecord is one record of a producer. It is a Kinesis record, or one part of a Kinesis record that is a KPL
// aggregate or a frame.
type userRecord struct {
	record   int    // index of the Kinesis record in the batch
	sub      int    // index in the aggregate or the frame, or Plain
	frame    *frame // nil if it is not in a frame
	source   *Record
	output   Output  // first as it was read; after Delivery.Prepare as it is sent
	read     *Output // as it was read, if it is sent under a new id
	fields   format.Fields
	decision Decision
	poison   *PoisonError // nil unless the record can never be processed
	err      error        // why the record could not be read or decided now; it comes again
	deliver  bool         // output has to be sent
	acked    bool         // done before, by an ack or an object, or with a record before it, or there is nothing to do
	waits    bool         // a copy of a record before it in the batch: it is done with that one
	done     bool         // delivered, dropped, dead-lettered, or acked

	superseded bool // a TxSink did not write it, because it had a newer version
}

// open reports whether the record still has to be decided.
func (u *userRecord) open() bool { return u.poison == nil && u.err == nil && !u.acked }

// isRead reports whether it is known if the record can be read.
func (u *userRecord) isRead() bool { return !u.acked && u.err == nil }

// answered reports whether the sink has delivered or refused the record.
func (u *userRecord) answered() bool { return u.deliver && (u.done || u.poison != nil) }

// chunk is a part of a batch whose user records are decided together.
type chunk struct {
	users  []userRecord
	opened int   // bytes that its frames take beside their payloads
	next   int   // index of the first Kinesis record after it
	err    error // the batch fails before this chunk
	ends   bool  // this is the last chunk of the batch, because one of its records has no decision
}

// emptyChunk returns a chunk without records. It reuses the memory of an earlier chunk.
func (r *batchRun) emptyChunk() *chunk {
	users := r.spare
	r.spare = nil
	clear(users)
	return &chunk{users: users[:0]}
}

// decode opens Kinesis records from first onward until their user records fill a chunk. A chunk ends between two
// Kinesis records, or at a record that cannot be read now. It also ends when its frames have opened to 32 MiB, so that
// the memory of a chunk is bounded by this and one Kinesis record. decode does not open Kinesis
// records that are done.
func (r *batchRun) decode(ctx context.Context, first, size int) *chunk {
	c := r.emptyChunk()
	c.next = first
	for c.next < len(r.batch.Records) && len(c.users) < size && c.opened < chunkOpened &&
		(!c.failed() || !r.ordered()) {
		r.openRecord(ctx, c, c.next)
		c.next++
	}
	c.err = r.level.suspect(r, c.users)
	return c
}

// suspectSetting checks for a wrong setting.
func (r *batchRun) suspectSetting(users []userRecord) error {
	return r.suspicion.check(users, (*userRecord).isRead, r.ownerOf)
}

// openRecord makes the user records of one Kinesis record: one, or several if it is a KPL aggregate or a frame.
// Inside an aggregate each part may be a frame. All its user records are numbered in one sequence.
func (r *batchRun) openRecord(ctx context.Context, c *chunk, record int) {
	source := &r.batch.Records[record]
	whole := userRecord{record: record, sub: Plain, source: source}
	whole.output.PartitionKey, whole.output.Data = source.PartitionKey, source.Data
	if r.letter != nil {
		whole.sub, whole.output = r.letter.Position.Sub, r.letter.output()
	}
	if whole.acked = r.repeats.has(record) || r.isDone(&whole); whole.acked {
		c.users = append(c.users, whole)
		return
	}
	if whole.sub != Plain { // a single part, from a dead letter
		r.read(ctx, &whole)
		c.users = append(c.users, whole)
		return
	}
	begin := len(c.users)
	r.room = *RoomOf(r.settings.OpenedBytes)
	if err := r.openParts(ctx, c, whole); err != nil {
		clear(c.users[begin:])
		whole.setErr(err)
		c.users = append(c.users[:begin], whole)
	}
	c.opened += r.room.taken()
	r.readOpened(ctx, c, begin)
}

// readOpened reads the user records of a Kinesis record, from index begin on, unless they are done. It stops at the
// first one that cannot be read now. All of the Kinesis record is opened before: otherwise the first parts of an
// aggregate might be delivered that turns out to be poison when it comes again.
func (r *batchRun) readOpened(ctx context.Context, c *chunk, begin int) {
	for i := begin; i < len(c.users); i++ {
		u := &c.users[i]
		if !u.open() {
			continue
		}
		if u.acked = u.sub != Plain && r.isDone(u); !u.acked {
			r.read(ctx, u)
		}
		if u.err != nil {
			clear(c.users[i+1:])
			c.users = c.users[:i+1]
		}
	}
}

// openParts makes the user records of a Kinesis record. After an error the Kinesis record is poison as a whole.
func (r *batchRun) openParts(ctx context.Context, c *chunk, whole userRecord) error {
	parts, aggregated, err := r.disaggregate(whole.output.Data)
	switch {
	case err != nil:
		return err
	case !aggregated:
		return r.openFrame(ctx, c, whole, true)
	}
	if err := r.room.Take(len(parts), 0); err != nil {
		return err
	}
	c.users = slices.Grow(c.users, len(parts)) // an aggregate may have many parts
	begin := len(c.users)
	for _, p := range parts {
		part := whole
		part.sub = len(c.users) - begin
		part.output = Output{
			PartitionKey: string(p.PartitionKey), ExplicitHashKey: string(p.ExplicitHashKey), Aggregated: true, Data: p.Data,
		}
		if err := r.openFrame(ctx, c, part, false); err != nil {
			return err
		}
		if c.failed() { // by this part: a record before it may have failed, too
			return nil
		}
	}
	return nil
}

// openFrame makes the user records of a payload. alone says that the payload is a whole Kinesis record. The error says
// that the whole Kinesis record has no room for them.
func (r *batchRun) openFrame(ctx context.Context, c *chunk, u userRecord, alone bool) error {
	records, framed, err := r.unframe(ctx, u.output.Data)
	switch {
	case errors.Is(err, errTooMuch):
		return err
	case err != nil:
		u.setErr(err)
		c.users = append(c.users, u)
		return nil
	case !framed:
		c.users = append(c.users, u)
		return nil
	case len(records) == 0: // nothing to deliver
		u.acked = true
		c.users = append(c.users, u)
		return nil
	}
	if alone {
		u.sub = 0
	}
	u.frame = &frame{u.output.Data}
	c.users = slices.Grow(c.users, len(records))
	for _, data := range records {
		u.output.Data = data
		c.users = append(c.users, u)
		u.sub++
	}
	return nil
}

// failed reports whether the last user record cannot be read now.
func (c *chunk) failed() bool { return len(c.users) > 0 && c.users[len(c.users)-1].err != nil }

// isDone reports whether a record is done, by an ack or an object.
func (r *batchRun) isDone(u *userRecord) bool { return r.before.has(r.ownerOf(u)) }

// disaggregate opens a KPL aggregate. If it is broken, the whole Kinesis record is poison.
func (r *batchRun) disaggregate(data []byte) (parts []kpl.UserRecord, aggregated bool, err error) {
	if r.settings.Unaggregated {
		return nil, false, nil
	}
	defer poisonOnPanic(&err)
	parts, aggregated, err = r.kpl.Decode(data)
	switch {
	case errors.Is(err, kpl.ErrTooMany):
		err = errTooMuch
	case err != nil:
		err = &PoisonError{reasonAggregate}
	}
	return parts, aggregated, err
}

// unframe opens a frame. If it is broken, the whole payload is poison.
func (r *batchRun) unframe(ctx context.Context, data []byte) (records [][]byte, framed bool, err error) {
	if r.parts.Framing == nil {
		return nil, false, nil
	}
	defer poisonOnPanic(&err)
	if records, framed, err = r.parts.Framing.Open(ctx, data, &r.room); err != nil {
		err = aboutRecord(err)
	}
	return records, framed, err
}

func (r *batchRun) read(ctx context.Context, u *userRecord) {
	fields, err := r.delivery.Read(ctx, u.output)
	if err != nil {
		u.setErr(err)
		return
	}
	u.fields = fields
}

// setErr marks the record as poison, or records why it comes again.
func (u *userRecord) setErr(err error) {
	if u.poison = refusalOf(err); u.poison == nil {
		u.err = err
	}
}

func (r *batchRun) ownerOf(u *userRecord) Owner {
	return Owner{Source: r.source, Sequence: u.source.Sequence, Sub: u.sub}
}
