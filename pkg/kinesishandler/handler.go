// Package kinesishandler is the record function: the handler of the Lambda function
// in functions/dedupe, which `oncebox invoke` and `demo` run in process.
//
// It takes events of a Kinesis event source mapping, each with records of one
// shard, and answers which is the first that failed. The mapping has to have
// ReportBatchItemFailures: without it the answer is not looked at, and what
// failed counts as delivered.
//
// # Life of an invocation
//
//  1. decode makes a batch of the event, or refuses it as a whole.
//  2. The stream has a dedupe.Processor, made at its first batch.
//  3. It gets the batch with a deadline short of Lambda's own.
//  4. The answer names the first record that failed: it and all after it come
//     again. A fault of the ledger, the sink or the failure store is told in
//     this way too, so that what was done before it counts.
//  5. One log line tells of it, without payloads, keys and ids.
package kinesishandler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrLoop says that the sink is the stream that the records come from. With
// ONCEBOX_NATURAL=off they would go round for ever.
var ErrLoop = errors.New("kinesishandler: the sink is the stream that the records come from, or has its name; give it another")

// Store is what the handler needs of an engine; every dedupe.Store is one.
type Store interface {
	dedupe.Ledger
	dedupe.Checkpoints
}

// Handler takes batches of Kinesis records to a sink. It is safe for concurrent
// use.
type Handler struct {
	store    Store
	sink     dedupe.Sink
	failures dedupe.DeadLetterStore
	options  Options
	log      *slog.Logger

	closeSink  func() error
	repeated   atomic.Int64 // records that the sink sent again by itself
	mu         sync.Mutex
	processors map[dedupe.Stream]*dedupe.Processor
}

// New makes a Handler of parts: of the options it does not use those that name
// a sink or failure store. The log gets one line per invocation.
func New(store Store, sink dedupe.Sink, failures dedupe.DeadLetterStore, o Options, log *slog.Logger) *Handler {
	return &Handler{
		store: store, sink: sink, failures: failures, options: o, log: log,
		closeSink:  func() error { return nil },
		processors: map[dedupe.Stream]*dedupe.Processor{},
	}
}

// invocation is one event on its way.
type invocation struct {
	batch  dedupe.Batch
	result dedupe.Result
	fault  error  // of the invocation as a whole
	stack  []byte // of a panic
}

// Handle processes one event. The answer's list is empty, or holds the sequence
// number of the first record that failed; Lambda delivers it and all after it
// again. Handling an event again is safe at any time.
//
// An error fails the invocation, so that none of its records counts as
// delivered: ErrNotKinesis, ErrManyShards and ErrLoop, which stay until somebody
// repairs the settings, and panics. With bisect Lambda then splits the batch.
func (h *Handler) Handle(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
	result, err := h.Process(ctx, raw)
	if err != nil {
		return events.KinesisEventResponse{}, err
	}
	return Answer(result), nil
}

// Process is Handle for those who want to know more than what Lambda is
// answered: what became of the records.
func (h *Handler) Process(ctx context.Context, raw json.RawMessage) (dedupe.Result, error) {
	begun := time.Now()
	i := h.invoke(ctx, raw)
	h.report(ctx, i, time.Since(begun))
	return i.result, i.fault
}

// Answer is what Lambda is answered.
func Answer(result dedupe.Result) events.KinesisEventResponse {
	answer := events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{}}
	if result.Failed != "" {
		answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: result.Failed})
	}
	return answer
}

// Invoke is Handle as lambda.Handler has it: of bytes. To a function of another
// form the Lambda runtime gives events that it has checked and copied by
// encoding/json, which takes longer than decode.
func (h *Handler) Invoke(ctx context.Context, event []byte) (answer []byte, err error) {
	response, err := h.Handle(ctx, event)
	if err != nil {
		return nil, err
	}
	return json.Marshal(response)
}

func (h *Handler) invoke(ctx context.Context, raw json.RawMessage) (i invocation) {
	defer func() {
		if p := recover(); p != nil {
			i.stack = debug.Stack()
			i.fault = panicked(p)
		}
	}()
	if i.batch, i.fault = decode(raw); i.fault != nil || len(i.batch.Records) == 0 {
		return i
	}
	p, err := h.processor(i.batch.Stream)
	if err != nil {
		i.fault = err
		return i
	}
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	i.result = p.Process(ctx, i.batch)
	return i
}

// panicked makes an error of a panic. Of its value it tells what the runtime
// said; another's text may hold anything.
func panicked(p any) error {
	if err, ok := p.(interface {
		error
		RuntimeError()
	}); ok {
		return fmt.Errorf("kinesishandler: panic: %w", err)
	}
	return fmt.Errorf("kinesishandler: panic with a %T", p)
}

// processor returns the stream's Processor. There are as many as streams invoke
// the function, and they differ in their scope.
func (h *Handler) processor(stream dedupe.Stream) (*dedupe.Processor, error) {
	if stream.Name == h.options.Sink.Stream {
		return nil, ErrLoop
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.processors[stream]
	if !ok {
		p = dedupe.NewProcessor(h.store, h.options.Format, h.sink, h.failures, h.settings(stream))
		h.processors[stream] = p
	}
	return p, nil
}

func (h *Handler) settings(stream dedupe.Stream) dedupe.Settings {
	s := dedupe.Settings{
		Scope: cmp.Or(h.options.Scope, stream.Name), Retention: h.options.Retention, Chunk: h.options.Chunk,
		PassNatural: h.options.PassNatural, PassSynthetic: h.options.PassSynthetic, Consumer: h.options.Consumer,
	}
	if h.options.Checkpoint {
		s.Checkpoints = h.store
	}
	return s
}

// report writes the invocation's log line: an error if something failed, a
// warning if records were kept in the failure store.
func (h *Handler) report(ctx context.Context, i invocation, took time.Duration) {
	level, t := slog.LevelInfo, i.result.Tally
	if t.DeadLettered > 0 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", requestID(ctx)),
		slog.String("stream", streamOf(i.batch)), slog.String("shard", i.batch.Shard), slog.Int("records", len(i.batch.Records)),
		slog.Int64("in", t.In), slog.Int64("new", t.New), slog.Int64("retry", t.Retry), slog.Int64("natural", t.Natural),
		slog.Int64("synthetic", t.Synthetic), slog.Int64("dead_lettered", t.DeadLettered), slog.Int64("skipped", t.Skipped),
		slog.Int64("failed", t.Failed), slog.Int64("out", t.Out), slog.Int64("repeated", h.repeated.Swap(0)),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if err := cmp.Or(i.fault, i.result.Err); err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("failed_sequence", i.result.Failed), slog.String("error", err.Error()))
	}
	if i.stack != nil {
		attrs = append(attrs, slog.String("stack", string(i.stack)))
	}
	h.log.LogAttrs(ctx, level, "batch", attrs...)
}

func streamOf(b dedupe.Batch) string {
	if b.Stream == (dedupe.Stream{}) {
		return ""
	}
	return b.Stream.String()
}

// requestID is Lambda's id of the invocation.
func requestID(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}
