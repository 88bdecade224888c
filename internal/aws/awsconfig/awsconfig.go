// Package awsconfig gives every AWS client of this module its time-outs and its logger.
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

// ConnectTimeout limits the wait for a connection, in each attempt of a request.
const ConnectTimeout = 1 * time.Second

// ErrSettings means that the AWS settings are incomplete or wrong.
var ErrSettings = errors.New("AWS settings")

// Load loads the settings of a client whose requests may take attemptTimeout for each attempt. load is
// awsclient.FromEnvironment or a loader of the SDK. transport changes the HTTP transport. If it is nil, the SDK's
// transport is unchanged.
func Load(
	ctx context.Context, load func(context.Context) (aws.Config, error),
	attemptTimeout time.Duration, transport func(*http.Transport),
) (aws.Config, error) {
	cfg, err := load(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("%w: %w", ErrSettings, err)
	}
	if cfg.Region == "" {
		return aws.Config{}, fmt.Errorf("%w: no region; set AWS_REGION, or a profile that has a region", ErrSettings)
	}
	client := awshttp.NewBuildableClient().
		WithTimeout(attemptTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = ConnectTimeout })
	if transport != nil {
		client = client.WithTransportOptions(transport)
	}
	cfg.HTTPClient = client
	cfg.Logger = loggerOf(cfg.Logger)
	return cfg, nil
}
