package awsconfig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// FromEnvironment loads what Lambda sets and what a deployment may add, by the
// SDK's names (AWS SDKs and Tools Reference Guide, "Settings reference"):
//
//   - AWS_REGION; AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN
//   - AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_<SERVICE> and AWS_IGNORE_CONFIGURED_ENDPOINT_URLS
//   - AWS_USE_FIPS_ENDPOINT and AWS_USE_DUALSTACK_ENDPOINT
//
// Others of the SDK's variables have no effect, and there are no profiles or files.
func FromEnvironment(context.Context) (aws.Config, error) {
	keys := aws.Credentials{
		AccessKeyID: os.Getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken: os.Getenv("AWS_SESSION_TOKEN"), Source: "environment",
	}
	if !keys.HasKeys() {
		return aws.Config{}, errors.New("no AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which Lambda sets")
	}
	switches := map[string]bool{}
	for _, name := range []string{noEndpoints, fips, dualStack} {
		switch value := os.Getenv(name); {
		case strings.EqualFold(value, "true"):
			switches[name] = true
		case strings.EqualFold(value, "false"):
			switches[name] = false
		case value != "":
			return aws.Config{}, fmt.Errorf("%s is neither true nor false", name)
		}
	}
	cfg := aws.Config{
		Region:        os.Getenv("AWS_REGION"),
		Credentials:   aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return keys, nil }),
		ConfigSources: []any{environment(switches)},
	}
	if endpoint := os.Getenv("AWS_ENDPOINT_URL"); endpoint != "" && !switches[noEndpoints] {
		cfg.BaseEndpoint = &endpoint
	}
	return cfg, nil
}

// The variables that are true, false or not set.
const (
	noEndpoints = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"
	fips        = "AWS_USE_FIPS_ENDPOINT"
	dualStack   = "AWS_USE_DUALSTACK_ENDPOINT"
)

// environment answers what the clients of services ask of the sources of their
// settings; it holds the switches that are set.
type environment map[string]bool

// GetIgnoreConfiguredEndpoints says whether variables of endpoints do not count.
func (e environment) GetIgnoreConfiguredEndpoints(context.Context) (value, found bool, err error) {
	value, found = e[noEndpoints]
	return value, found, nil
}

// GetServiceBaseEndpoint finds the endpoint of a service, by the name that the SDK
// has for it.
func (environment) GetServiceBaseEndpoint(_ context.Context, sdkID string) (endpoint string, found bool, err error) {
	endpoint = os.Getenv("AWS_ENDPOINT_URL_" + strings.ToUpper(strings.ReplaceAll(sdkID, " ", "_")))
	return endpoint, endpoint != "", nil
}

// GetUseFIPSEndpoint says whether endpoints with validated cryptography are asked for.
func (e environment) GetUseFIPSEndpoint(context.Context) (value aws.FIPSEndpointState, found bool, err error) {
	on, found := e[fips]
	if value = aws.FIPSEndpointStateDisabled; on {
		value = aws.FIPSEndpointStateEnabled
	}
	return value, found, nil
}

// GetUseDualStackEndpoint says whether endpoints with IPv6 are asked for.
func (e environment) GetUseDualStackEndpoint(context.Context) (value aws.DualStackEndpointState, found bool, err error) {
	on, found := e[dualStack]
	if value = aws.DualStackEndpointStateDisabled; on {
		value = aws.DualStackEndpointStateEnabled
	}
	return value, found, nil
}
