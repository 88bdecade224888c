package dedupe

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
)

// The reasons for which this package makes a record poison.
const (
	reasonAggregate = "a KPL aggregate with a good digest and a broken message"
	reasonPanic     = "handling the record panicked"
	reasonNoID      = "its id and all ids derived from it are used by other records"
)

// userRecord is one record of a producer: a Kinesis record, or a part of one
// that is a KPL aggregate.
type userRecord struct {
	record   int // place of the Kinesis record in the batch
	sub      int // place in the aggregate, or Plain
	source   *Record
	payload  []byte
	fields   format.Fields
	output   Output
	decision Decision
	deliver  bool
	poison   *PoisonError // never nil for a record that can never be processed
}

// decode opens records from first on, until they make a chunk. A chunk ends only
// between Kinesis records. All chunks of a batch have the same room, one after
// the other.
func (r *run) decode(first int) (next int) {
	clear(r.users)
	r.users = r.users[:0]
	for next = first; next < len(r.batch.Records) && len(r.users) < r.settings.Chunk; next++ {
		r.open(next)
	}
	return next
}

// open makes the user records of one Kinesis record.
func (r *run) open(record int) {
	source := &r.batch.Records[record]
	whole := userRecord{record: record, sub: Plain, source: source, payload: source.Data}
	whole.output.PartitionKey = source.PartitionKey
	parts, aggregated := whole.disaggregate(&r.kpl)
	if !aggregated {
		whole.read(r.format)
	}
	if !aggregated || whole.poison != nil {
		r.users = append(r.users, whole)
		return
	}
	r.users = slices.Grow(r.users, len(parts)) // an aggregate may have hundreds of thousands
	for i, part := range parts {
		u := userRecord{record: record, sub: i, source: source, payload: part.Data}
		u.output.PartitionKey, u.output.ExplicitHashKey = string(part.PartitionKey), string(part.ExplicitHashKey)
		u.read(r.format)
		r.users = append(r.users, u)
	}
}

func (r *run) position(u *userRecord) Position {
	return Position{Stream: r.batch.Stream, Shard: r.batch.Shard, Sequence: u.source.Sequence, Sub: u.sub}
}

// disaggregate opens a KPL aggregate. One that is broken is poison as a whole.
func (u *userRecord) disaggregate(d *kpl.Decoder) (parts []kpl.UserRecord, aggregated bool) {
	defer u.recover()
	parts, aggregated, err := d.Decode(u.payload)
	if err != nil {
		u.poison = &PoisonError{reasonAggregate}
	}
	return parts, aggregated || err != nil
}

// read reads id and fingerprint. Whatever is wrong with one record, a panic
// included, is that record's alone.
func (u *userRecord) read(f Format) {
	if u.poison != nil {
		return
	}
	defer u.recover()
	fields, err := f.Read(u.payload)
	if err != nil {
		u.poison = poisonOf(err)
		return
	}
	u.fields = fields
}

func (u *userRecord) recover() {
	if recover() != nil {
		u.poison = &PoisonError{reasonPanic}
	}
}

// poisonOf makes a reason of an error about a record. Only fixed texts go on.
func poisonOf(err error) *PoisonError {
	if bad, ok := errors.AsType[*format.BadRecord](err); ok {
		return &PoisonError{bad.Reason}
	}
	if poison, ok := errors.AsType[*PoisonError](err); ok {
		return poison
	}
	return &PoisonError{fmt.Sprintf("it cannot be handled (%T)", err)}
}

// decide asks the ledger about the records that are not poison.
func (r *run) decide(ctx context.Context) {
	candidates := make([]Candidate, 0, len(r.users))
	good := make([]*userRecord, 0, len(r.users))
	for i := range r.users {
		u := &r.users[i]
		if u.poison == nil {
			good = append(good, u)
			candidates = append(candidates, Candidate{
				ID: u.fields.ID, Owner: r.position(u).String(), Fingerprint: u.fields.Fingerprint,
				Version: u.fields.Version, Arrival: u.source.Arrival,
			})
		}
	}
	if len(good) == 0 {
		return
	}
	for i, decision := range r.decider.Decide(ctx, candidates) {
		good[i].decision = decision
	}
}

// prepare makes the output of a record that is to be delivered, or finds that
// it is poison after all.
func (u *userRecord) prepare(p *Processor) {
	if u.poison != nil {
		return
	}
	defer u.recover()
	switch u.decision.Outcome {
	case NoID:
		u.poison = &PoisonError{reasonNoID}
		return
	case Natural:
		u.deliver = p.settings.PassNatural
	default:
		u.deliver = true
	}
	if !u.deliver {
		return
	}
	u.output.ID, u.output.Data = u.fields.ID, u.payload
	if u.decision.Outcome != Natural && u.decision.ID != u.fields.ID {
		renamed, err := p.format.Rename(u.payload, u.fields.ID, u.decision.ID)
		if err != nil {
			u.poison = poisonOf(err)
			return
		}
		u.output.ID, u.output.Data = u.decision.ID, renamed
	}
	if err := p.sink.Check(u.output); err != nil {
		u.poison = poisonOf(err)
	}
}

func (r *run) failure(u *userRecord) DeadLetter {
	position := r.position(u)
	return DeadLetter{
		Owner: position.String(), Position: position, Reason: u.poison.Reason,
		PartitionKey: u.output.PartitionKey, ExplicitHashKey: u.output.ExplicitHashKey,
		Arrival: u.source.Arrival, Data: u.payload,
	}
}
