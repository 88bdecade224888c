// Package sdkconfig loads AWS settings as the SDK does: from variables, files and profiles, with all ways to log in. The
// Lambda functions do not import it, since it makes their start slower (awsclient.FromEnvironment).
package sdkconfig

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Load is a loader for the clients of this module.
func Load(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }
