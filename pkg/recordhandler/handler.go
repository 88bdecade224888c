package recordhandler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/deadline"
	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrLoop means that the sink is the stream that the records come from. With ONCEBOX_NATURAL=off, records would
// circulate for ever.
var ErrLoop = errors.New(
	"recordhandler: the sink is the source stream, or has the same name; choose another stream as the sink")

// ErrOwnChanges means that the records are the changes of the dedupe table. Each entry would be a change, and the function
// would run for ever.
var ErrOwnChanges = errors.New(
	"recordhandler: the source is the dedupe table, in which each entry is a change; choose another dedupe table")

// ErrNoProgress means that the first of several records of a batch is not done. If an answer names this record,
// Lambda may retry the whole batch unchanged: it "retries only the remaining records". Lambda certainly bisects the
// batch only if the invocation fails (Lambda Developer Guide, "Configuring partial batch response with Kinesis Data
// Streams and Lambda").
var ErrNoProgress = errors.New("recordhandler: the first record of the batch is not done")

var errNoLog = errors.New("recordhandler: the log is nil")

// Handler passes batches of records to a sink. It is safe for concurrent use.
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

// Invoke implements lambda.Handler. For a handler of another type, the Lambda runtime first decodes the event with
// encoding/json, which takes longer than this package's decode.
func (h *Handler) Invoke(ctx context.Context, event []byte) (answer []byte, err error) {
	response, err := h.Handle(ctx, event)
	if err != nil {
		return nil, err
	}
	return json.Marshal(response)
}

// Handle delivers the records of one event. The answer lists the records that Lambda must deliver again, if there are
// any: the sequence number of the first record of a stream that failed, or the ids of all messages of a queue that are
// not done. It is safe to handle an event again at any time.
//
// An error fails the invocation: Lambda delivers all of its records again, and bisects the batch if the event source
// mapping says so. The errors are
//   - ErrNoProgress and panics: smaller batches may get through;
//   - ErrConsumer, ErrLoop, ErrOwnChanges, dedupe.ErrOtherConsumer, dedupe.ErrOtherLedger, dedupe.ErrNoHolds and
//     dedupe.ErrWrongSetting: a setting is wrong, and each batch fails until it is corrected. For a queue,
//     dedupe.ErrWrongSetting is only in the log: the answer lists the messages that are not done, and a message that the
//     sink has taken does not come again;
//   - ErrNotKinesis, ErrManyShards, dedupe.ErrNotABatch and dedupe.ErrSharedSequence: this is not a batch of a source;
//   - every error, for a message of CloudWatch Logs: no answer can name its log events.
func (h *Handler) Handle(ctx context.Context, raw json.RawMessage) (events.KinesisEventResponse, error) {
	result, err := h.Deliver(ctx, raw)
	if err != nil {
		return events.KinesisEventResponse{}, err
	}
	return Answer(result), nil
}

// Deliver is Handle for callers that need the result. It writes the log line of the invocation.
func (h *Handler) Deliver(ctx context.Context, raw json.RawMessage) (dedupe.Result, error) {
	begun, done := time.Now(), h.countLedger()
	i := h.deliverEvent(ctx, raw)
	i.ledger = done()
	h.report(ctx, i, begun)
	return i.result, i.fault
}

// deliverEvent decodes an event, and delivers its batches one after the other.
func (h *Handler) deliverEvent(ctx context.Context, raw json.RawMessage) (i invocation) {
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
		result, fault := h.deliverBatch(ctx, s)
		i.result, i.fault = merge(i.result, result), cmp.Or(i.fault, fault)
	}
	return i
}

// deliverBatch takes a batch through its Processor, and says what the answer names, or why the invocation fails.
func (h *Handler) deliverBatch(ctx context.Context, s source) (result dedupe.Result, fault error) {
	p, err := h.processorOf(ctx, s)
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
	if s.batch.Queue && s.batch.Order == dedupe.AsGiven {
		result.Undone = fromFailed(s.batch.Records, result.Done)
	}
	return result, faultOf(result, s)
}

// processorOf returns the Processor of a source. Each source has its own, because the default scope is the source's
// name.
func (h *Handler) processorOf(ctx context.Context, from source) (*dedupe.Processor, error) {
	stream := from.batch.Stream
	if h.options.Sink.isSource(ctx, stream) {
		return nil, ErrLoop
	}
	if stream.Name == "dynamodb:"+h.options.DedupeTable && !isElsewhere(ctx, stream) {
		return nil, ErrOwnChanges
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
