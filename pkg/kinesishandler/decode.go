package kinesishandler

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

var (
	// ErrNotKinesis means that an event is not one of a Kinesis event source mapping, or is damaged: check what invokes
	// the function.
	ErrNotKinesis = errors.New(
		"kinesishandler: the event is not one of a Kinesis event source mapping; check what invokes this function")

	// ErrManyShards means that an event has records of several shards or streams. Lambda never sends such an event. The
	// sequence numbers of shards cannot be compared, so that no answer could say what is done.
	ErrManyShards = errors.New("kinesishandler: the event has records of more than one shard")
)

// decode makes a batch of a Lambda event. No other function knows the format of events.
//
// An event is decoded as a whole or not at all. If a record is damaged in a way that Lambda cannot cause (its data is
// not base64, its position is missing), its neighbours cannot be trusted either. A record without data has zero
// bytes; the format decides about it.
//
// The batch shares no memory with the event: the Lambda runtime uses that memory again.
//
// Errors: ErrNotKinesis, ErrManyShards. They say what is wrong and where. They repeat nothing of the event but its ARN.
func decode(raw json.RawMessage) (dedupe.Batch, error) {
	var d decoder
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
	batch      dedupe.Batch
	arn, shard []byte // of the first record
}

func (d *decoder) add(r eventRecord) (err error) {
	shard, sequence, _ := bytes.Cut(r.id, []byte(":"))
	if len(d.batch.Records) == 0 {
		d.arn, d.shard, d.batch.Shard = r.arn, shard, string(shard)
		if d.batch.Stream, err = dedupe.ParseStreamARN(string(r.arn)); err != nil {
			return notKinesis("eventSourceARN: " + err.Error())
		}
	}
	record := dedupe.Record{
		Sequence: string(r.sequence), PartitionKey: string(r.partitionKey),
		Arrival: time.UnixMilli(int64(r.arrival)).UTC(), Data: r.data,
	}
	if err := d.check(r, record, shard, sequence); err != nil {
		return fmt.Errorf("%w (record %d)", err, len(d.batch.Records))
	}
	d.batch.Records = append(d.batch.Records, record)
	return nil
}

func notKinesis(why string) error { return fmt.Errorf("%w: %s", ErrNotKinesis, why) }

// endOfTime is later than every arrival, in milliseconds: RFC 3339 cannot write the year 10000.
const endOfTime = 253_402_300_800_000

// check validates what the position of a record is made of. The sequence numbers must ascend: else the checkpoint would
// skip records, and the first failed record would not be the lowest.
func (d *decoder) check(r eventRecord, record dedupe.Record, shard, sequence []byte) error {
	before := len(d.batch.Records) - 1
	switch {
	case string(r.source) != "aws:kinesis":
		return notKinesis("eventSource is not aws:kinesis")
	case !isSequence(record.Sequence):
		return notKinesis("sequenceNumber is not a number")
	case len(shard) == 0 || !bytes.Equal(sequence, r.sequence):
		return notKinesis("eventID is not SHARD:SEQUENCE")
	case r.arrival < 1 || r.arrival >= endOfTime:
		return notKinesis("approximateArrivalTimestamp is not a time")
	case !bytes.Equal(r.arn, d.arn), !bytes.Equal(shard, d.shard):
		return ErrManyShards
	case before >= 0 && dedupe.CompareSequence(d.batch.Records[before].Sequence, record.Sequence) >= 0:
		return notKinesis("sequenceNumber is not above that of the record before")
	}
	return nil
}

// maxSequence is the length of the longest sequence number that a checkpoint takes (dedupe.PadSequence). Those of
// Kinesis have 56 digits.
const maxSequence = 128

func isSequence(text string) bool {
	return text != "" && len(text) <= maxSequence && strings.Trim(text, "0123456789") == ""
}
