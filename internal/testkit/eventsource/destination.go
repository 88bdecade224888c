package eventsource

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
)

// Condition is the reason why records were discarded.
type Condition string

// The conditions: the first is documented (Discarded), the second is not (Recorded,
// test_kinesis_maximum_record_age_exceeded).
const (
	RetryAttemptsExhausted Condition = "RetryAttemptsExhausted"
	RecordAgeExceeded      Condition = "RecordAgeExceeded"
)

// Discard holds records that a mapping discards: consecutive records of one batch.
type Discard struct {
	FunctionARN string
	StreamARN   string
	Shard       string
	Records     []types.Record
	Condition   Condition
	Invocations int // the failed invocations that did not end in a split
	RequestID   string
	Err         error // the error of the last invocation; nil if the function answered
	At          time.Time
	Event       json.RawMessage // the event with these records
	ObjectID    string          // a random id for the object's key
}

// Destination takes discarded records. If it returns an error, the records are lost and counted (Metrics,
// DestinationDeliveryFailures).
type Destination func(ctx context.Context, d Discard) error

// mappingID is the UUID of all mappings.
const mappingID = "00000000-0000-4000-8000-000000000000"

// timeFormat is the format of times in documents.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Invocation records, with the fields and the order of the examples (Discarded).
type (
	document struct {
		RequestContext  requestContext   `json:"requestContext"`
		ResponseContext *responseContext `json:"responseContext,omitempty"`
		Version         string           `json:"version"`
		Timestamp       string           `json:"timestamp"`
		Batch           batchInfo        `json:"KinesisBatchInfo"`
		Payload         string           `json:"payload,omitempty"` // "an escaped JSON string", "Only available in S3"
	}
	requestContext struct {
		RequestID   string    `json:"requestId"`
		FunctionARN string    `json:"functionArn"`
		Condition   Condition `json:"condition"`
		InvokeCount int       `json:"approximateInvokeCount"`
	}
	responseContext struct {
		StatusCode      int     `json:"statusCode"`
		ExecutedVersion string  `json:"executedVersion"`
		FunctionError   *string `json:"functionError"` // null if the function answered (Recorded, test_kinesis_report_batch_item_failures)
	}
	batchInfo struct {
		Shard         string `json:"shardId"`
		FirstSequence string `json:"startSequenceNumber"`
		LastSequence  string `json:"endSequenceNumber"`
		FirstArrival  string `json:"approximateArrivalOfFirstRecord"`
		LastArrival   string `json:"approximateArrivalOfLastRecord"`
		Size          int    `json:"batchSize"`
		StreamARN     string `json:"streamArn"`
	}
)

func (d Discard) document() document {
	first, last := d.Records[0], d.Records[len(d.Records)-1]
	doc := document{
		RequestContext: requestContext{
			RequestID: d.RequestID, FunctionARN: d.FunctionARN, Condition: d.Condition, InvokeCount: d.Invocations,
		},
		ResponseContext: &responseContext{StatusCode: 200, ExecutedVersion: "$LATEST"},
		Version:         "1.0",
		Timestamp:       d.At.UTC().Format(timeFormat),
		Batch: batchInfo{
			Shard:         d.Shard,
			FirstSequence: *first.SequenceNumber,
			LastSequence:  *last.SequenceNumber,
			FirstArrival:  first.ApproximateArrivalTimestamp.UTC().Format(timeFormat),
			LastArrival:   last.ApproximateArrivalTimestamp.UTC().Format(timeFormat),
			Size:          len(d.Records),
			StreamARN:     d.StreamARN,
		},
	}
	if d.Err != nil {
		doc.ResponseContext.FunctionError = aws.String("Unhandled")
	}
	if d.Condition == RecordAgeExceeded {
		// There is no response, and the count is 1 without any invocation (Recorded,
		// test_kinesis_maximum_record_age_exceeded: 1 without any, 8 after a minute of retries).
		doc.ResponseContext, doc.RequestContext.InvokeCount = nil, max(1, d.Invocations)
	}
	return doc
}

// Message returns the message for an SQS queue or an SNS topic: the positions of the records
// without the records.
func (d Discard) Message() []byte { return encode(d.document()) }

// Object returns the object for an S3 bucket: the message with the whole event as a text. Its key
// is aws/lambda/<ESM-UUID>/<shardID>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<Random UUID> (Discarded).
func (d Discard) Object() (key string, body []byte) {
	doc := d.document()
	doc.Payload = string(d.Event)
	at := d.At.UTC()
	return fmt.Sprintf("aws/lambda/%s/%s/%s/%s-%s",
		mappingID, d.Shard, at.Format("2006/01/02"), at.Format("2006-01-02T15.04.05"), d.ObjectID), encode(doc)
}

func encode(doc document) []byte {
	text, err := json.Marshal(doc)
	if err != nil { // impossible: the document has only texts and numbers
		panic(err)
	}
	return text
}
