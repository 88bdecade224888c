package recordhandler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/deadline"
	"github.com/oncebox/oncebox/internal/emf"
	"github.com/oncebox/oncebox/internal/requestid"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrLoop means that the sink is the stream that the records come from. With ONCEBOX_NATURAL=off, records would
// circulate for ever.
var ErrLoop = errors.New(
	"recordhandler: the sink is the source stream, or has the same name; choose another stream as the sink")

// ErrNoProgress means that the first of several records of a batch is not done. If an answer names this record,
// Lambda may retry the whole batch unchanged: it "retries only the remaining records". Lambda certainly bisects the
// batch only if the invocation fails (Lambda Developer Guide, "Configuring partial batch response with Kinesis Data
// Streams and Lambda").
var ErrNoProgress = errors.New("recordhandler: the first record of the batch is not done")

// checkScope refuses a scope that is or has the folder of the markers of dead letters, as logs:/aws/done has: if the
// letters have their scope as a folder, as in the stack, they would count as markers.
func checkScope(scope string) error {
	if !slices.Contains(strings.Split(scope, "/"), scopeOfMarkers) {
		return nil
	}
	return fmt.Errorf("recordhandler: the scope %q has %q, the name of the folder in which done dead letters are marked; "+
		"set ONCEBOX_SCOPE to another name", scope, scopeOfMarkers)
}

var errNoLog = errors.New("recordhandler: the log is nil")

// Handler passes batches of Kinesis records to a sink. It is safe for concurrent use.
type Handler struct {
	parts   dedupe.Parts
	options Options
	log     *slog.Logger
	counted counted   // the ledger, if it is a log ledger; otherwise nil
	metrics *emf.Line // nil: no metrics

	closeSink  func() error
	mu         sync.Mutex
	processors map[dedupe.Stream]*dedupe.Processor
}

// New makes a Handler from parts. If the parts have no Format or no Framing, it takes that of the options. Of the
// options about the sink and the dead-letter store it uses only Sink: acks are stored under the sink's name, and the
// sink must not be the source. The log gets one line for each invocation.
//
// The error lists the parts and options that are missing or wrong.
func New(p dedupe.Parts, o Options, log *slog.Logger) (*Handler, error) {
	if p.Format == nil {
		p.Format = o.Format
	}
	if p.Framing == nil {
		p.Framing = o.Framing
	}
	o = o.withDefaults()
	if o.Consumer == "" {
		p.Consumers = nil
	}
	if o.NoAcks || p.Objects != nil {
		p.Acks = nil
	}
	h := &Handler{
		parts: p, options: o, log: log, metrics: emf.New(o.Metrics, metrics),
		closeSink:  func() error { return nil },
		processors: map[dedupe.Stream]*dedupe.Processor{},
	}
	h.counted, _ = p.Ledger.(counted)
	_, err := dedupe.NewProcessor(p, h.settings("any")) // otherwise each batch would fail
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
	sources []source
	result  dedupe.Result // of all batches
	fault   error         // of the invocation as a whole
	stack   []byte        // of a panic
	ledger  []slog.Attr   // the counts of a log ledger
	clamped int64         // messages of CloudWatch Logs whose arrival was changed
}

// Handle processes one event. The answer lists the records that Lambda must deliver again, if there are any: the
// sequence number of the first record of a stream that failed, or the ids of all messages of a queue that are not
// done. It is safe to handle an event again at any time.
//
// An error fails the invocation: Lambda delivers all of its records again, and bisects the batch if the event source
// mapping says so. The errors are
//   - ErrNoProgress and panics: smaller batches may get through;
//   - ErrConsumer, ErrLoop, dedupe.ErrOtherConsumer, dedupe.ErrOtherLedger and dedupe.ErrWrongSetting: a setting is
//     wrong, and each batch fails until it is corrected. For a queue, dedupe.ErrWrongSetting is only in the log: the
//     answer lists the messages that are not done, and those that the sink has taken do not come again;
//   - ErrNotKinesis, ErrManyShards, dedupe.ErrNotABatch and dedupe.ErrSharedSequence: this is not a batch of a source;
//   - every error, for a message of CloudWatch Logs: no answer can name its log events.
func (h *Handler) Handle(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
	result, err := h.Process(ctx, raw)
	if err != nil {
		return events.KinesisEventResponse{}, err
	}
	return Answer(result), nil
}

