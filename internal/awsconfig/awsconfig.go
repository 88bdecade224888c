// Package awsconfig gives every AWS client here its settings and its time-outs.
//
// Settings come from a Loader. The command line has the SDK's own, in package
// sdkconfig. A Lambda function has FromEnvironment: the SDK's loader brings clients
// of four more services for logging in, which take a quarter of the function's
// start and which it never uses (docs/benchmarks.md).
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
)

// connectTimeout bounds the wait for a connection, in any of a request's attempts.
const connectTimeout = 1 * time.Second

// ErrSettings says that the AWS settings of the environment are not enough.
var ErrSettings = errors.New("AWS settings")

// Loader loads region, credentials and endpoints. That of the SDK is one, with
// its options left out: config.LoadDefaultConfig.
type Loader = func(context.Context) (aws.Config, error)

// Load loads settings for clients whose requests take at most attemptTimeout an
// attempt. transport may change the transport; nil leaves the SDK's.
func Load(ctx context.Context, load Loader, attemptTimeout time.Duration, transport func(*http.Transport)) (aws.Config, error) {
	cfg, err := load(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if cfg.Region == "" {
		return aws.Config{}, fmt.Errorf("%w: no region; set AWS_REGION or a profile that has one", ErrSettings)
	}
	client := awshttp.NewBuildableClient().
		WithTimeout(attemptTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = connectTimeout })
	if transport != nil {
		client = client.WithTransportOptions(transport)
	}
	cfg.HTTPClient = client
	return cfg, nil
}
