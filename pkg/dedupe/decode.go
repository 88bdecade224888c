package dedupe

import (
	"context"
	"errors"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// userRecord is one record of a producer: a Kinesis record, or one part of a Kinesis record that is a KPL aggregate.
type userRecord struct {
	record   int // index of the Kinesis record in the batch
	sub      int // index in the aggregate, or Plain
	source   *Record
	output   Output // as the record was read, and after Delivery.Prepare as it is sent
	fields   format.Fields
	decision Decision
	deliver  bool         // output is to be sent
	poison   *PoisonError // nil unless the record can never be processed
	err      error        // why the record could not be read; it comes again
	acked    bool         // an ack says that it was done before
	done     bool         // delivered, dropped, dead-lettered, or acked
}

// open reports whether the record is to be decided.
func (u *userRecord) open() bool { return u.poison == nil && u.err == nil && !u.acked }

// chunk is a part of a batch: user records that are decided together.
type chunk struct {
	users []userRecord
	next  int   // index of the first Kinesis record after it
	err   error // ends the batch before this chunk
	ends  bool  // the batch ends with this chunk: a record has no decision
}

// emptyChunk returns a chunk without records, in the memory of one that is done.
func (r *batchRun) emptyChunk() *chunk {
	users := r.spare
	r.spare = nil
	clear(users)
	return &chunk{users: users[:0]}
}

// decode opens Kinesis records from first on, until their user records fill a chunk: a chunk ends only between Kinesis
// records, and at a record that cannot be read now. Records that are done as a whole are not opened.
func (r *batchRun) decode(ctx context.Context, first, size int) *chunk {
	c := r.emptyChunk()
	c.next = first
	for c.next < len(r.batch.Records) && len(c.users) < size && (len(c.users) == 0 || c.users[len(c.users)-1].err == nil) {
		r.openRecord(ctx, c, c.next)
		c.next++
	}
	c.err = r.suspicion.look(c.users, r.ownerOf)
	return c
}

// openRecord makes the user records of one Kinesis record.
func (r *batchRun) openRecord(ctx context.Context, c *chunk, record int) {
	source := &r.batch.Records[record]
	whole := userRecord{record: record, sub: Plain, source: source}
	whole.output.PartitionKey, whole.output.Data = source.PartitionKey, source.Data
	if whole.acked = r.acked.has(r.ownerOf(&whole)); whole.acked {
		c.users = append(c.users, whole)
		return
	}
	parts, aggregated, err := r.disaggregate(source.Data)
	if err != nil {
		whole.setErr(err)
	} else if !aggregated {
		r.read(ctx, &whole)
	}
	if err != nil || !aggregated {
		c.users = append(c.users, whole)
		return
	}
	c.users = slices.Grow(c.users, len(parts)) // an aggregate may have hundreds of thousands
	for i, part := range parts {
		u := userRecord{record: record, sub: i, source: source}
		u.output = Output{
			PartitionKey: string(part.PartitionKey), ExplicitHashKey: string(part.ExplicitHashKey),
			Aggregated: true, Data: part.Data,
		}
		if u.acked = r.acked.has(r.ownerOf(&u)); !u.acked {
			r.read(ctx, &u)
		}
		if c.users = append(c.users, u); u.err != nil {
			return
		}
	}
}

// disaggregate opens a KPL aggregate. A broken aggregate is poison as a whole.
func (r *batchRun) disaggregate(data []byte) (parts []kpl.UserRecord, aggregated bool, err error) {
	if r.settings.Unaggregated {
		return nil, false, nil
	}
	defer poisonOnPanic(&err)
	if parts, aggregated, err = r.kpl.Decode(data); err != nil {
		err = &PoisonError{reasonAggregate}
	}
	return parts, aggregated, err
}

func (r *batchRun) read(ctx context.Context, u *userRecord) {
	fields, err := r.delivery.Read(ctx, u.output)
	if err != nil {
		u.setErr(err)
		return
	}
	u.fields = fields
}

// setErr makes the record poison, or notes why it comes again.
func (u *userRecord) setErr(err error) {
	if poison, ok := errors.AsType[*PoisonError](err); ok {
		u.poison = poison
		return
	}
	u.err = err
}

func (r *batchRun) ownerOf(u *userRecord) Owner { return Owner{r.source, u.source.Sequence, u.sub} }
