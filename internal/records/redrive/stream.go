package redrive

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Kinesis holds the methods of *kinesis.Client that ReadStream calls.
type Kinesis interface {
	GetShardIterator(
		ctx context.Context, in *kinesis.GetShardIteratorInput, options ...func(*kinesis.Options),
	) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(
		ctx context.Context, in *kinesis.GetRecordsInput, options ...func(*kinesis.Options),
	) (*kinesis.GetRecordsOutput, error)
}

// readPause keeps the requests for a shard below its limit of 5 a second (Kinesis Data Streams Developer Guide, "Quotas
// and limits").
const readPause = 200 * time.Millisecond

// ReadStream reads the records of a batch from its shard. It returns ErrLost if the stream or the shard no longer
// exists, or has none of the records. It returns fewer records than the batch had if the stream has only these.
func ReadStream(ctx context.Context, client Kinesis, b *deadletter.GivenUp) (records []dedupe.Record, err error) {
	inRegion := func(o *kinesis.Options) { o.Region = b.Stream.Region }
	stream, _, _ := strings.Cut(b.StreamARN, "/consumer/") // with enhanced fan-out the ARN names a consumer
	iterator, err := client.GetShardIterator(ctx, &kinesis.GetShardIteratorInput{
		StreamARN: &stream, ShardId: &b.Shard,
		ShardIteratorType: types.ShardIteratorTypeAtSequenceNumber, StartingSequenceNumber: &b.First,
	}, inRegion)
	if err != nil {
		return nil, lostIfGone(err)
	}
	for next := iterator.ShardIterator; next != nil; {
		page, err := client.GetRecords(ctx, &kinesis.GetRecordsInput{StreamARN: &stream, ShardIterator: next}, inRegion)
		if err != nil {
			return nil, lostIfGone(err)
		}
		for _, r := range page.Records {
			sequence := aws.ToString(r.SequenceNumber)
			if !dedupe.IsSequence(sequence) || r.ApproximateArrivalTimestamp == nil {
				return nil, fmt.Errorf("redrive: %s returned a record of %s without a sequence number or a time of arrival",
					b.Stream, b.Shard)
			}
			if dedupe.CompareSequence(sequence, b.Last) > 0 {
				return found(records)
			}
			records = append(records, dedupe.Record{
				Sequence: sequence, PartitionKey: aws.ToString(r.PartitionKey), // an emulator may leave it out
				Arrival: r.ApproximateArrivalTimestamp.UTC(), Data: r.Data,
			})
			if len(records) == b.Size && sequence == b.Last {
				return records, nil
			}
		}
		if next = page.NextShardIterator; page.MillisBehindLatest == nil || *page.MillisBehindLatest == 0 {
			break
		}
		if err := pause.For(ctx, readPause); err != nil {
			return nil, err
		}
	}
	return found(records)
}

func found(records []dedupe.Record) ([]dedupe.Record, error) {
	if len(records) == 0 {
		return nil, ErrLost
	}
	return records, nil
}

// lostIfGone returns ErrLost for a stream or a shard that was deleted, and for a sequence number that is no longer in
// the shard (API reference, GetShardIterator: InvalidArgumentException, ResourceNotFoundException).
func lostIfGone(err error) error {
	if _, gone := errors.AsType[*types.ResourceNotFoundException](err); gone {
		return errors.Join(ErrLost, err)
	}
	if _, gone := errors.AsType[*types.InvalidArgumentException](err); gone {
		return errors.Join(ErrLost, err)
	}
	return err
}
