package kinesissink

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
)

// attemptTimeout limits one request: 10 MiB take 2 s at 50 Mbit/s.
const attemptTimeout = 10 * time.Second

// NewClient makes a Kinesis client whose requests take at most 10 s. load loads the AWS settings:
// awsclient.FromEnvironment, or a loader of the SDK. The client does not retry, because the sink retries, which knows
// which records may be in the stream twice. Make one client for each process.
func NewClient(ctx context.Context, load func(context.Context) (aws.Config, error)) (*kinesis.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, attemptTimeout, nil)
	if err != nil {
		return nil, err
	}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return kinesis.NewFromConfig(cfg), nil
}
