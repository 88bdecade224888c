package dedupe

import "context"

// redriven is a dead letter that comes again.
type redriven struct {
	DeadLetter
	name string // of its object
}

// output is the record as it was read.
func (d *redriven) output() Output {
	return Output{
		PartitionKey: d.PartitionKey, ExplicitHashKey: d.ExplicitHashKey, Aggregated: d.Position.Sub != Plain, Data: d.Data,
	}
}

// Redrive takes a dead letter through all steps once more, with its original owner. name is the name of its object. The
// letter must have been dead-lettered by itself, as poison: what other attempts of its batch have done says nothing
// about it, so neither acks nor objects of its shard are asked. A batch that Lambda gave up goes through Process.
//
// If the record is still poison, Result.Err is a *PoisonError. Parts of an aggregate that are poison by themselves
// become dead letters of their own. Redriving a letter again is safe: a TxSink and an ObjectSink do nothing then, and a
// Sink gets the record again, with the same id.
func (p *Processor) Redrive(ctx context.Context, d DeadLetter, name string) Result {
	position := d.Position
	r := &batchRun{
		Processor: p, letter: &redriven{d, name}, source: sourceOf(position.Stream, position.Shard),
		size: p.settings.Chunk,
		batch: Batch{
			Stream: position.Stream, Shard: position.Shard, Order: AsGiven,
			Records: []Record{{
				Sequence: position.Sequence, PartitionKey: d.PartitionKey, Arrival: d.Arrival, Data: d.Data,
			}},
		},
	}
	if err := r.begin(ctx); err != nil {
		r.fail(0, err)
		return r.failRest(0)
	}
	r.reserve = r.reserveOf(ctx)
	return r.run(ctx)
}
