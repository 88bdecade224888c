package eventsource

import (
	"hash/fnv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// lane is one of the batches that a shard may have under way at a time.
type lane struct {
	queue    []*item // wait for a batch
	work     []batch // the batch, or the parts that it was split into, in order
	busy     bool    // the first of them is with the function
	failures int     // invocations in a row that delivered nothing
	retryAt  time.Time
}

// enqueue puts a record that was read where it belongs. Records with one partition
// key share a lane, so that their order is kept: "Lambda still ensures in-order
// processing at the partition-key level" (Using). A KPL aggregate is one record here and
// counts by its own key; of its user records "all [...] must have the same partition key"
// for the order to hold among them (Using). How Lambda divides keys is not said there.
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

// advance moves the shard's checkpoint through the records that are done, up to the
// first that is not. Assumed: with several lanes there is one checkpoint a shard, and
// so a mapping that is restarted delivers again what faster lanes had done.
func (p *poller) advance(s *shard) {
	for len(s.order) > 0 && s.order[0].done {
		p.Checkpoint.move(s.id, *s.order[0].SequenceNumber)
		s.order = s.order[1:]
	}
}
