// Package sdkconfig loads AWS settings as the SDK does: from variables, files and
// profiles, with all ways of logging in. The functions do without it.
package sdkconfig

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
)

// Load is a loader for package awsconfig.
func Load(ctx context.Context) (aws.Config, error) { return config.LoadDefaultConfig(ctx) }
