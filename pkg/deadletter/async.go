package deadletter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// asyncRecord has the parts that this package reads of the record of an asynchronous invocation (Lambda Developer
// Guide, "Capturing records of Lambda asynchronous invocations").
type asyncRecord struct {
	Context struct {
		RequestID   string `json:"requestId"`
		FunctionARN string `json:"functionArn"`
		Condition   string `json:"condition"` // RetriesExhausted, EventAgeExceeded or Success
		Invocations int    `json:"approximateInvokeCount"`
	} `json:"requestContext"`
	At    time.Time       `json:"timestamp"`
	Event json.RawMessage `json:"requestPayload"`
}

// decodeAsync reads the record of an asynchronous invocation that Lambda gave up.
func decodeAsync(content []byte) (*GivenUp, error) {
	var d asyncRecord
	if err := json.Unmarshal(content, &d); err != nil {
		return nil, fmt.Errorf("%w: its invocation record is damaged: %w", ErrNotALetter, err)
	}
	switch {
	case d.Context.Condition == "Success":
		return nil, fmt.Errorf("%w: it is the record of an invocation that succeeded", ErrNotALetter)
	case d.Context.FunctionARN == "":
		return nil, fmt.Errorf("%w: its requestContext names no function", ErrNotALetter)
	case len(d.Event) == 0 || string(d.Event) == "null":
		return nil, fmt.Errorf("%w: its invocation record has no requestPayload: Lambda leaves out an event that is too large "+
			"for the destination; S3 takes all", ErrNotALetter)
	}
	return &GivenUp{
		Function: functionOf(d.Context.FunctionARN), Condition: d.Context.Condition, Invocations: d.Context.Invocations,
		RequestID: d.Context.RequestID, At: d.At, Async: true, Size: 1, Event: d.Event,
	}, nil
}

// reasonQueue is the reason of an event in a dead-letter queue of a function. Lambda sends the event as it is, and the
// error only in attributes of the message.
const reasonQueue = "in the dead-letter queue of its function"

func queuedEvent(event []byte) *GivenUp {
	return &GivenUp{Condition: reasonQueue, Async: true, Size: 1, Event: event}
}

// invocation names an asynchronous invocation.
func (b *GivenUp) invocation() string {
	if b.RequestID == "" {
		return "an asynchronous invocation"
	}
	return b.Function + "/" + b.RequestID
}

// owner returns the owner of the event's record, or the name of the invocation if the event was not read.
func (b *GivenUp) owner() string {
	if b.First == "" {
		return b.invocation()
	}
	return b.Stream.String() + "/" + b.First
}

// base is Letter.Base for an asynchronous invocation. The same event from a queue has the same name each time, however
// its JSON is written.
func (b *GivenUp) base() string {
	var data bytes.Buffer
	data.WriteString(b.Function + "\n" + b.At.UTC().Format(time.RFC3339Nano) + "\n")
	if json.Compact(&data, b.Event) != nil {
		data.Write(b.Event)
	}
	return Name("", b.invocation(), data.Bytes())
}

// For returns the letter for a function. An event of a dead-letter queue does not say whose it is.
func (l Letter) For(function string) Letter {
	if b := l.Batch; b != nil && b.Async && b.Function == "" {
		of := *b
		of.Function = function
		l.Batch = &of
	}
	return l
}
