package recordhandler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// invocation is one event while it is handled.
type invocation struct {
	sources []source
	result  dedupe.Result // of all batches
	fault   error         // of the invocation as a whole
	stack   []byte        // of a panic
	ledger  []slog.Attr   // the counts of a log ledger
	clamped int64         // messages of CloudWatch Logs whose arrival was changed
}

// report writes the log line of an invocation. Its level is error if something failed, and warning if there are dead
// letters, records past the horizon, acks that could not be read or written, or messages in progress elsewhere.
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
		if level = slog.LevelError; errors.Is(err, dedupe.ErrInWork) {
			level = slog.LevelWarn
		}
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
