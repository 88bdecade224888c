package eventsource

import (
	"hash/fnv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// lane is one of the concurrent batches of a shard.
type lane struct {
	queue    []*item // records that wait for a batch
	work     []batch // the batch or, after a split, its parts in order
	busy     bool    // the function runs with the first of them
	failures int     // consecutive invocations that delivered nothing
	retryAt  time.Time
}

// enqueue puts a record into its lane. Records with the same partition key share a lane, which
// keeps their order: "Lambda still ensures in-order processing at the partition-key level"
// (Using). A KPL aggregate is one record with a key of its own. For the order of its user records
// "all [...] must have the same partition key" (Using). AWS does not document how Lambda divides
// the keys.
func (p *poller) enqueue(s *shard, r types.Record) error {
	text, err := p.eventRecord(s.id, r)
	if err != nil {
		return err
	}
	it := &item{Record: r, text: text, read: p.now()}
	s.order = append(s.order, it)
	l := &s.lanes[laneOf(aws.ToString(r.PartitionKey), len(s.lanes))]
	l.queue = append(l.queue, it)
	return nil
}

func laneOf(key string, lanes int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return int(h.Sum32() % uint32(lanes))
}

// advance moves the checkpoint of the shard to its first unfinished record. Assumed: a shard has
// one checkpoint for all lanes, so that a restarted mapping delivers again what faster lanes had
// finished.
func (p *poller) advance(s *shard) {
	for len(s.order) > 0 && s.order[0].done {
		p.Checkpoint.move(s.id, *s.order[0].SequenceNumber)
		s.order = s.order[1:]
	}
}
