// Package dynamo is what the DynamoDB engines share: the client with its
// time-outs, and the one reading of its errors.
package dynamo

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/awsconfig"
)

// Time-outs of one request. Three attempts of them stay well below the 30 s
// that an API Gateway HTTP API waits for its integration.
const (
	attemptTimeout = 3 * time.Second
	maxAttempts    = 3
	maxBackoff     = 500 * time.Millisecond
)

// idleConnections is how many connections are kept for the next round of
// requests; the SDK keeps 10, and a ledger makes 32 requests at a time.
const idleConnections = 100

// NewClient makes a DynamoDB client from the SDK's settings: region, credentials,
// and AWS_ENDPOINT_URL_DYNAMODB or AWS_ENDPOINT_URL for another endpoint than AWS's.
// Make one per process.
func NewClient(ctx context.Context, load awsconfig.Loader) (*dynamodb.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, attemptTimeout, func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = idleConnections, idleConnections
	})
	if err != nil {
		return nil, err
	}
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = maxAttempts
			o.MaxBackoff = maxBackoff
		})
	}
	return dynamodb.NewFromConfig(cfg), nil
}

// Local reports whether the client talks to an endpoint of its own, such as a
// local engine, and not to an AWS account.
func Local(client *dynamodb.Client) bool { return client.Options().BaseEndpoint != nil }
