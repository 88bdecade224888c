package recordhandler

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/records/firehoseaddress"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Clients open the sink and the ledger whose clients this package does not link: they would make each program larger and
// delay its start, and few programs use them. A program that needs them sets full.Clients. With a nil field, Open and
// NewStore refuse options that name its sink or ledger.
//
// The settings of a Valkey ledger are in the package of its client, which the linker leaves out if nothing opens it.
type Clients struct {
	// Firehose opens the sink of a firehosesink.Config.
	Firehose func(
		ctx context.Context, load func(context.Context) (aws.Config, error), c firehoseaddress.Config,
	) (dedupe.Sink, error)
	// Valkey opens the ledger of Options.Ledger.Valkey, with the password in Options.Ledger.Secret.
	Valkey func(load func(context.Context) (aws.Config, error), o Options) (dedupe.Ledger, error)
}

// NeedsClients reports whether the options name a sink or a ledger that needs Clients.
func (o Options) NeedsClients() bool { return o.Sink.Firehose != nil || o.Ledger.Valkey != nil }

// notLinked is the error about a setting whose client the program does not link.
func notLinked(setting, scheme string) error {
	return fmt.Errorf("%s is a %s address, and this program has no client for it; deploy dist/dedupe-full instead of "+
		"dist/dedupe (`make zip` builds both), or set Options.Clients to full.Clients in a program of your own", setting, scheme)
}
