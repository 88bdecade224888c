package dedupeapi

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

var (
	// ErrNotKinesis says that an event is not one of a Kinesis event source
	// mapping, or is damaged: look at what invokes the function.
	ErrNotKinesis = errors.New("dedupeapi: the event is not one of a Kinesis event source mapping; look at what invokes this function")

	// ErrManyShards says that an event has records of several shards or
	// streams, which Lambda never makes. Their sequence numbers cannot be
	// compared, so that no answer could tell what is done.
	ErrManyShards = errors.New("dedupeapi: the event has records of more than one shard")
)

// decode makes a batch of a Lambda event. It is the only function that knows
// what events look like, so that a faster one can take its place.
//
// An event is decoded as a whole or not at all: where a record is damaged in a
// way that Lambda cannot make (its data not base64, its position missing),
// nothing about its neighbours could be relied on. A record without data is one
// of no bytes, and those are for the format to judge.
//
// Errors: ErrNotKinesis, ErrManyShards. They say what is wrong and where, and
// repeat nothing of the event but its ARN.
func decode(raw json.RawMessage) (dedupe.Batch, error) {
	var event events.KinesisEvent
	if err := json.Unmarshal(raw, &event); err != nil {
		return dedupe.Batch{}, notKinesis(syntaxOf(err))
	}
	if event.Records == nil {
		return dedupe.Batch{}, notKinesis("it has no Records")
	}
	if len(event.Records) == 0 {
		return dedupe.Batch{}, nil
	}
	first := &event.Records[0]
	stream, err := dedupe.ParseStreamARN(first.EventSourceArn)
	if err != nil {
		return dedupe.Batch{}, notKinesis("eventSourceARN: " + err.Error())
	}
	b := dedupe.Batch{Stream: stream, Shard: shardOf(first), Records: make([]dedupe.Record, len(event.Records))}
	for i := range event.Records {
		if err := check(event.Records, i); err != nil {
			return dedupe.Batch{}, fmt.Errorf("%w (record %d)", err, i)
		}
		r := &event.Records[i].Kinesis
		b.Records[i] = dedupe.Record{Sequence: r.SequenceNumber, PartitionKey: r.PartitionKey, Arrival: arrivalOf(r), Data: r.Data}
	}
	return b, nil
}

func notKinesis(why string) error { return fmt.Errorf("%w: %s", ErrNotKinesis, why) }

// endOfTime is after every arrival: RFC 3339 cannot write the year 10000.
var endOfTime = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)

// check makes sure of all that the position of a record stands on. Records that
// do not ascend would make the checkpoint skip some, and the first failed one
// not be the lowest.
func check(records []events.KinesisEventRecord, i int) error {
	r, first := &records[i], &records[0]
	arrival := arrivalOf(&r.Kinesis)
	switch {
	case r.EventSource != "aws:kinesis":
		return notKinesis("its eventSource is not aws:kinesis")
	case !isSequence(r.Kinesis.SequenceNumber):
		return notKinesis("its sequenceNumber is not a number")
	case shardOf(r) == "" || r.EventID != shardOf(r)+":"+r.Kinesis.SequenceNumber:
		return notKinesis("its eventID is not SHARD:SEQUENCE")
	case !arrival.After(time.Unix(0, 0)) || !arrival.Before(endOfTime):
		return notKinesis("its approximateArrivalTimestamp is not one")
	case r.EventSourceArn != first.EventSourceArn, shardOf(r) != shardOf(first):
		return ErrManyShards
	case i > 0 && dedupe.CompareSequence(records[i-1].Kinesis.SequenceNumber, r.Kinesis.SequenceNumber) >= 0:
		return notKinesis("its sequenceNumber is not above that of the record before")
	}
	return nil
}

// maxSequence is the longest sequence number (API reference, "SequenceNumber").
const maxSequence = 128

func isSequence(text string) bool {
	return text != "" && len(text) <= maxSequence && strings.Trim(text, "0123456789") == ""
}

// shardOf returns the first part of shardId-...:sequence.
func shardOf(r *events.KinesisEventRecord) string {
	shard, _, _ := strings.Cut(r.EventID, ":")
	return shard
}

// arrivalOf returns the arrival in whole milliseconds, which Kinesis gives it in;
// as a floating-point number of seconds it is beside them by some nanoseconds.
func arrivalOf(r *events.KinesisRecord) time.Time {
	return r.ApproximateArrivalTimestamp.Round(time.Millisecond).UTC()
}

// syntaxOf tells of an error without the numbers and letters that encoding/json
// quotes from the event.
func syntaxOf(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("%s is of the wrong type (at byte %d)", wrong.Field, wrong.Offset)
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Sprintf("it is not JSON (at byte %d)", wrong.Offset)
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return "data of a record is not base64"
	}
	return fmt.Sprintf("it cannot be decoded (%T)", err)
}
