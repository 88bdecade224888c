package eventsource

import (
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// payloadLimit is the maximum size of an event in bytes: 6 MB for a synchronous invocation
// (Quotas).
const payloadLimit = 6 << 20

// item is a record that the mapping has read.
type item struct {
	types.Record
	text json.RawMessage // its JSON in an event
	read time.Time       // when the mapping read it
	done bool            // delivered, discarded or lost
}

// batch holds records that are delivered, retried and discarded together.
type batch struct {
	items    []*item
	attempts int // failed attempts that use up retries
}

// nextBatch returns the number of waiting records that make the next batch, and whether the batch
// is full. A record that is too large for any event makes a batch of its own.
func nextBatch(queue []*item, batchSize int) (n int, full bool) {
	size := len(eventBegin) + len(eventEnd)
	for n < len(queue) && n < batchSize {
		size += len(queue[n].text) + len(",")
		if size-len(",") > payloadLimit {
			return max(n, 1), true
		}
		n++
	}
	return n, n == batchSize
}

// due returns when the next batch of a lane is delivered. A full batch, and the last batch of a
// shard, is delivered at once, another one at the end of its window. The window begins when the
// mapping reads the first record. "Before invoking the function, Lambda continues to read records
// from the event source until it has gathered a full batch, the batching window
// expires, or the batch reaches the payload limit of 6 MB" (Using).
func due(queue []*item, batchSize int, window time.Duration, ended bool) time.Time {
	if _, full := nextBatch(queue, batchSize); full || ended {
		return queue[0].read
	}
	return queue[0].read.Add(window)
}
