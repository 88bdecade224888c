package awsclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// FromEnvironment is the Loader of a Lambda function. It reads the variables that Lambda sets, and variables that a
// deployment may add, under the SDK's names (AWS SDKs and Tools Reference Guide, "Settings reference"):
//
//   - AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
//   - AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_<SERVICE> and AWS_IGNORE_CONFIGURED_ENDPOINT_URLS
//   - AWS_USE_FIPS_ENDPOINT and AWS_USE_DUALSTACK_ENDPOINT
//
// It reads no other variables of the SDK, no profiles and no files.
func FromEnvironment(context.Context) (aws.Config, error) {
	keys := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "environment",
	}
	if !keys.HasKeys() {
		return aws.Config{}, errors.New(
			"no credentials: AWS_ACCESS_KEY_ID or AWS_SECRET_ACCESS_KEY is not set; Lambda sets both")
	}
	switches, err := readSwitches()
	if err != nil {
		return aws.Config{}, err
	}
	cfg := aws.Config{
		Region:        os.Getenv("AWS_REGION"),
		Credentials:   aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return keys, nil }),
		ConfigSources: []any{switches},
	}
	if endpoint := os.Getenv("AWS_ENDPOINT_URL"); endpoint != "" && !switches[ignoreEndpoints] {
		cfg.BaseEndpoint = &endpoint
	}
	return cfg, nil
}

// The variables that are true, false or not set.
const (
	ignoreEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
	useFIPS         = "AWS_USE_FIPS_ENDPOINT"
	useDualStack    = "AWS_USE_DUALSTACK_ENDPOINT"
)

// environment is a configuration source of the SDK: the service clients read their settings from it. It has the
// true-or-false variables that are set.
type environment map[string]bool

func readSwitches() (environment, error) {
	switches := environment{}
	for _, name := range []string{ignoreEndpoints, useFIPS, useDualStack} {
		switch value := os.Getenv(name); {
		case strings.EqualFold(value, "true"):
			switches[name] = true
		case strings.EqualFold(value, "false"):
			switches[name] = false
		case value != "":
			return nil, fmt.Errorf("%s must be true or false", name)
		}
	}
	return switches, nil
}

// GetIgnoreConfiguredEndpoints reports whether the endpoint variables are ignored.
func (e environment) GetIgnoreConfiguredEndpoints(context.Context) (value, found bool, err error) {
	value, found = e[ignoreEndpoints]
	return value, found, nil
}

// GetServiceBaseEndpoint returns the endpoint of one service. sdkID is the SDK's id of the service.
func (environment) GetServiceBaseEndpoint(_ context.Context, sdkID string) (endpoint string, found bool, err error) {
	endpoint = os.Getenv("AWS_ENDPOINT_URL_" + strings.ToUpper(strings.ReplaceAll(sdkID, " ", "_")))
	return endpoint, endpoint != "", nil
}

// GetUseFIPSEndpoint reports whether to use endpoints with validated cryptography.
func (e environment) GetUseFIPSEndpoint(context.Context) (value aws.FIPSEndpointState, found bool, err error) {
	on, found := e[useFIPS]
	if value = aws.FIPSEndpointStateDisabled; on {
		value = aws.FIPSEndpointStateEnabled
	}
	return value, found, nil
}

// GetUseDualStackEndpoint reports whether to use endpoints with IPv6.
func (e environment) GetUseDualStackEndpoint(
	context.Context,
) (value aws.DualStackEndpointState, found bool, err error) {
	on, found := e[useDualStack]
	if value = aws.DualStackEndpointStateDisabled; on {
		value = aws.DualStackEndpointStateEnabled
	}
	return value, found, nil
}
