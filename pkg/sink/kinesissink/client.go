package kinesissink

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
)

// Time-outs of one request: 10 MiB take 2 s at 50 Mbit/s.
const (
	connectTimeout = 1 * time.Second
	attemptTimeout = 10 * time.Second
)

// NewClient makes a Kinesis client from the SDK's own settings: region,
// credentials, profile, and AWS_ENDPOINT_URL_KINESIS or AWS_ENDPOINT_URL for
// another endpoint than AWS's. It does not retry: the sink does, and knows what
// may be in the stream twice. Make one per process.
func NewClient(ctx context.Context) (*kinesis.Client, error) {
	cfg, err := config.LoadDefaultConfig(ctx,
		config.WithHTTPClient(awshttp.NewBuildableClient().
			WithTimeout(attemptTimeout).
			WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })),
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }))
	if err != nil {
		return nil, fmt.Errorf("AWS settings: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("AWS settings: no region; set AWS_REGION or a profile that has one")
	}
	return kinesis.NewFromConfig(cfg), nil
}
