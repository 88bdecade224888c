package recordhandler

import (
	"context"
	"errors"
	"log/slog"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
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
	deadLetters, err := deadletter.Open(ctx, load, o.DeadLetterStore, unsent(log))
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

// unsent returns a function that logs a dead letter that is stored but has no notification.
func unsent(log *slog.Logger) func(deadletter.Notification, error) {
	return func(n deadletter.Notification, err error) {
		log.Warn("no notification was sent", "object", n.Place, "owner", n.Owner, "reason", n.Reason, "error", err.Error())
	}
}

// Close closes everything that Open has opened. For a Handler of New it does nothing. Do not use the Handler after
// Close.
func (h *Handler) Close() error { return h.closeSink() }
