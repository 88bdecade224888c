// Package awsconfig loads the AWS SDK's settings with the time-outs that every
// client here has.
package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

// connectTimeout bounds the wait for a connection, in any of a request's attempts.
const connectTimeout = 1 * time.Second

// ErrSettings says that the AWS settings of the environment are not enough.
var ErrSettings = errors.New("AWS settings")

// Load reads region, credentials, profile and endpoints from the SDK's own
// settings. One attempt of a request takes at most attemptTimeout. transport
// may change the transport; nil leaves the SDK's.
func Load(ctx context.Context, attemptTimeout time.Duration, transport func(*http.Transport)) (aws.Config, error) {
	client := awshttp.NewBuildableClient().
		WithTimeout(attemptTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
	if transport != nil {
		client = client.WithTransportOptions(transport)
	}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(client))
	if err != nil {
		return aws.Config{}, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if cfg.Region == "" {
		return aws.Config{}, fmt.Errorf("%w: no region; set AWS_REGION or a profile that has one", ErrSettings)
	}
	return cfg, nil
}
