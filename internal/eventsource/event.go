package eventsource

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/google/uuid"
)

// invoke hands records to the function, under a request id of its own. It
// returns how many of them, from the first on, are delivered; with fewer than
// all there is an error.
func (s *shard) invoke(ctx context.Context, records []types.Record) (delivered int, err error) {
	event, err := json.Marshal(s.event(records))
	if err != nil {
		return 0, err
	}
	lc := &lambdacontext.LambdaContext{AwsRequestID: uuid.NewString()}
	answer, err := s.Function(lambdacontext.NewContext(ctx, lc), event)
	if err != nil {
		return 0, err
	}
	return read(answer, records)
}

// read finds the lowest failed record of an answer.
func read(answer events.KinesisEventResponse, records []types.Record) (delivered int, err error) {
	delivered = len(records)
	for _, failure := range answer.BatchItemFailures {
		i := slices.IndexFunc(records, func(r types.Record) bool { return *r.SequenceNumber == failure.ItemIdentifier })
		if i < 0 {
			return 0, ErrBadAnswer
		}
		delivered, err = min(delivered, i), ErrFailedRecords
	}
	return delivered, err
}

// event makes the event that Lambda would.
func (s *shard) event(records []types.Record) events.KinesisEvent {
	event := events.KinesisEvent{Records: make([]events.KinesisEventRecord, len(records))}
	for i, r := range records {
		event.Records[i] = events.KinesisEventRecord{
			AwsRegion:      s.stream.Region,
			EventID:        s.id + ":" + *r.SequenceNumber,
			EventName:      "aws:kinesis:record",
			EventSource:    "aws:kinesis",
			EventSourceArn: s.StreamARN,
			EventVersion:   "1.0",
			// The role of the function, which there is none of.
			InvokeIdentityArn: "arn:aws:iam::" + s.stream.Account + ":role/eventsource",
			Kinesis: events.KinesisRecord{
				KinesisSchemaVersion:        "1.0",
				PartitionKey:                aws.ToString(r.PartitionKey),
				SequenceNumber:              *r.SequenceNumber,
				Data:                        append([]byte{}, r.Data...), // nil would be null
				ApproximateArrivalTimestamp: events.SecondsEpochTime{Time: aws.ToTime(r.ApproximateArrivalTimestamp)},
			},
		}
	}
	return event
}
