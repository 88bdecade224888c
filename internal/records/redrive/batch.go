package redrive

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// batchOf returns the records of a batch that Lambda gave up. They must be all records that its invocation record
// counts, from the first to the last. Otherwise a batch with missing records would count as done. If the payload
// lacks records, batchOf reads them from the stream.
func (j *Job) batchOf(ctx context.Context, b *deadletter.GivenUp) (dedupe.Batch, error) {
	if b.Async {
		return Invocation(b, j.Retention, j.Now())
	}
	batch := dedupe.Batch{Stream: b.Stream, Shard: b.Shard}
	if b.Event == nil {
		var err error
		batch.Records, err = j.fromStream(ctx, b)
		return batch, err
	}
	payload, err := j.Decode(b.Event)
	if err != nil {
		return batch, refuse("its payload: %v", err)
	}
	if payload.Stream != b.Stream || payload.Shard != b.Shard {
		return batch, refuse("its payload is of another shard")
	}
	short := checkRecords(b, payload.Records, "its payload has")
	if short == nil {
		return payload, nil
	}
	if batch.Records, err = j.fromStream(ctx, b); errors.Is(err, ErrLost) {
		return batch, short
	}
	return batch, err
}

func (j *Job) fromStream(ctx context.Context, b *deadletter.GivenUp) ([]dedupe.Record, error) {
	records, err := j.Records(ctx, b)
	if err != nil {
		return nil, err
	}
	return records, checkRecords(b, records, "the stream still has")
}

func checkRecords(b *deadletter.GivenUp, records []dedupe.Record, has string) error {
	if len(records) != b.Size {
		return refuse("%s %d of its %d records", has, len(records), b.Size)
	}
	if dedupe.CompareSequence(records[0].Sequence, b.First) != 0 ||
		dedupe.CompareSequence(records[len(records)-1].Sequence, b.Last) != 0 {
		return refuse("%s other records than those that it names", has)
	}
	return nil
}
