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

	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/internal/requestid"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrLoop means that the sink is the stream that the records come from. With ONCEBOX_NATURAL=off the records would go
// round for ever.
var ErrLoop = errors.New(
	"kinesishandler: the sink is the source stream, or has the same name; choose another stream as the sink")

// ErrNoProgress means that the first record of a batch of several is not done. After an answer that names this record,
// Lambda may retry the whole batch as it is: it "retries only the remaining records". Only a failed invocation is sure
// to be bisected (Lambda Developer Guide, "Configuring partial batch response with Kinesis Data Streams and Lambda").
var ErrNoProgress = errors.New("kinesishandler: the first record of the batch is not done")

var errNoLog = errors.New("kinesishandler: the log is nil")

// Handler passes batches of Kinesis records to a sink. It is safe for concurrent use.
type Handler struct {
	parts   dedupe.Parts
	options Options
	log     *slog.Logger

	closeSink  func() error
	mu         sync.Mutex
	processors map[dedupe.Stream]*dedupe.Processor
}

// New makes a Handler of parts. Without a Format in the parts it takes that of the options. Of the options about the
// sink and the dead-letter store it uses only Sink: acks are stored under the sink's name, and the sink must not be the
// source. The log gets one line for each invocation.
//
// The error lists the parts and options that are missing or wrong.
func New(p dedupe.Parts, o Options, log *slog.Logger) (*Handler, error) {
	if p.Format == nil {
		p.Format = o.Format
	}
	o = o.withDefaults()
	if o.Consumer == "" {
		p.Consumers = nil
	}
	if o.NoAcks || p.Objects != nil {
		p.Acks = nil
	}
	h := &Handler{
		parts: p, options: o, log: log,
		closeSink:  func() error { return nil },
		processors: map[dedupe.Stream]*dedupe.Processor{},
	}
	_, err := dedupe.NewProcessor(p, h.settings(dedupe.Stream{Name: "any"})) // else each batch would fail
	if log == nil {
		err = errors.Join(err, errNoLog)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
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
// An error fails the invocation: Lambda delivers all of its records again, and bisects the batch where the event source
// mapping says so. The errors are
//   - ErrNoProgress and panics: smaller batches may get through;
//   - ErrConsumer, ErrLoop, dedupe.ErrOtherConsumer and dedupe.ErrWrongSetting: a setting is wrong, and each batch fails
//     until it is corrected;
//   - ErrNotKinesis, ErrManyShards, dedupe.ErrNotABatch and dedupe.ErrSharedSequence: this is not a batch of a shard.
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

// Answer makes the answer for Lambda: the first record that failed, or an empty list. If that record has no sequence
// number, its identifier is empty, which Lambda takes for a failure of the whole batch (Lambda Developer Guide,
// "Configuring partial batch response with Kinesis Data Streams and Lambda").
func Answer(result dedupe.Result) events.KinesisEventResponse {
	answer := events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{}}
	if result.Err != nil {
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
			i.stack, i.fault = panicked(p)
		}
	}()
	if i.batch, i.fault = decode(raw, h.options.Unaggregated); i.fault != nil || len(i.batch.Records) == 0 {
		return i
	}
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	p, err := h.processor(ctx, i.batch.Stream)
	if err != nil {
		i.fault = err
		return i
	}
	i.result = p.Process(ctx, i.batch)
	i.fault = faultOf(i.result, len(i.batch.Records))
	return i
}

// faultOf returns why an invocation fails as a whole. It is nil if the answer can say which records are to come again.
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

// panicked makes an error of a panic, and returns the stack at its place. The error repeats the text of a runtime error
// only: another text may hold data.
func panicked(p any) (stack []byte, err error) {
	stack = debug.Stack()
	if there, ok := p.(*dedupe.Panic); ok { // in the goroutine of the overlap
		p, stack = there.Value, there.Stack
	}
	if err, ok := p.(interface {
		error
		RuntimeError()
	}); ok {
		return stack, fmt.Errorf("kinesishandler: panic: %w", err)
	}
	return stack, fmt.Errorf("kinesishandler: panic with a %T", p)
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
	h.warm(ctx, stream, s)
	h.processors[stream] = p
	return p, nil
}

// warm prepares the ledger for the first batch of a stream. The batch goes on without it.
func (h *Handler) warm(ctx context.Context, stream dedupe.Stream, s dedupe.Settings) {
	w, ok := h.parts.Ledger.(dedupe.Warmer)
	if !ok {
		return
	}
	if err := w.Warm(ctx, s.Scope, s.Retention); err != nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "the ledger was not warmed", slog.String(requestid.Key, requestid.Of(ctx)),
			slog.String("stream", stream.String()), slog.String("error", err.Error()))
	}
}

func (h *Handler) settings(stream dedupe.Stream) dedupe.Settings {
	o := h.options
	return dedupe.Settings{
		Scope: cmp.Or(o.Scope, stream.Name), Retention: o.Retention, PassNatural: o.PassNatural,
		PassSynthetic: o.PassSynthetic, Derive: o.Derive, Unaggregated: o.Unaggregated, PoisonLimit: o.PoisonLimit,
		Sink: o.Sink.String(), Consumer: o.Consumer, Chunk: o.Chunk, Clock: o.Clock,
	}
}

// report writes the log line of an invocation: an error if something failed; a warning if there are dead letters,
// records past the horizon, or acks that could not be read or written.
func (h *Handler) report(ctx context.Context, i invocation, took time.Duration) {
	r, t := i.result, i.result.Tally
	level := slog.LevelInfo
	if t.DeadLettered > 0 || t.PastHorizon > 0 || r.AckErr != nil {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String(requestid.Key, requestid.Of(ctx)),
		slog.String("stream", streamOf(i.batch)), slog.String("shard", i.batch.Shard),
		slog.Int("records", len(i.batch.Records)),
		slog.Int64("in", t.In), slog.Int64("new", t.New), slog.Int64("retry", t.Retry), slog.Int64("natural", t.Natural),
		slog.Int64("synthetic", t.Synthetic), slog.Int64("dead_lettered", t.DeadLettered), slog.Int64("skipped", t.Skipped),
		slog.Int64("failed", t.Failed), slog.Int64("out", t.Out), slog.Int64("repeated", t.Repeated),
		slog.Int64("superseded", t.Superseded),
		slog.Int64("past_horizon", t.PastHorizon),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000),
	}
	if len(r.Reasons) > 0 {
		attrs = append(attrs, slog.Any("reasons", r.Reasons))
	}
	if r.AckErr != nil {
		attrs = append(attrs, slog.String("ack_error", r.AckErr.Error()))
	}
	if err := cmp.Or(i.fault, r.Err); err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.String("failed_sequence", r.Failed), slog.String("error", err.Error()))
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
