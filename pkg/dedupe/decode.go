package dedupe

import (
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// userRecord is one record of a producer: a Kinesis record, or one part of a Kinesis record that is a KPL aggregate.
type userRecord struct {
	record   int // index of the Kinesis record in the batch
	sub      int // index in the aggregate, or Plain
	source   *Record
	payload  []byte
	fields   format.Fields
	decision Decision
	output   Output
	deliver  bool         // output is to be sent
	poison   *PoisonError // nil unless the record can never be processed
}

// decode opens Kinesis records from first on, until their user records fill a chunk. It returns the index of the first
// Kinesis record that it did not open: a chunk ends only between Kinesis records. All chunks of a batch use the same
// memory.
func (r *batchRun) decode(first int) (next int) {
	clear(r.users)
	r.users = r.users[:0]
	for next = first; next < len(r.batch.Records) && len(r.users) < r.settings.Chunk; next++ {
		r.open(next)
	}
	return next
}

// open makes the user records of one Kinesis record.
func (r *batchRun) open(record int) {
	source := &r.batch.Records[record]
	whole := userRecord{record: record, sub: Plain, source: source, payload: source.Data}
	whole.output.PartitionKey = source.PartitionKey
	parts, aggregated := whole.disaggregate(&r.kpl)
	if !aggregated {
		whole.read(r.delivery.Format)
	}
	if !aggregated || whole.poison != nil {
		r.users = append(r.users, whole)
		return
	}
	r.users = slices.Grow(r.users, len(parts)) // an aggregate may have hundreds of thousands
	for i, part := range parts {
		u := userRecord{record: record, sub: i, source: source, payload: part.Data}
		u.output.PartitionKey, u.output.ExplicitHashKey = string(part.PartitionKey), string(part.ExplicitHashKey)
		u.read(r.delivery.Format)
		r.users = append(r.users, u)
	}
}

// disaggregate opens a KPL aggregate. A broken aggregate is poison as a whole.
func (u *userRecord) disaggregate(d *kpl.Decoder) (parts []kpl.UserRecord, aggregated bool) {
	defer poisonOnPanic(&u.poison)
	parts, aggregated, err := d.Decode(u.payload)
	if err != nil {
		u.poison = &PoisonError{reasonAggregate}
	}
	return parts, aggregated || err != nil
}

func (u *userRecord) read(f Format) {
	if u.poison == nil {
		u.fields, u.poison = ReadFields(f, u.payload)
	}
}

// ReadFields reads what identifies a record. Whatever goes wrong, a panic of the format included, makes this one
// record poison.
func ReadFields(f Format, payload []byte) (fields format.Fields, poison *PoisonError) {
	defer poisonOnPanic(&poison)
	fields, err := f.Read(payload)
	if err != nil {
		return format.Fields{}, poisonOf(err)
	}
	return fields, nil
}

func (r *batchRun) position(u *userRecord) Position {
	return Position{Stream: r.batch.Stream, Shard: r.batch.Shard, Sequence: u.source.Sequence, Sub: u.sub}
}
