package firehosesink

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/firehose"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
)

// attemptTimeout limits one request: 4 MiB take 1 s at 50 Mbit/s. It is long, as the API reference advises, because a
// repeated request may deliver its records twice.
const attemptTimeout = 10 * time.Second

// NewClient makes a Firehose client whose requests take at most 10 s. load loads the AWS settings:
// awsclient.FromEnvironment, or a loader of the SDK. The client does not retry, because the sink retries, which knows
// which records may be delivered twice. Make one client for each process.
func NewClient(ctx context.Context, load func(context.Context) (aws.Config, error)) (*firehose.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, attemptTimeout, nil)
	if err != nil {
		return nil, err
	}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return firehose.NewFromConfig(cfg), nil
}
