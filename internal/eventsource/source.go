// Package eventsource polls a Kinesis stream and hands its records to a Lambda
// handler in this process, for tests and demos where nothing else does that.
//
// It is like Lambda's event source mapping in this: the events, one shard a
// batch and one batch of a shard at a time, in order; the answer, of which the
// lowest sequence number counts, and all from it on comes again; a bounded
// number of retries, after which the rest goes elsewhere whole.
//
// It is not like it in this: nothing is bisected. A batch is what one GetRecords
// returned, whatever its size in bytes, and no window fills it. Neither the age
// of records nor the time of an invocation is limited, and there is no
// parallelization in a shard. All shards are read side by side, children not
// after their parents, and those that a resharding makes later are not seen.
// Nothing is remembered: each Run begins at the oldest records.
package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// API is what a Source needs of a *kinesis.Client. The client's own retries are
// for failures on the way; a Source adds none but for a throttled GetRecords.
type API interface {
	ListShards(ctx context.Context, in *kinesis.ListShardsInput, options ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
	GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, options ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, options ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
}

// Function is a Lambda handler for Kinesis events that reports batch item
// failures.
type Function func(ctx context.Context, event json.RawMessage) (events.KinesisEventResponse, error)

// GivenUp is a batch, or the end of one, whose retries are used up.
type GivenUp struct {
	Shard   string
	Records []types.Record
	Err     error // of the last attempt: the function's, or ErrFailedRecords
}

// Lambda's default and limit for a batch, and the least time between two
// GetRecords of a shard that found nothing: Kinesis takes five a second.
const (
	DefaultBatchSize = 100
	MaxBatchSize     = 10_000
	DefaultPause     = 200 * time.Millisecond
)

var (
	// ErrFailedRecords says that the function's answer named records that failed.
	ErrFailedRecords = errors.New("eventsource: the function reported failed records")

	// ErrBadAnswer says that the answer named a record that is not in the
	// batch; all of it counts as failed then.
	ErrBadAnswer = errors.New("eventsource: the function reported a record that is not in the batch")
)

// Source takes the records of a stream to a function.
type Source struct {
	Client    API
	StreamARN string
	Function  Function
	// BatchSize is the most records of a batch, 1 to MaxBatchSize;
	// DefaultBatchSize if 0.
	BatchSize int
	// Retries is how often a record that is the first to fail is handed over
	// again, with all after it, before they are given up.
	Retries int
	// OnFailure takes what is given up; then the shard goes on behind it. An
	// error ends Run, as does a batch that is given up where there is none.
	OnFailure func(ctx context.Context, g GivenUp) error
	// Pause is the time before looking for new records again, after a throttle,
	// and before a retry; DefaultPause if 0.
	Pause time.Duration
	// StopWhenDrained ends Run once every shard was found without new records.
	StopWhenDrained bool
}

// Run polls all shards until ctx ends, whose error it returns, or, with
// StopWhenDrained, until there is nothing new; that is nil. A shard's failure
// ends it too. When it returns no invocation is under way.
func (s Source) Run(ctx context.Context) error {
	stream, err := s.complete()
	if err != nil {
		return err
	}
	shards, err := s.shards(ctx, stream)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, id := range shards {
		reader := &shard{Source: &s, stream: stream, id: id}
		g.Go(func() error { return reader.run(ctx) })
	}
	return g.Wait()
}

// complete checks the fields and sets what is left out.
func (s *Source) complete() (dedupe.Stream, error) {
	if s.BatchSize == 0 {
		s.BatchSize = DefaultBatchSize
	}
	if s.Pause == 0 {
		s.Pause = DefaultPause
	}
	if s.BatchSize < 1 || s.BatchSize > MaxBatchSize || s.Retries < 0 {
		return dedupe.Stream{}, fmt.Errorf("eventsource: batch size %d and retries %d: want 1 to %d, and 0 or more", s.BatchSize, s.Retries, MaxBatchSize)
	}
	return dedupe.ParseStreamARN(s.StreamARN)
}

// shards lists the shards that the stream has now.
func (s *Source) shards(ctx context.Context, stream dedupe.Stream) (ids []string, err error) {
	in := &kinesis.ListShardsInput{StreamName: &stream.Name}
	for {
		out, err := s.Client.ListShards(ctx, in)
		if err != nil {
			return nil, fmt.Errorf("eventsource: shards of %s: %w", stream, err)
		}
		for _, shard := range out.Shards {
			ids = append(ids, *shard.ShardId)
		}
		if out.NextToken == nil {
			return ids, nil
		}
		in = &kinesis.ListShardsInput{NextToken: out.NextToken} // with the name it would be refused
	}
}
