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
	// ErrNotKinesis says that an event is not one of a Kinesis event source
	// mapping, or is damaged: look at what invokes the function.
	ErrNotKinesis = errors.New("kinesishandler: the event is not one of a Kinesis event source mapping; look at what invokes this function")

	// ErrManyShards says that an event has records of several shards or
	// streams, which Lambda never makes. Their sequence numbers cannot be
	// compared, so that no answer could tell what is done.
	ErrManyShards = errors.New("kinesishandler: the event has records of more than one shard")
)

// decode makes a batch of a Lambda event. It is the only function that knows
// what events look like, so that a faster one can take its place.
//
// An event is decoded as a whole or not at all: where a record is damaged in a
// way that Lambda cannot make (its data not base64, its position missing),
// nothing about its neighbours could be relied on. A record without data is one
// of no bytes, and those are for the format to judge.
//
// The batch holds on to nothing of the event, whose memory the Lambda runtime uses
// again.
//
// Errors: ErrNotKinesis, ErrManyShards. They say what is wrong and where, and
// repeat nothing of the event but its ARN.
func decode(raw json.RawMessage) (dedupe.Batch, error) {
	var d decoder
	found, err := readEvent(raw, d.add)
	if err == nil && !found {
		err = notKinesis("it has no Records")
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
		Sequence: string(r.sequence), PartitionKey: string(r.partitionKey), Arrival: time.UnixMilli(int64(r.arrival)).UTC(), Data: r.data,
	}
	if err := d.check(r, record, shard, sequence); err != nil {
		return fmt.Errorf("%w (record %d)", err, len(d.batch.Records))
	}
	d.batch.Records = append(d.batch.Records, record)
	return nil
}

func notKinesis(why string) error { return fmt.Errorf("%w: %s", ErrNotKinesis, why) }

// endOfTime is after every arrival, in milliseconds: RFC 3339 cannot write the year
// 10000.
const endOfTime = 253_402_300_800_000

// check makes sure of all that the position of a record stands on. Records that
// do not ascend would make the checkpoint skip some, and the first failed one
// not be the lowest.
func (d *decoder) check(r eventRecord, record dedupe.Record, shard, sequence []byte) error {
	before := len(d.batch.Records) - 1
	switch {
	case string(r.source) != "aws:kinesis":
		return notKinesis("its eventSource is not aws:kinesis")
	case !isSequence(record.Sequence):
		return notKinesis("its sequenceNumber is not a number")
	case len(shard) == 0 || !bytes.Equal(sequence, r.sequence):
		return notKinesis("its eventID is not SHARD:SEQUENCE")
	case r.arrival < 1 || r.arrival >= endOfTime:
		return notKinesis("its approximateArrivalTimestamp is not one")
	case !bytes.Equal(r.arn, d.arn), !bytes.Equal(shard, d.shard):
		return ErrManyShards
	case before >= 0 && dedupe.CompareSequence(d.batch.Records[before].Sequence, record.Sequence) >= 0:
		return notKinesis("its sequenceNumber is not above that of the record before")
	}
	return nil
}

// maxSequence is the longest sequence number that a checkpoint takes (dedupe.PadSequence).
// Those of Kinesis have 56 digits.
const maxSequence = 128

func isSequence(text string) bool {
	return text != "" && len(text) <= maxSequence && strings.Trim(text, "0123456789") == ""
}
