package recordhandler

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/records/firehoseaddress"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Clients open the sink and the ledger whose clients this package does not link: they would make each program larger and
// delay its start, and few programs use them. A program that needs them sets full.Clients. Without them, Open and
// NewStore refuse options that name such a sink or ledger.
type Clients struct {
	Firehose func(
		ctx context.Context, load func(context.Context) (aws.Config, error), c firehoseaddress.Config,
	) (dedupe.Sink, error)
	Valkey func(load func(context.Context) (aws.Config, error), o Options) (dedupe.Ledger, error)
}

// notLinked is the error about a setting whose client the program does not link.
func notLinked(setting, scheme string) error {
	return fmt.Errorf("%s is a %s address, and this program has no client for it; deploy dist/dedupe-full instead of "+
		"dist/dedupe (`make zip` builds both), or set Options.Clients to full.Clients in a program of your own", setting, scheme)
}
