package deadletter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrNotALetter says that an object is neither a Document nor an invocation record of Lambda.
var ErrNotALetter = errors.New("dead-letter store: not a dead letter")

// Letter is the content of an object of the store: either a poison record or a batch that Lambda gave up.
type Letter struct {
	Name   string // of the object
	Poison *dedupe.DeadLetter
	Batch  *GivenUp
	// Content is the content of the object. If the letter came in an envelope of SNS, it is the letter alone.
	Content []byte
}

// GivenUp is a batch that Lambda gave up, or the event of an asynchronous invocation, from the invocation record that
// Lambda sends to an on-failure destination or, without a record, to the dead-letter queue of a function.
type GivenUp struct {
	Function    string // its name
	Condition   string // the reason: RetryAttemptsExhausted, RecordAgeExceeded ...
	Invocations int    // approximately
	RequestID   string
	At          time.Time // when Lambda gave up
	StreamARN   string
	Stream      dedupe.Stream
	Shard       string
	First, Last string // sequence numbers
	Size        int    // number of Kinesis records
	Arrival     time.Time
	LastArrival time.Time
	// Async says that Event is the event of an asynchronous invocation: a message that CloudWatch Logs sent to the
	// function. The event says what Stream, First, Last and Arrival are. ParseLetter leaves them empty.
	Async bool
	// Event is the event with the records. An invocation record that was sent to SQS or SNS has no event: its records
	// are only in the stream.
	Event json.RawMessage
}

// ParseLetter reads the content of an object. Its error is ErrNotALetter, or an error of Decode.
//
// Invocation records come from a Kinesis event source mapping, in the forms for S3, SQS and SNS (Lambda Developer
// Guide, "Retain discarded batch records for a Kinesis Data Streams event source"), or from an asynchronous invocation.
// The form for SNS may be in its envelope. A message of CloudWatch Logs alone is from the dead-letter queue of a
// function.
func ParseLetter(name string, content []byte) (Letter, error) {
	var kind struct {
		Format  *int             `json:"format"`
		Batch   *json.RawMessage `json:"KinesisBatchInfo"`
		Table   *json.RawMessage `json:"DDBStreamBatchInfo"`
		Message *string          `json:"Message"` // of SNS
		Async   *json.RawMessage `json:"requestContext"`
		Logs    *json.RawMessage `json:"awslogs"`
	}
	if err := json.Unmarshal(content, &kind); err != nil {
		return Letter{}, fmt.Errorf("%w: it is not a JSON object", ErrNotALetter)
	}
	switch {
	case kind.Format != nil:
		d, err := Decode(content)
		return Letter{Name: name, Poison: &d, Content: content}, err
	case kind.Batch != nil:
		batch, err := decodeGivenUp(content)
		return Letter{Name: name, Batch: batch, Content: content}, err
	case kind.Message != nil:
		return ParseLetter(name, []byte(*kind.Message))
	}
	switch {
	case kind.Table != nil:
		return Letter{}, fmt.Errorf("%w: batches of DynamoDB streams are not implemented yet", ErrNotALetter)
	case kind.Async != nil && otherBatch(content) != "":
		return Letter{}, fmt.Errorf("%w: it is a batch of another source: %s", ErrNotALetter, otherBatch(content))
	case kind.Async != nil:
		batch, err := decodeAsync(content)
		return Letter{Name: name, Batch: batch, Content: content}, err
	case kind.Logs != nil:
		return Letter{Name: name, Batch: queuedEvent(content), Content: content}, nil
	}
	return Letter{}, fmt.Errorf("%w: it has neither format nor KinesisBatchInfo nor requestPayload", ErrNotALetter)
}

// otherBatch returns the member with which Lambda describes a batch of another source, as KafkaBatchInfo, or "".
func otherBatch(content []byte) string {
	var members map[string]json.RawMessage
	_ = json.Unmarshal(content, &members) // ParseLetter has checked it
	for name := range members {
		if strings.HasSuffix(name, "BatchInfo") {
			return name
		}
	}
	return ""
}

// invocationRecord has the parts of Lambda's document that this package reads.
type invocationRecord struct {
	Context struct {
		RequestID   string `json:"requestId"`
		FunctionARN string `json:"functionArn"`
		Condition   string `json:"condition"`
		Invocations int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	At    time.Time `json:"timestamp"`
	Batch struct {
		Shard       string    `json:"shardId"`
		First       string    `json:"startSequenceNumber"`
		Last        string    `json:"endSequenceNumber"`
		Arrival     time.Time `json:"approximateArrivalOfFirstRecord"`
		LastArrival time.Time `json:"approximateArrivalOfLastRecord"`
		Size        int       `json:"batchSize"`
		StreamARN   string    `json:"streamArn"`
	} `json:"KinesisBatchInfo"`
	Payload json.RawMessage `json:"payload"` // a text with the event
}

func decodeGivenUp(content []byte) (*GivenUp, error) {
	var d invocationRecord
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, fmt.Errorf("%w: its invocation record is damaged: %w", ErrNotALetter, err)
	}
	stream, err := dedupe.ParseStreamARN(d.Batch.StreamARN)
	if err != nil {
		return nil, fmt.Errorf("%w: streamArn: %w", ErrNotALetter, err)
	}
	b := d.Batch
	if b.Shard == "" || !dedupe.IsSequence(b.First) || !dedupe.IsSequence(b.Last) || b.Size < 1 {
		return nil, fmt.Errorf("%w: its KinesisBatchInfo has no shard, no sequence numbers or no batchSize", ErrNotALetter)
	}
	event := d.Payload
	var text string
	if bytes.HasPrefix(event, []byte(`"`)) && json.Unmarshal(event, &text) == nil {
		event = json.RawMessage(text)
	}
	return &GivenUp{
		Function: functionOf(d.Context.FunctionARN), Condition: d.Context.Condition, Invocations: d.Context.Invocations,
		RequestID: d.Context.RequestID, At: d.At, StreamARN: b.StreamARN, Stream: stream, Shard: b.Shard,
		First: b.First, Last: b.Last, Size: b.Size, Arrival: b.Arrival, LastArrival: b.LastArrival, Event: event,
	}, nil
}

// functionOf returns NAME of a function's ARN, whose resource is function:NAME:QUALIFIER.
func functionOf(text string) string {
	a, ok := arn.Of("lambda", text)
	name, isFunction := strings.CutPrefix(a.Resource, "function:")
	if !ok || !isFunction {
		return text
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// Stream returns the stream that the records of the letter came from.
func (l Letter) Stream() dedupe.Stream {
	if l.Batch != nil {
		return l.Batch.Stream
	}
	return l.Poison.Position.Stream
}

// Arrival returns the arrival of the first record of the letter.
func (l Letter) Arrival() time.Time {
	if l.Batch != nil {
		return l.Batch.Arrival
	}
	return l.Poison.Arrival
}

// Reason returns why the record or batch was dead-lettered.
func (l Letter) Reason() string {
	if l.Batch != nil {
		return l.Batch.Condition
	}
	return l.Poison.Reason
}

// Owner returns the owner of the letter's record, or the range of the records of a batch.
func (l Letter) Owner() string {
	if b := l.Batch; b != nil && b.Async {
		return b.owner()
	} else if b != nil {
		return b.Stream.String() + "/" + b.Shard + "/" + b.First + ".." + b.Last
	}
	return l.Poison.Owner
}

// Records returns how many records of the stream the letter has.
func (l Letter) Records() int {
	if l.Batch != nil {
		return l.Batch.Size
	}
	return 1
}

// Base returns the name that the letter has in every store. A poison record has the result of Name. The name of a
// batch is made from the range of its records, its function and its time.
func (l Letter) Base() string {
	if b := l.Batch; b != nil && b.Async {
		return b.base()
	} else if b != nil {
		return Name("", l.Owner(), []byte(b.Function+"\n"+b.RequestID+"\n"+b.At.UTC().Format(time.RFC3339Nano)))
	}
	return Name(l.Poison.Scope, l.Poison.Owner, l.Poison.Data)
}
