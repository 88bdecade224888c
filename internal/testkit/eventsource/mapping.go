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

// Kinesis is the API that a mapping needs. A *kinesis.Client and a *[Stream] implement it. A
// mapping repeats only a throttled GetRecords. Other retries are up to the client.
type Kinesis interface {
	ListShards(ctx context.Context, in *kinesis.ListShardsInput, options ...func(*kinesis.Options)) (*kinesis.ListShardsOutput, error)
	GetShardIterator(ctx context.Context, in *kinesis.GetShardIteratorInput, options ...func(*kinesis.Options)) (*kinesis.GetShardIteratorOutput, error)
	GetRecords(ctx context.Context, in *kinesis.GetRecordsInput, options ...func(*kinesis.Options)) (*kinesis.GetRecordsOutput, error)
}

// Function is a Lambda function: it takes an event and returns an answer. With an error the
// invocation has failed. If the goroutine ends without returning, the function has crashed.
type Function func(ctx context.Context, event json.RawMessage) (json.RawMessage, error)

// Handler makes a Function from a handler of this project.
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
	// errThrottled is the error of an invocation that did not reach the function, because of a
	// throttle or a failure of Lambda.
	errThrottled = errors.New("eventsource: throttled, the function was not reached")

	// ErrTimedOut is the error of an invocation that reached its deadline.
	ErrTimedOut = errors.New("eventsource: the function timed out")

	// ErrCrashed is the error of an invocation that ended without an answer.
	ErrCrashed = errors.New("eventsource: the function exited without an answer")
)

// Reading selects the action of a mapping with Bisect after an answer that names the first record of a batch. AWS
// documents two rules, and does not say which of them applies here (Partial): "If your invocation fails", the batch
// is bisected; after "a partial batch success response" it "is bisected at the returned sequence number and Lambda
// retries only the remaining records". A function must work under both readings.
type Reading string

// The readings. They are the same for a batch of one record, and without Bisect.
const (
	// RetryBatch is the default. The invocation did not fail, and all records of the batch remain. So
	// the whole batch is retried, without a split. This is an attempt.
	RetryBatch Reading = "RETRY_BATCH"

	// BisectBatch takes the answer for a failed invocation, because no record succeeded. The batch is
	// split in two (Observed, kinesis_followup.json, partial_bisect).
	BisectBatch Reading = "BISECT_BATCH"
)

// DefaultBatchSize is the default of event source mappings (Parameters).
const (
	DefaultBatchSize = 100
	unlimited        = -1 // for retries and record age
)

// Times that are not settings of a mapping.
const (
	// DefaultTimeout is the default time-out of a function (Lambda Developer Guide, "Configure
	// Lambda function timeout").
	DefaultTimeout = 3 * time.Second

	// DefaultPollPause is the time between two reads of a shard without new records: "at a base
	// rate of once per second" (Using).
	DefaultPollPause = time.Second

	// DefaultRetryPause is the first pause before a retry. The pauses double up to maxRetryPause
	// (assumed).
	DefaultRetryPause = time.Second
	maxRetryPause     = time.Minute
)

// Mapping delivers the records of a stream to a function, as an event source mapping of Lambda
// does, from the beginning of the stream. It has those settings of Lambda that the tests of this project need. Zero
// values mean the defaults of Lambda. It does not check that Lambda takes the settings.
type Mapping struct {
	Client    Kinesis
	StreamARN string
	Function  Function

	BatchSize       int // maximum of records in a batch, up to 10,000; default 100
	Parallelization int // concurrent batches of a shard, up to 10; default 1

	// ReportBatchItemFailures makes the mapping read answers. Without it every answer is success.
	ReportBatchItemFailures bool
	Bisect                  bool          // BisectBatchOnFunctionError
	Reading                 Reading       // of what AWS does not document about Bisect; default RetryBatch
	Retries                 *int          // up to 10,000; nil or -1: until the records expire
	RecordAge               time.Duration // a minute to 7 days; 0 or -1: no limit
	OnFailure               Destination   // nil: discarded records are lost

	FunctionARN string // the default is in the account and region of the stream

	// Timeout is the time-out of the function.
	Timeout time.Duration

	// Retention is the retention of the stream. Records that outlive it while the mapping retries
	// them are lost. 0: no limit.
	Retention time.Duration

	// Checkpoint stores the progress of the mapping. nil: every Run starts from the beginning.
	Checkpoint *Checkpoint

	PollPause  time.Duration // DefaultPollPause
	RetryPause time.Duration // DefaultRetryPause

	// StopWhenDrained ends Run when all records are read and finished. Lambda never stops.
	StopWhenDrained bool
}

// complete sets the defaults.
func (m *Mapping) complete() (dedupe.Stream, error) {
	stream, err := dedupe.ParseStreamARN(m.StreamARN)
	if err != nil {
		return stream, fmt.Errorf("eventsource: %w", err)
	}
	setDefault(&m.Reading, RetryBatch)
	setDefault(&m.BatchSize, DefaultBatchSize)
	setDefault(&m.Parallelization, 1)
	setDefault(&m.RecordAge, unlimited)
	setDefault(&m.Timeout, DefaultTimeout)
	setDefault(&m.PollPause, DefaultPollPause)
	setDefault(&m.RetryPause, DefaultRetryPause)
	setDefault(&m.FunctionARN, "arn:aws:lambda:"+stream.Region+":"+stream.Account+":function:eventsource")
	if m.Retries == nil {
		m.Retries = new(unlimited)
	}
	if m.Checkpoint == nil {
		m.Checkpoint = new(Checkpoint)
	}
	return stream, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