// Process is Handle for callers that need the result.
func (h *Handler) Process(ctx context.Context, raw json.RawMessage) (dedupe.Result, error) {
	begun, done := time.Now(), h.countLedger()
	i := h.invoke(ctx, raw)
	i.ledger = done()
	h.report(ctx, i, begun)
	return i.result, i.fault
}

// Answer makes the answer for Lambda: all messages of a queue that are not done, the first record of a stream that
// failed, or an empty list. If that record has no sequence number, its identifier is empty, which means for Lambda
// that the whole batch failed (Lambda Developer Guide, "Configuring partial batch response with Kinesis Data Streams
// and Lambda"). The answers of all event source mappings have this form.
func Answer(result dedupe.Result) events.KinesisEventResponse {
	answer := events.KinesisEventResponse{BatchItemFailures: []events.KinesisBatchItemFailure{}}
	undone := result.Undone
	if result.Err != nil && len(undone) == 0 {
		undone = []string{result.Failed}
	}
	for _, id := range undone {
		answer.BatchItemFailures = append(answer.BatchItemFailures, events.KinesisBatchItemFailure{ItemIdentifier: id})
	}
	return answer
}

// Invoke implements lambda.Handler. For a handler of another type, the Lambda runtime first decodes the event with
// encoding/json, which takes longer than this package's decode.
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
	if i.sources, i.fault = decodeEvent(raw, h.options.Unaggregated); i.fault != nil {
		return i
	}
	i.clamped = setArrivals(i.sources, h.options.Clock.OrReal().Now(), h.options.Retention)
	ctx, cancel := deadline.WithMargin(ctx)
	defer cancel()
	for _, s := range i.sources {
		result, fault := h.process(ctx, s)
		i.result, i.fault = merge(i.result, result), cmp.Or(i.fault, fault)
	}
	return i
}

// process takes a batch through its Processor.
func (h *Handler) process(ctx context.Context, s source) (result dedupe.Result, fault error) {
	p, err := h.processor(ctx, s)
	if err != nil {
		return dedupe.Result{}, err
	}
	result = p.Process(ctx, s.batch)
	if result.Err == nil {
		return result, nil
	}
	if s.identifiers != nil {
		result.Failed = s.identifiers[result.Done]
	}
	if s.queue && s.batch.Order == dedupe.AsGiven {
		result.Undone = fromFailed(s.batch.Records, result.Done)
	}
	return result, faultOf(result, s)
}

// fromFailed returns the failed message and all behind it, which wait for it. A message that is in the batch several
// times is named once, and not at all if it is done.
func fromFailed(messages []dedupe.Record, done int) (undone []string) {
	seen := map[string]bool{}
	for i, m := range messages {
		if i >= done && !seen[m.Sequence] {
			undone = append(undone, m.Sequence)
		}
		seen[m.Sequence] = true
	}
	return undone
}

// faultOf returns why the whole invocation fails. It is nil if the answer can name the records that must come again.
func faultOf(r dedupe.Result, s source) error {
	for _, stays := range []error{
		dedupe.ErrSharedSequence, dedupe.ErrNotABatch, dedupe.ErrOtherConsumer, dedupe.ErrOtherLedger,
	} {
		if errors.Is(r.Err, stays) {
			return r.Err
		}
	}
	switch {
	case s.queue:
		return nil
	case s.logs, errors.Is(r.Err, dedupe.ErrWrongSetting):
		return r.Err
	case r.Done == 0 && len(s.batch.Records) > 1:
		return fmt.Errorf("%w: %w", ErrNoProgress, r.Err)
	}
	return nil
}

// merge merges the results of two batches of an event.
func merge(a, b dedupe.Result) dedupe.Result {
	if a.Err == nil {
		a.Err, a.Failed = b.Err, b.Failed
	}
	a.Done += b.Done
	a.Undone = append(a.Undone, b.Undone...)
	a.AckErr = cmp.Or(a.AckErr, b.AckErr)
	a.Tally.Add(b.Tally)
	a.LedgerTime += b.LedgerTime
	a.SinkTime += b.SinkTime
	for reason, n := range b.Reasons {
		if a.Reasons == nil {
			a.Reasons = map[string]int64{}
		}
		a.Reasons[reason] += n
	}
	return a
}

