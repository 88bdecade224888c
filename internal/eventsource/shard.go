package eventsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// shard reads one shard.
type shard struct {
	*Source
	stream dedupe.Stream
	id     string
	done   *string // sequence number of the last record that is delivered or given up
}

// run reads to the shard's end, or until there is nothing new if that is asked for.
func (s *shard) run(ctx context.Context) error {
	iterator, err := s.iterator(ctx)
	for err == nil && iterator != nil {
		var out *kinesis.GetRecordsOutput
		out, err = s.Client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(int32(s.BatchSize))})
		switch {
		case expired(err): // it lives for five minutes, which retries may take
			iterator, err = s.iterator(ctx)
		case throttled(err):
			err = s.pause(ctx)
		case err != nil:
		case len(out.Records) > 0:
			iterator, err = out.NextShardIterator, s.deliver(ctx, out.Records)
		case s.StopWhenDrained && aws.ToInt64(out.MillisBehindLatest) == 0:
			return nil
		default: // also before the tip there are stretches without records
			iterator, err = out.NextShardIterator, s.pause(ctx)
		}
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("eventsource: %s, %s: %w", s.stream, s.id, err)
	}
	return ctx.Err()
}

// iterator returns where to read on.
func (s *shard) iterator(ctx context.Context) (*string, error) {
	in := &kinesis.GetShardIteratorInput{StreamName: &s.stream.Name, ShardId: &s.id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if s.done != nil {
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, s.done
	}
	out, err := s.Client.GetShardIterator(ctx, in)
	if err != nil {
		return nil, err
	}
	return out.ShardIterator, nil
}

func expired(err error) bool {
	_, ok := errors.AsType[*types.ExpiredIteratorException](err)
	return ok
}

func throttled(err error) bool {
	_, ok := errors.AsType[*types.ProvisionedThroughputExceededException](err)
	return ok
}

// deliver hands a batch to the function until all of it is delivered or given
// up. What counts are the attempts of the first record that is left.
func (s *shard) deliver(ctx context.Context, records []types.Record) error {
	s.done = records[len(records)-1].SequenceNumber
	for attempt := 0; ; attempt++ {
		delivered, err := s.invoke(ctx, records)
		records = records[delivered:]
		if delivered > 0 {
			attempt = 0
		}
		switch {
		case len(records) == 0:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case attempt == s.Retries:
			return s.giveUp(ctx, GivenUp{s.id, records, err})
		}
		if err := s.pause(ctx); err != nil {
			return err
		}
	}
}

func (s *shard) giveUp(ctx context.Context, g GivenUp) error {
	if s.OnFailure == nil {
		return fmt.Errorf("%d records from %s on failed %d times: %w", len(g.Records), *g.Records[0].SequenceNumber, s.Retries+1, g.Err)
	}
	return s.OnFailure(ctx, g)
}

// pause waits for Pause, or until ctx ends.
func (s *shard) pause(ctx context.Context) error {
	t := time.NewTimer(s.Pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
