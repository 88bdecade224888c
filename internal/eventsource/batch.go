package eventsource

import (
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// payloadLimit is the size of the largest event in bytes: 6 MB for a synchronous
// invocation (Quotas).
const payloadLimit = 6 << 20

// item is a record that the mapping has read.
type item struct {
	types.Record
	text json.RawMessage // in an event
	read time.Time       // when
	done bool            // delivered, given up or lost
}

// batch is what is delivered, tried again and given up together.
type batch struct {
	items    []*item
	attempts int // failed ones that count
}

// cut says how many of the records that wait make the next batch, and whether it
// is full: no record that is still to come would be a part of it. A record that
// is too large for any event goes alone.
func cut(queue []*item, batchSize int) (n int, full bool) {
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

// due says when the next batch of a lane is to be delivered: at once if it is full
// or nothing more can come, else when its window ends, which began when its first
// record was read. "Before invoking the function, Lambda continues to read records
// from the event source until it has gathered a full batch, the batching window
// expires, or the batch reaches the payload limit of 6 MB" (Using).
func due(queue []*item, batchSize int, window time.Duration, ended bool) time.Time {
	if _, full := cut(queue, batchSize); full || ended {
		return queue[0].read
	}
	return queue[0].read.Add(window)
}
