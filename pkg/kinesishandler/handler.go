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
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrLoop means that the sink is the stream that the records come from. With ONCEBOX_NATURAL=off the records would go
// round for ever.
var ErrLoop = errors.New(
	"kinesishandler: the sink is the source stream, or has the same name; choose another stream as the sink")

// ErrNoProgress means that no record of a batch of several is done. The answer could only name the first record, and
// then Lambda retries the batch as it is; it splits a batch whose invocation has failed (Lambda Developer Guide, "Process
// Kinesis records", on partial batch responses).
var ErrNoProgress = errors.New("kinesishandler: no record of the batch is done")

// Handler passes batches of Kinesis records to a sink. It is safe for concurrent use.
type Handler struct {
	parts   dedupe.Parts
	options Options
	log     *slog.Logger

	closeSink  func() error
	mu         sync.Mutex
	processors map[dedupe.Stream]*dedupe.Processor
}

// New makes a Handler of parts. Options name the sink for acks, and the stream of the sink is compared with the source;
// else New ignores the options that name a sink or a dead-letter store. Without a Format in the parts it takes that of
// the options. The log gets one line for each invocation.
//
// The error says which part or option is missing or wrong.
func New(p dedupe.Parts, o Options, log *slog.Logger) (*Handler, error) {
	if p.Format == nil {
		p.Format = o.Format
	}
	h := &Handler{
		parts: p, options: o, log: log,
		closeSink:  func() error { return nil },
		processors: map[dedupe.Stream]*dedupe.Processor{},
	}
	_, err := dedupe.NewProcessor(p, h.settings(dedupe.Stream{Name: "any"}))
	return h, err
}

// invocation is one event while it is handled.
type invocation struct {
	batch  dedupe.Batch
	result dedupe.Result
	fault  error  // of the invocation as a whole
	stack  []byte // of a panic
}

// Handle processes one event. The list in the answer is empty, or holds the sequence number of the first record that
// failed; Lambda delivers this record and all later ones again. Handling an event again is safe at any time.
//
// An error fails the invocation, and none of its records counts as delivered; with bisect Lambda splits the batch. The
// errors are ErrNoProgress; ErrNotKinesis, ErrManyShards, ErrConsumer, ErrLoop, dedupe.ErrSharedSequence,
// dedupe.ErrNotABatch, dedupe.ErrOtherConsumer and dedupe.ErrWrongSetting, which stay until somebody corrects the
// settings; and panics.
func (h *Handler) Handle(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
	result, err := h.Process(ctx, raw)
	if err != nil {
		return events.KinesisEventResponse{}, err
	}
	return Answer(result), nil
}

// Process is Handle for callers that want to know what became of the records.
func (h *Handler) Process(ctx context.Context, raw json.RawMessage) (dedupe.Result, error) {
	begun := time.Now()
	i := h.invoke(ctx, raw)
	h.report(ctx, i, time.Since(begun))
	return i.result, i.fault
}

// Answer makes the answer for Lambda: the first record that failed, or an empty list.
func Answer(result dedupe.Result) events.KinesisEventResponse {
	answer := events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{}}
	if result.Failed != "" {
		failure := events.KinesisBatchItemFailure{ItemIdentifier: result.Failed}
		answer.BatchItemFailures = append(answer.BatchItemFailures, failure)
	}
	return answer
}

// Invoke is Handle on bytes, as in lambda.Handler. For a handler of another type the Lambda runtime first decodes the
// event with encoding/json, which takes longer than this package's decode.
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
	if i.batch, i.fault = decode(raw, h.options.Unaggregated); i.fault != nil || len(i.batch.Records) == 0 {
		return i
	}
	p, err := h.processor(ctx, i.batch.Stream)
	if err != nil {
		i.fault = err
		return i
	}
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	i.result = p.Process(ctx, i.batch)
	i.fault = faultOf(i.result, len(i.batch.Records))
	return i
}

// faultOf says why an invocation fails as a whole. It is nil if an answer can say what is to come again.
func faultOf(r dedupe.Result, records int) error {
	for _, stays := range []error{
		dedupe.ErrSharedSequence, dedupe.ErrNotABatch, dedupe.ErrOtherConsumer, dedupe.ErrWrongSetting,
	} {
		if errors.Is(r.Err, stays) {
			return r.Err
		}
	}
	if r.Err != nil && r.Done == 0 && records > 1 {
		return fmt.Errorf("%w: %w", ErrNoProgress, r.Err)
	}
	return nil
}

// panicked makes an error of a panic. It repeats the text of a runtime error only: another text may hold data.
func panicked(p any) error {
	if err, ok := p.(interface {
		error
		RuntimeError()
	}); ok {
		return fmt.Errorf("kinesishandler: panic: %w", err)
	}
	return fmt.Errorf("kinesishandler: panic with a %T", p)
}

// processor returns the Processor of a stream. Each stream has its own, since the default scope is the stream's name.
func (h *Handler) processor(ctx context.Context, stream dedupe.Stream) (*dedupe.Processor, error) {
	if stream.Name == h.options.Sink.Stream {
		return nil, ErrLoop
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, ok := h.processors[stream]; ok {
		return p, nil
	}
	s := h.settings(stream)
	p, err := dedupe.NewProcessor(h.parts, s)
	if err != nil {
		return nil, err
	}
	if w, ok := h.parts.Ledger.(dedupe.Warmer); ok {
		if err := w.Warm(ctx, s.Scope, s.Retention); err != nil {
			h.log.LogAttrs(ctx, slog.LevelWarn, "the ledger was not warmed", slog.String("error", err.Error()))
		}
	}
	h.processors[stream] = p
	return p, nil
}

func (h *Handler) settings(stream dedupe.Stream) dedupe.Settings {
	o := h.options
	return dedupe.Settings{
		Scope: cmp.Or(o.Scope, stream.Name), Retention: o.Retention, PassNatural: o.PassNatural,
		PassSynthetic: o.PassSynthetic, Derive: o.Derive, Unaggregated: o.Unaggregated, PoisonLimit: o.PoisonLimit,
		Sink: o.Sink.String(), Consumer: o.Consumer, Chunk: o.Chunk, Clock: o.Clock,
	}
}

// report writes the log line of an invocation: an error if something failed; a warning if there are dead letters, records
// past the horizon, or acks that could not be read or written.
func (h *Handler) report(ctx context.Context, i invocation, took time.Duration) {
	level, t := slog.LevelInfo, i.result.Tally
	if t.DeadLettered > 0 || t.PastHorizon > 0 {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String("request_id", requestID(ctx)),
		slog.String("stream", streamOf(i.batch)), slog.String("shard", i.batch.Shard),
		slog.Int("records", len(i.batch.Records)),
		slog.Int64("in", t.In), slog.Int64("new", t.New), slog.Int64("retry", t.Retry), slog.Int64("natural", t.Natural),
		slog.Int64("synthetic", t.Synthetic), slog.Int64("dead_lettered", t.DeadLettered), slog.Int64("skipped", t.Skipped),
		slog.Int64("failed", t.Failed), slog.Int64("out", t.Out), slog.Int64("repeated", t.Repeated),
		slog.Int64("past_horizon", t.PastHorizon),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	for reason, n := range i.result.Reasons {
		attrs = append(attrs, slog.Group("reasons", slog.Int64(reason, n)))
	}
	if err := i.result.AckErr; err != nil {
		level = max(level, slog.LevelWarn)
		attrs = append(attrs, slog.String("ack_error", err.Error()))
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

// requestID returns Lambda's id of the invocation.
func requestID(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}
