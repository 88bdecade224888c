package recordhandler

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// tableChange has the parts of a record of a DynamoDB stream that the handler reads.
type tableChange struct {
	EventID        string `json:"eventID"`
	EventSource    string `json:"eventSource"`
	EventSourceARN string `json:"eventSourceARN"`
	DynamoDB       struct {
		SequenceNumber string         `json:"SequenceNumber"`
		Created        float64        `json:"ApproximateCreationDateTime"` // in seconds
		Keys           map[string]any `json:"Keys"`
	} `json:"dynamodb"`
}

// decodeChanges makes a batch from an event of a DynamoDB stream. The payload of a record is the unchanged record, on
// one line: Lambda sends no white space, but files with events may have some. Its owner is the table and the event
// id, which is unique, because the event does not name the shard of its sequence numbers. Its partition key is made
// from the key of its item, so that the changes of an item stay in order.
func decodeChanges(raw json.RawMessage) ([]source, error) {
	var event struct {
		Records []json.RawMessage `json:"Records"`
	}
	if err := json.Unmarshal(raw, &event); err != nil {
		return nil, notKinesis("Records has the wrong form")
	}
	s := source{batch: dedupe.Batch{Order: dedupe.AsGiven}}
	arn := ""
	for i, record := range event.Records {
		var (
			c    tableChange
			data bytes.Buffer
		)
		if err := errors.Join(json.Unmarshal(record, &c), json.Compact(&data, record)); err != nil {
			return nil, bad(i, "a record of a DynamoDB stream has the wrong form")
		}
		arrival, timed := timeOf(1000 * c.DynamoDB.Created)
		stream, ok := streamOfTable(c.EventSourceARN)
		switch {
		case c.EventSource != "aws:dynamodb":
			return nil, bad(i, "eventSource is not aws:dynamodb")
		case !ok:
			return nil, bad(i, "eventSourceARN is not the ARN of a DynamoDB stream")
		case i > 0 && c.EventSourceARN != arn:
			return nil, ErrManyShards
		case c.EventID == "":
			return nil, bad(i, "no eventID")
		case !dedupe.IsSequence(c.DynamoDB.SequenceNumber):
			return nil, bad(i, "SequenceNumber is not a number")
		case !timed:
			return nil, bad(i, "ApproximateCreationDateTime is not a time")
		}
		arn, s.batch.Stream = c.EventSourceARN, stream
		s.identifiers = append(s.identifiers, c.DynamoDB.SequenceNumber)
		s.batch.Records = append(s.batch.Records, dedupe.Record{
			Sequence: c.EventID, PartitionKey: keyOfItem(c.DynamoDB.Keys), Arrival: arrival, Data: data.Bytes(),
		})
	}
	return []source{s}, nil
}

// streamOfTable reads arn:PARTITION:dynamodb:REGION:ACCOUNT:table/NAME/stream/LABEL. It ignores the label, which
// changes when the stream is turned off and on.
func streamOfTable(text string) (dedupe.Stream, bool) {
	stream, ok := arn.Of("dynamodb", text)
	parts := strings.Split(stream.Resource, "/")
	if !ok || len(parts) != 4 || parts[0] != "table" || parts[1] == "" || parts[2] != "stream" {
		return dedupe.Stream{}, false
	}
	return dedupe.Stream{Account: stream.Account, Region: stream.Region, Name: "dynamodb:" + parts[1]}, true
}

// keyOfItem makes a partition key from the key of an item, which may be longer than a destination accepts.
func keyOfItem(keys map[string]any) string {
	text, err := json.Marshal(keys) // the names are sorted
	if err != nil || len(keys) == 0 {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
