package kinesishandler

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
)

// Open makes a Handler with the sink and the dead-letter store of the options. load loads the AWS settings of their
// clients: awsclient.FromEnvironment in a Lambda function, or a loader of the SDK. Open opens files and folders, and
// its error names those that cannot be used. It makes no request to AWS: a wrong stream, bucket or queue shows with the
// first records. Close the Handler after use.
func Open(
	ctx context.Context, load func(context.Context) (aws.Config, error), store Store, o Options, log *slog.Logger,
) (*Handler, error) {
	h := New(store, nil, nil, o, log)
	deadLetters, err := deadletter.Open(ctx, load, o.DeadLetterStore, o.NotifyQueueURL, h.unsent)
	if err = errors.Join(err, h.openSink(ctx, load)); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.deadLetters = deadLetters
	return h, nil
}

func (h *Handler) openSink(ctx context.Context, load func(context.Context) (aws.Config, error)) error {
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

// unsent logs a dead letter that is stored and has no notification.
func (h *Handler) unsent(n deadletter.Notification, err error) {
	h.log.Warn("no notification was sent", "object", n.Place, "owner", n.Owner, "reason", n.Reason, "error", err.Error())
}

// Close closes what Open has opened. It does nothing for a Handler of New. The Handler cannot be used after Close.
func (h *Handler) Close() error { return h.closeSink() }
