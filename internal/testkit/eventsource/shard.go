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

// shard is a shard and the progress of reading it.
type shard struct {
	id       string
	parents  []string
	iterator *string
	last     *string   // sequence number of the last record that was read
	readAt   time.Time // the earliest time of the next read
	ended    bool      // closed and read to its end
	drained  bool      // the last read found no record, and there are no more

	lanes []lane
	order []*item // the records read, from the checkpoint on
}

// maxHeld is the number of unfinished records of a shard at which the mapping stops reading it,
// because of a failing lane (assumed). maxRead is the maximum number of records that GetRecords
// returns (Read).
const (
	maxHeld = 20_000
	maxRead = 10_000
)

// wants returns how many more records the lanes of the shard can use: those without a batch and without records.
func (p *poller) wants(s *shard) int {
	if s.ended || len(s.order) >= maxHeld {
		return 0
	}
	n := 0
	for i := range s.lanes {
		if l := &s.lanes[i]; len(l.work) == 0 && len(l.queue) == 0 {
			n += p.BatchSize
		}
	}
	return min(n, maxRead)
}

// read reads at most limit records of the shard into its lanes.
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
		s.iterator = out.ShardIterator
	}
	out, err := p.Client.GetRecords(ctx, &kinesis.GetRecordsInput{ShardIterator: s.iterator, Limit: aws.Int32(int32(limit))})
	if _, expired := errors.AsType[*types.ExpiredIteratorException](err); expired {
		s.iterator = nil // an iterator expires after five minutes, and retries can take longer
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
	if len(out.Records) == 0 { // a read before the end of the shard may return no records too
		s.readAt = p.now().Add(p.PollPause)
	}
	s.drained = len(out.Records) == 0 && aws.ToInt64(out.MillisBehindLatest) == 0
	return nil
}

// position returns where to continue reading: after the last record that was read, else after the
// checkpoint, else at the beginning.
func (p *poller) position(s *shard) *kinesis.GetShardIteratorInput {
	in := &kinesis.GetShardIteratorInput{
		StreamName: &p.stream.Name, ShardId: &s.id, ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	}
	last := s.last
	if done := p.Checkpoint.Of(s.id); last == nil && done != "" {
		last = &done
	}
	if last != nil {
		in.ShardIteratorType, in.StartingSequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, last
	}
	return in
}
