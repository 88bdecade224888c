package eventsource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Kinesis is what a mapping needs of a stream: a *kinesis.Client has it, and a
// *[Stream]. The client's own retries are for failures on the way; a mapping
// itself repeats only a throttled GetRecords.
type Kinesis interface {
	ListShards(ctx context.Context, in *kinesis.ListShardsInput, options ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
	GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, options ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, options ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
}

// Function is a Lambda function: event in, answer out. An error is that of an
// invocation that failed, whatever it had done; a goroutine that ends without
// returning is a function that crashed.
type Function func(ctx context.Context, event json.RawMessage) (json.RawMessage, error)

// Handler makes a Function of a handler of this project.
func Handler(handle func(context.Context, json.RawMessage) (events.KinesisEventResponse, error)) Function {
	return func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		answer, err := handle(ctx, event)
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	}
}

var (
	// ErrThrottled is for a Function to return where Lambda would not have run
	// it: too much concurrency, or any failure of the service before the function.
	ErrThrottled = errors.New("eventsource: throttled, the function was not reached")

	// ErrTimedOut is the failure of an invocation that reached its deadline.
	ErrTimedOut = errors.New("eventsource: the function timed out")

	// ErrCrashed is the failure of an invocation that ended without an answer.
	ErrCrashed = errors.New("eventsource: the function exited without an answer")
)

// StartingPosition is where a mapping begins in a stream in which it has no
// checkpoint.
type StartingPosition string

// The starting positions. Lambda has no default and wants one named; the zero
// value here is TrimHorizon, which is what this project deploys.
const (
	TrimHorizon StartingPosition = "TRIM_HORIZON"
	Latest      StartingPosition = "LATEST"
	AtTimestamp StartingPosition = "AT_TIMESTAMP"
)

// Limits and defaults of event source mappings (Parameters; Lambda API Reference,
// "CreateEventSourceMapping").
const (
	DefaultBatchSize = 100
	mostBatchSize    = 10_000
	mostWindow       = 5 * time.Minute
	mostParallel     = 10
	mostRetries      = 10_000
	leastRecordAge   = time.Minute
	mostRecordAge    = 7 * 24 * time.Hour
	forever          = -1 // retries and record age without a limit
)

// Times that are not a mapping's to set.
const (
	// DefaultTimeout is a function's time-out where none is set (Lambda Developer
	// Guide, "Configure Lambda function timeout").
	DefaultTimeout = 3 * time.Second

	// DefaultPollPause is the time between two looks at a shard that had nothing
	// new: "at a base rate of once per second" (Using).
	DefaultPollPause = time.Second

	// DefaultRetryPause is the first pause before a retry; it doubles up to
	// mostRetryPause (assumed).
	DefaultRetryPause = time.Second
	mostRetryPause    = time.Minute
)

// Mapping takes the records of a stream to a function as Lambda's event source
// mapping does. Its settings are Lambda's, with Lambda's defaults for what is
// zero.
type Mapping struct {
	Client    Kinesis
	StreamARN string
	Function  Function

	StartingPosition  StartingPosition
	StartingTimestamp time.Time // of AtTimestamp

	BatchSize       int           // records of a batch at most, up to 10,000; 100
	BatchWindow     time.Duration // to gather a batch, up to 5 minutes; none
	Parallelization int           // batches of a shard at a time, up to 10; 1

	// ReportBatchItemFailures makes answers count. Without it all that a function
	// returns without an error is success.
	ReportBatchItemFailures bool
	Bisect                  bool          // BisectBatchOnFunctionError
	Retries                 *int          // up to 10,000; nil and -1: until the records expire
	RecordAge               time.Duration // a minute to 7 days; 0 and -1: no limit
	OnFailure               Destination   // nil: what is given up is gone

	UUID        string // of the mapping; a fixed one
	FunctionARN string // one in the stream's account and region

	// Timeout is the function's.
	Timeout time.Duration

	// Retention is the stream's. Records that outlive it in the mapping's hands
	// are lost. 0: they do not.
	Retention time.Duration

	// Checkpoint is where the mapping remembers how far it is. nil: nowhere, each
	// Run starts anew.
	Checkpoint *Checkpoint

	PollPause  time.Duration // DefaultPollPause
	RetryPause time.Duration // DefaultRetryPause

	// StopWhenDrained ends Run once all shards are read and nothing is new. Lambda
	// never stops.
	StopWhenDrained bool
}

// complete checks the settings and sets what is left out.
func (m *Mapping) complete() (dedupe.Stream, error) {
	stream, err := dedupe.ParseStreamARN(m.StreamARN)
	if err != nil {
		return stream, fmt.Errorf("eventsource: %w", err)
	}
	setDefault(&m.StartingPosition, TrimHorizon)
	setDefault(&m.BatchSize, DefaultBatchSize)
	setDefault(&m.Parallelization, 1)
	setDefault(&m.RecordAge, forever)
	setDefault(&m.Timeout, DefaultTimeout)
	setDefault(&m.PollPause, DefaultPollPause)
	setDefault(&m.RetryPause, DefaultRetryPause)
	setDefault(&m.UUID, "00000000-0000-4000-8000-000000000000")
	setDefault(&m.FunctionARN, "arn:aws:lambda:"+stream.Region+":"+stream.Account+":function:eventsource")
	if m.Retries == nil {
		m.Retries = new(forever)
	}
	if m.Checkpoint == nil {
		m.Checkpoint = new(Checkpoint)
	}
	var wrong []error
	refuse := func(bad bool, format string, a ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf("eventsource: "+format, a...))
		}
	}
	refuse(m.BatchSize < 1 || m.BatchSize > mostBatchSize, "the BatchSize is %d, want 1 to %d", m.BatchSize, mostBatchSize)
	refuse(m.BatchWindow < 0 || m.BatchWindow > mostWindow || m.BatchWindow%time.Second != 0,
		"the BatchWindow is %v, want whole seconds up to %v", m.BatchWindow, mostWindow)
	refuse(m.Parallelization < 1 || m.Parallelization > mostParallel, "the Parallelization is %d, want 1 to %d", m.Parallelization, mostParallel)
	refuse(*m.Retries < forever || *m.Retries > mostRetries, "the Retries are %d, want %d to %d", *m.Retries, forever, mostRetries)
	refuse(m.RecordAge != forever && (m.RecordAge < leastRecordAge || m.RecordAge > mostRecordAge || m.RecordAge%time.Second != 0),
		"the RecordAge is %v, want whole seconds from %v to %v", m.RecordAge, leastRecordAge, mostRecordAge)
	switch m.StartingPosition {
	case TrimHorizon, Latest, AtTimestamp:
	default:
		refuse(true, "the StartingPosition is %q, want one of %s, %s and %s", m.StartingPosition, TrimHorizon, Latest, AtTimestamp)
	}
	refuse((m.StartingPosition == AtTimestamp) == m.StartingTimestamp.IsZero(), "a StartingTimestamp goes with %s and with nothing else", AtTimestamp)
	return stream, errors.Join(wrong...)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
