package kinesishandler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
)

// Store is the part of an engine that the handler uses. NewStore makes the one that the options name; Stores combines
// two engines.
type Store interface {
	dedupe.Ledger
	dedupe.Acks
	dedupe.Consumers
}

// Open makes a Handler with the sink and the dead-letter store of the options. store is made by NewStore, or may be
// another one if the options name the ledger with one row for each key. load loads the AWS settings of the clients:
// awsclient.FromEnvironment in a Lambda function, or a loader of the SDK. Open opens files and folders, and its error
// names those that cannot be used. It sends no request to AWS: a wrong stream, bucket or queue fails with the first
// records. Close the Handler after use.
func Open(
	ctx context.Context, load func(context.Context) (aws.Config, error), store Store, o Options, log *slog.Logger,
) (*Handler, error) {
	if _, several := store.(Stores); !several && o.Ledger != (LedgerSetting{}) {
		return nil, errOtherLedger
	}
	deadLetters, err := deadletter.Open(ctx, load, o.DeadLetterStore, o.NotifyQueueURL, unsent(log))
	parts := dedupe.Parts{Ledger: ledgerOf(store), DeadLetters: deadLetters, Acks: store, Consumers: store}
	closeSink, sinkErr := openSink(ctx, load, store, o, log, &parts)
	if err = errors.Join(err, sinkErr); err != nil {
		return nil, errors.Join(err, closeSink())
	}
	h, err := New(parts, o, log)
	if err != nil {
		return nil, errors.Join(err, closeSink())
	}
	h.closeSink = closeSink
	return h, nil
}

// openSink adds the sink of the options to the parts.
func openSink(
	ctx context.Context, load func(context.Context) (aws.Config, error), store Store, o Options, log *slog.Logger,
	p *dedupe.Parts,
) (closeSink func() error, err error) {
	nothing := func() error { return nil }
	if o.Sink.File != "" {
		sink, err := ndjsonsink.Open(o.Sink.File)
		if err != nil {
			return nothing, err
		}
		p.Sink = sink
		return sink.Close, nil
	}
	switch {
	case o.Sink.Table != "":
		p.Ledger = nil // the sink has the entries
		p.Tx, err = openTable(store, o)
	case o.Sink.Firehose != "":
		p.Sink, err = openFirehose(ctx, load, o)
	case o.Sink.Queue != "":
		p.Sink, err = openQueue(ctx, load, o)
	case o.Sink.Bucket != "":
		p.Acks = nil // the objects show which records are done
		p.Objects, err = openObjects(ctx, load, o)
	default:
		p.Sink, err = openStream(ctx, load, o, log)
	}
	return nothing, err
}

func openStream(
	ctx context.Context, load func(context.Context) (aws.Config, error), o Options, log *slog.Logger,
) (dedupe.Sink, error) {
	client, err := kinesissink.NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return kinesissink.New(client, o.Sink.Stream,
		kinesissink.WithAggregation(cmp.Or(o.SinkAggregation, kinesissink.AggregateAuto)),
		kinesissink.WithMaxRecord(cmp.Or(o.SinkMaxRecord, kinesissink.DefaultMaxRecord)),
		kinesissink.WithFallback(unaggregated(log)))
}

// unaggregated logs that the sink cannot make aggregates.
func unaggregated(log *slog.Logger) func(error) {
	return func(err error) {
		log.Warn("records are sent without aggregation", "error", err.Error())
	}
}

// unsent returns a function that logs a dead letter that is stored but has no notification.
func unsent(log *slog.Logger) func(deadletter.Notification, error) {
	return func(n deadletter.Notification, err error) {
		log.Warn("no notification was sent", "object", n.Place, "owner", n.Owner, "reason", n.Reason, "error", err.Error())
	}
}

// Close closes everything that Open has opened. For a Handler of New it does nothing. Do not use the Handler after
// Close.
func (h *Handler) Close() error { return h.closeSink() }
