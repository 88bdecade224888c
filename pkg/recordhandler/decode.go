package recordhandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

var (
	// ErrNotKinesis means that an event is damaged, or does not come from a Kinesis event source mapping or another
	// source that the handler reads. Check what invokes the function.
	ErrNotKinesis = errors.New("recordhandler: the event is not one of an event source mapping for Kinesis, SQS or " +
		"DynamoDB, nor of CloudWatch Logs; check what invokes this function")

	// ErrManyShards means that an event has records of several shards, streams or queues. Lambda never sends such an
	// event. Sequence numbers of different shards cannot be compared, so no answer could say which records are done.
	ErrManyShards = errors.New("recordhandler: the event has records of more than one shard, stream or queue")

	// ErrConsumer means that the stream is read with enhanced fan-out. Lambda then opens KPL aggregates itself: their
	// records share a sequence number, and Lambda drops records whose key does not fit the shard.
	ErrConsumer = errors.New("recordhandler: the stream is read by a consumer with enhanced fan-out, " +
		"where Lambda opens KPL aggregates and drops some of their records; read the stream itself, " +
		"or set ONCEBOX_SOURCE_AGGREGATION to off if no producer aggregates")
)

// decode makes a batch from a Lambda event of Kinesis. No other function knows the format of such events.
//
// An event is decoded completely or not at all. If a record is damaged in a way that Lambda cannot cause (its data is
// not base64, its position is missing), the records beside it cannot be trusted either. A record without data has
// zero bytes; the format decides about it.
//
// The batch shares no memory with the event, because the Lambda runtime uses that memory again.
//
// Errors: ErrNotKinesis, ErrManyShards, and ErrConsumer unless consumers are allowed. They say what is wrong and
// where. They repeat only the ARN of the event.
func decode(raw json.RawMessage, allowConsumers bool) (dedupe.Batch, error) {
	d := decoder{allowConsumers: allowConsumers}
	found, err := readEvent(raw, d.add)
	if err == nil && !found {
		err = notKinesis("no Records")
	}
	if err != nil {
		return dedupe.Batch{}, err
	}
	return d.batch, nil
}

// decoder collects the records of an event.
type decoder struct {
	batch          dedupe.Batch
	arn, shard     []byte // of the first record
	allowConsumers bool   // with enhanced fan-out
}

func (d *decoder) add(r eventRecord) (err error) {
	shard, sequence, _ := bytes.Cut(r.id, []byte(":"))
	if len(d.batch.Records) == 0 {
		d.arn, d.shard, d.batch.Shard = r.arn, shard, string(shard)
		if d.batch.Stream, err = dedupe.ParseStreamARN(string(r.arn)); err != nil {
			return notKinesis("eventSourceARN: " + err.Error())
		}
		if !d.allowConsumers && bytes.Contains(r.arn, []byte("/consumer/")) {
			return ErrConsumer
		}
	}
	arrival, _ := timeOf(r.arrival)
	record := dedupe.Record{
		Sequence: string(r.sequence), PartitionKey: string(r.partitionKey), Arrival: arrival, Data: r.data,
	}
	if err := d.check(r, record, shard, sequence); err != nil {
		return fmt.Errorf("%w (record %d)", err, len(d.batch.Records))
	}
	d.batch.Records = append(d.batch.Records, record)
	return nil
}

func notKinesis(why string) error { return fmt.Errorf("%w: %s", ErrNotKinesis, why) }

// check validates the position of a record. It does not check the order of the sequence numbers: a dedupe.Processor
// does.
func (d *decoder) check(r eventRecord, record dedupe.Record, shard, sequence []byte) error {
	switch {
	case string(r.source) != "aws:kinesis":
		return notKinesis("eventSource is not aws:kinesis")
	case !dedupe.IsSequence(record.Sequence):
		return notKinesis("sequenceNumber is not a number")
	case len(shard) == 0 || !bytes.Equal(sequence, r.sequence):
		return notKinesis("eventID is not SHARD:SEQUENCE")
	case record.Arrival.IsZero():
		return notKinesis("approximateArrivalTimestamp is not a time")
	case !bytes.Equal(r.arn, d.arn), !bytes.Equal(shard, d.shard):
		return ErrManyShards
	}
	return nil
}
