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

// nextBatch returns the number of waiting records that make the next batch. It does not wait for more: "By default,
// Lambda invokes your function as soon as records are available" (Using). A record that is too large for any event
// makes a batch of its own.
func nextBatch(queue []*item, batchSize int) (n int) {
	size := len(eventBegin) + len(eventEnd)
	for n < len(queue) && n < batchSize {
		size += len(queue[n].text) + len(",")
		if size-len(",") > payloadLimit {
			return max(n, 1)
		}
		n++
	}
	return n
}
