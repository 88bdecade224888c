package sqssink

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
)

// attemptTimeout limits one request: 1 MiB takes 0.2 s at 50 Mbit/s.
const attemptTimeout = 5 * time.Second

// NewClient makes an SQS client whose requests take at most 5 s. load loads the AWS settings:
// awsclient.FromEnvironment, or a loader of the SDK. The client does not retry, because the sink retries, which knows
// which records may be in the queue twice. Make one client for each process.
func NewClient(ctx context.Context, load func(context.Context) (aws.Config, error)) (*sqs.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, attemptTimeout, nil)
	if err != nil {
		return nil, err
	}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return sqs.NewFromConfig(cfg), nil
}
