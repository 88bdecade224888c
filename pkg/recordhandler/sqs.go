package recordhandler

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// The attributes of a message (SQS API reference, ReceiveMessage).
const (
	attributeSent   = "SentTimestamp"
	attributeGroup  = "MessageGroupId"
	attributeOrigin = "DeadLetterQueueSourceArn" // the first queue of a message in a dead-letter queue
)

// decodeMessages makes batches from an event of SQS: one for each queue that the messages were in first. The owner of
// a message is that queue and the message's id. Both stay the same in a dead-letter queue.
func decodeMessages(raw json.RawMessage) ([]source, error) {
	var event events.SQSEvent
	if err := json.Unmarshal(raw, &event); err != nil {
		return nil, notKinesis("a message has the wrong form")
	}
	var sources []source
	for i, m := range event.Records {
		record, stream, why := messageOf(m)
		switch {
		case why != "":
			return nil, bad(i, why)
		case m.EventSourceARN != event.Records[0].EventSourceARN:
			return nil, ErrManyShards
		}
		at := slices.IndexFunc(sources, func(s source) bool { return s.batch.Stream == stream })
		if at < 0 {
			at = len(sources)
			sources = append(sources, source{
				batch: dedupe.Batch{Stream: stream, Order: orderOf(m.EventSourceARN), Queue: true}, shared: true,
			})
		}
		sources[at].batch.Records = append(sources[at].batch.Records, record)
	}
	return sources, nil
}

// orderOf returns the order of the messages of a queue. No message of a FIFO queue may overtake another one.
func orderOf(queueARN string) dedupe.Order {
	if strings.HasSuffix(queueARN, ".fifo") {
		return dedupe.AsGiven
	}
	return dedupe.None
}

// messageOf makes a record from a message, or says what is wrong with it.
func messageOf(m events.SQSMessage) (record dedupe.Record, first dedupe.Stream, why string) {
	milliseconds, err := strconv.ParseFloat(m.Attributes[attributeSent], 64)
	sent, ok := timeOf(milliseconds)
	origin := m.Attributes[attributeOrigin]
	if origin == "" {
		origin = m.EventSourceARN
	}
	queue, isQueue := arn.Of("sqs", origin)
	first = dedupe.Stream{Account: queue.Account, Region: queue.Region, Name: "sqs:" + queue.Resource}
	switch {
	case m.EventSource != "aws:sqs":
		why = "eventSource is not aws:sqs"
	case !isQueue:
		why = "eventSourceARN or " + attributeOrigin + " is not the ARN of an SQS queue"
	case m.MessageId == "":
		why = "no messageId"
	case err != nil || !ok:
		why = attributeSent + " is not a time"
	}
	return dedupe.Record{
		Sequence: m.MessageId, PartitionKey: m.Attributes[attributeGroup], Arrival: sent, Data: []byte(m.Body),
	}, first, why
}
