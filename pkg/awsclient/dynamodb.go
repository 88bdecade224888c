package awsclient

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
)

// The time-outs of a request to DynamoDB.
const (
	ConnectTimeout = awsconfig.ConnectTimeout // for a connection; it is part of the attempt
	AttemptTimeout = 3 * time.Second
	MaxAttempts    = 3

	// The pause between two attempts is a random time between MinBackoff and MaxBackoff.
	MinBackoff = MaxBackoff / 2
	MaxBackoff = 500 * time.Millisecond
)

// idleConnections is how many idle connections a client keeps. The SDK keeps 10.
const idleConnections = 100

// ErrSettings means that the AWS settings are incomplete or wrong. The text of the error names the variable to set.
var ErrSettings = awsconfig.ErrSettings

// Loader loads region, credentials and endpoints.
type Loader = func(context.Context) (aws.Config, error)

// NewDynamoDB makes a DynamoDB client with the time-outs of this package. AWS_ENDPOINT_URL_DYNAMODB or
// AWS_ENDPOINT_URL can name another endpoint, such as a local engine. NewDynamoDB sends no request. Its error is
// ErrSettings. Make one client for each process: it is safe for concurrent use, and its connections are reused.
func NewDynamoDB(ctx context.Context, load Loader) (*dynamodb.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, AttemptTimeout, func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	})
	if err != nil {
		return nil, err
	}
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.Backoff = MaxAttempts, retry.BackoffDelayerFunc(backoff)
		})
	}
	return dynamodb.NewFromConfig(cfg), nil
}

// backoff returns the pause before the next attempt. It is random, so that clients that were throttled together do not
// come back together. The SDK's own backoff (retry.ExponentialJitterBackoff) is not used: with a maximum below a
// second, all of its pauses are exactly that long. A pause is at least half of the maximum, which gives a throttled
// partition time. It does not grow with the attempts, because there are few.
func backoff(int, error) (time.Duration, error) {
	return MinBackoff + rand.N(MaxBackoff-MinBackoff+1), nil //nolint:gosec // spreads retries; no secret
}