// panicked makes an error from a panic, and returns the stack of the panic. The error repeats only the text of a
// runtime error, because other texts may contain data.
func panicked(p any) (stack []byte, err error) {
	stack = debug.Stack()
	if there, ok := p.(*dedupe.Panic); ok { // it was in another goroutine
		p, stack = there.Value, there.Stack
	}
	if err, ok := p.(interface {
		error
		RuntimeError()
	}); ok {
		return stack, fmt.Errorf("recordhandler: panic: %w", err)
	}
	return stack, fmt.Errorf("recordhandler: panic with a %T", p)
}

// processor returns the Processor of a source. Each source has its own, because the default scope is the source's
// name.
func (h *Handler) processor(ctx context.Context, from source) (*dedupe.Processor, error) {
	stream := from.batch.Stream
	if h.options.Sink.isSource(ctx, stream) {
		return nil, ErrLoop
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if p, ok := h.processors[stream]; ok {
		return p, nil
	}
	s, parts := h.settings(from.scope()), h.parts
	if err := checkScope(s.Scope); err != nil {
		return nil, err
	}
	if from.shared {
		parts.Consumers = nil
	}
	if from.logs {
		parts.Framing = h.options.framingOfLogs()
	}
	p, err := dedupe.NewProcessor(parts, s)
	if err != nil {
		return nil, err
	}
	h.warm(ctx, stream, s)
	h.processors[stream] = p
	return p, nil
}

// warm prepares the ledger for the first batch of a stream. If that fails, the batch goes on.
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

func (h *Handler) settings(scope string) dedupe.Settings {
	o := h.options
	return dedupe.Settings{
		Scope: cmp.Or(o.Scope, scope), Retention: o.Retention, PassNatural: o.PassNatural,
		PassSynthetic: o.PassSynthetic, Derive: o.Derive, Unaggregated: o.Unaggregated, PoisonLimit: o.PoisonLimit,
		Sink: o.Sink.String(), Consumer: o.Consumer, Chunk: o.Chunk, OpenedBytes: o.OpenedBytes, Clock: o.Clock,
		Transactions: o.Concurrency,
		WholeBatch:   h.counted != nil, // each call of a log ledger appends an item to each lane
	}
}

// report writes the log line of an invocation. Its level is error if something failed, and warning if there are dead
// letters, records past the horizon, or acks that could not be read or written.
func (h *Handler) report(ctx context.Context, i invocation, begun time.Time) {
	r, t := i.result, i.result.Tally
	level := slog.LevelInfo
	if t.DeadLettered > 0 || t.PastHorizon > 0 || r.AckErr != nil {
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{
		slog.String(requestid.Key, requestid.Of(ctx)),
		slog.String("stream", i.stream()), slog.String("shard", i.shard()), slog.Int("records", i.records()),
		slog.Int64("in", t.In), slog.Int64("new", t.New), slog.Int64("retry", t.Retry), slog.Int64("natural", t.Natural),
		slog.Int64("synthetic", t.Synthetic), slog.Int64("dead_lettered", t.DeadLettered), slog.Int64("skipped", t.Skipped),
		slog.Int64("failed", t.Failed), slog.Int64("out", t.Out), slog.Int64("repeated", t.Repeated),
		slog.Int64("superseded", t.Superseded),
		slog.Int64("past_horizon", t.PastHorizon), slog.Int64("clamped", i.clamped),
		slog.Float64("duration_ms", emf.Milli(time.Since(begun))),
	}
	attrs = append(attrs, i.ledger...)
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
	h.metrics.Log(ctx, h.log, level, "batch", attrs, h.numbers(i, begun))
}

// stream returns the first source of the event, or "".
func (i invocation) stream() string {
	if len(i.sources) == 0 {
		return ""
	}
	return i.sources[0].batch.Stream.String()
}

func (i invocation) shard() string {
	if len(i.sources) == 0 {
		return ""
	}
	return i.sources[0].batch.Shard
}

func (i invocation) records() (n int) {
	for _, s := range i.sources {
		n += len(s.batch.Records)
	}
	return n
}
