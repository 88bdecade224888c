// Package full has the clients that package recordhandler does not link: those of Firehose, Valkey and Secrets Manager.
// They make a program 1.1 MB larger and its start a tenth longer. The function in functions/dedupe-full and the command
// line use them.
//
//	options, err := recordhandler.ParseOptions(os.Environ())
//	...
//	options.Clients = full.Clients
//	store, err := recordhandler.NewStore(ctx, awsclient.FromEnvironment, client, "oncebox-dedupe", options)
package full

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/aws/awssecret"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/valkeystore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
)

// Clients has all clients.
var Clients = recordhandler.Clients{Firehose: openFirehose, Valkey: openLedger}

func openFirehose(
	ctx context.Context, load func(context.Context) (aws.Config, error), c firehosesink.Config,
) (dedupe.Sink, error) {
	return firehosesink.Open(ctx, load, c)
}

func openLedger(load func(context.Context) (aws.Config, error), o recordhandler.Options) (dedupe.Ledger, error) {
	return OpenValkey(load, o)
}

// secretLife is how long a password that was read is used for further connections. A process opens many connections at
// once, and must soon use the new password after a rotation.
const secretLife = 10 * time.Second

// OpenValkey opens the Valkey ledger that the options name. load loads the AWS settings of the client of the secret, as
// for recordhandler.Open. OpenValkey sends no request. Close the ledger after use.
func OpenValkey(load func(context.Context) (aws.Config, error), o recordhandler.Options) (*valkeystore.Ledger, error) {
	servers := *o.Ledger.Valkey
	if o.Ledger.Secret != "" {
		secret := &awssecret.Secret[valkeystore.Credentials]{
			ARN: o.Ledger.Secret, Load: load, Life: secretLife, Now: o.Clock.OrReal().Now, Parse: valkeystore.ParseCredentials,
		}
		servers.Credentials = secret.Read
	}
	return valkeystore.Open(servers)
}
