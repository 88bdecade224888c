package kinesishandler

import (
	"context"
	"errors"
	"log/slog"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
)

// Open makes a Handler over a store, with the sink and the failure store of the
// options, whose clients have the AWS settings that load brings. Files and folders are opened, and errors say which cannot be used;
// streams, buckets and queues are not asked: wrong names come to light with the
// first records. Close the Handler after use.
func Open(ctx context.Context, load deadletter.Loader, store Store, o Options, log *slog.Logger) (*Handler, error) {
	h := New(store, nil, nil, o, log)
	failures, err := deadletter.Open(ctx, load, o.DeadLetterStore, o.NotifyQueueURL, h.unsent)
	if err = errors.Join(err, h.openSink(ctx, load)); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.failures = failures
	return h, nil
}

func (h *Handler) openSink(ctx context.Context, load deadletter.Loader) error {
	if file := h.options.Sink.File; file != "" {
		sink, err := ndjsonsink.Open(file)
		if err == nil {
			h.sink, h.closeSink = sink, sink.Close
		}
		return err
	}
	client, err := kinesissink.NewClient(ctx, load)
	if err != nil {
		return err
	}
	repeated := func(records int) { h.repeated.Add(int64(records)) }
	h.sink, err = kinesissink.New(client, h.options.Sink.Stream, kinesissink.WithRepeated(repeated))
	return err
}

// unsent logs a record that is kept and that no message was sent about.
func (h *Handler) unsent(k deadletter.Notification, err error) {
	h.log.Warn("notifier not notified", "object", k.Place, "owner", k.Owner, "reason", k.Reason, "error", err.Error())
}

// Close closes what Open opened, and does nothing for a Handler that New made.
// The Handler cannot be used after it.
func (h *Handler) Close() error { return h.closeSink() }
