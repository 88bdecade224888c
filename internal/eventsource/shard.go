package eventsource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// shard is one shard and how far it is read.
type shard struct {
	id       string
	parents  []string
	latest   bool // begin at its tip, which is read at once
	iterator *string
	last     *string   // sequence number of the last record read
	readAt   time.Time // not before
	ended    bool      // closed, and read to its end
	drained  bool      // the last look found nothing and there is nothing more

	lanes []lane
	order []*item // read, and not behind the checkpoint
}

// mostHeld is how many records of a shard the mapping holds before it stops reading
// because of a lane that fails (assumed); mostRead is what one GetRecords returns at most
// (Read).
const (
	mostHeld = 20_000
	mostRead = 10_000
)

// wants says how many more records the shard's lanes can use: those that have no
// batch, and none that is due. "By default, Lambda invokes your function as soon as
// records are available" (Using).
func (p *poller) wants(s *shard) int {
	if s.ended || len(s.order) >= mostHeld {
		return 0
	}
	n := 0
	for i := range s.lanes {
		l := &s.lanes[i]
		if len(l.work) == 0 && (len(l.queue) == 0 || due(l.queue, p.BatchSize, p.BatchWindow, false).After(p.now())) {
			n += p.BatchSize - len(l.queue)
		}
	}
	return min(n, mostRead)
}

// read takes what the shard has, up to a limit, to its lanes.
func (p *poller) read(ctx context.Context, s *shard, limit int) error {
	if err := p.tryRead(ctx, s, limit); err != nil {
		return fmt.Errorf("eventsource: %s, %s: %w", p.stream, s.id, err)
	}
	return nil
}

func (p *poller) tryRead(ctx context.Context, s *shard, limit int) error {
	if s.iterator == nil {
		out, err := p.Client.GetShardIterator(ctx, p.position(s))
		if err != nil {
			return err
		}
		s.iterator, s.latest = out.ShardIterator, false
	}
	out, err := p.Client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: s.iterator, Limit: aws.Int32(int32(limit))})
	if _, expired := errors.AsType[*types.ExpiredIteratorException](err); expired {
		s.iterator = nil // it lives for five minutes, which retries may take
		return nil
	}
	if _, throttled := errors.AsType[*types.ProvisionedThroughputExceededException](err); throttled {
		s.readAt = p.now().Add(p.PollPause)
		return nil
	}
	if err != nil {
		return err
	}
	for _, r := range out.Records {
		if err := p.enqueue(s, r); err != nil {
			return err
		}
		s.last = r.SequenceNumber
	}
	s.iterator = out.NextShardIterator
	if s.iterator == nil {
		s.ended, p.unlisted = true, true
	}
	if len(out.Records) == 0 { // also before the tip there are stretches without records
		s.readAt = p.now().Add(p.PollPause)
	}
	s.drained = len(out.Records) == 0 && aws.ToInt64(out.MillisBehindLatest) == 0
	return nil
}

// position says where to read on: behind what was read, else behind the checkpoint,
// else where the mapping starts (Options).
//
// Assumed: LATEST is the tip at the first look, also for a mapping that is restarted
// before its first checkpoint and for shards that wait for their parents, and shards
// that a resharding makes later are read from their beginning; else records would be
// skipped.
func (p *poller) position(s *shard) *kinesis.GetShardIteratorInput {
	in := &kinesis.GetShardIteratorInput{StreamName: &p.stream.Name, ShardId: &s.id}
	progress := p.Checkpoint.Of(s.id)
	switch {
	case s.last != nil:
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, s.last
	case progress.Sequence != "":
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &progress.Sequence
	case p.StartingPosition == AtTimestamp:
		in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, &p.StartingTimestamp
	case s.latest:
		in.ShardIteratorType = types.ShardIteratorTypeLatest
	case !progress.since.IsZero():
		in.ShardIteratorType, in.Timestamp = types.ShardIteratorTypeAtTimestamp, &progress.since
	default:
		in.ShardIteratorType = types.ShardIteratorTypeTrimHorizon
	}
	return in
}
