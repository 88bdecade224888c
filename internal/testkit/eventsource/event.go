package eventsource

import (
	"bytes"
	"encoding/json"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// eventRecord returns the JSON of a record in an event (Using, "Example event").
func (p *poller) eventRecord(shard string, r types.Record) (json.RawMessage, error) {
	return json.Marshal(events.KinesisEventRecord{
		AwsRegion:      p.stream.Region,
		EventID:        shard + ":" + *r.SequenceNumber,
		EventName:      "aws:kinesis:record",
		EventSource:    "aws:kinesis",
		EventSourceArn: p.StreamARN,
		EventVersion:   "1.0",
		// The role of the function does not exist here.
		InvokeIdentityArn: "arn:aws:iam::" + p.stream.Account + ":role/eventsource",
		Kinesis: events.KinesisRecord{
			KinesisSchemaVersion:        "1.0",
			PartitionKey:                aws.ToString(r.PartitionKey),
			SequenceNumber:              *r.SequenceNumber,
			Data:                        append([]byte{}, r.Data...), // nil would become null
			ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: aws.ToTime(r.ApproximateArrivalTimestamp)},
		},
	})
}

// The texts before and after the records of an event.
const (
	eventBegin = `{"Records":[`
	eventEnd   = `]}`
)

// event returns the event with the records.
func event(items []*item) json.RawMessage {
	texts := make([][]byte, len(items))
	for i, it := range items {
		texts[i] = it.text
	}
	return []byte(eventBegin + string(bytes.Join(texts, []byte(","))) + eventEnd)
}
