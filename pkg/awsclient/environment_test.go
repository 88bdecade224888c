package awsclient_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/awsclient"
)

// settings are the settings of clients that variables can change.
type settings struct {
	key, secret, token, region string
	endpoints                  [4]string // DynamoDB, Kinesis, S3, SQS
	fips, dualStack            [4]int
}

func settingsOf(t *testing.T, load awsclient.Loader) (s settings) {
	t.Helper()
	cfg, err := load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := cfg.Credentials.Retrieve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.key, s.secret, s.token, s.region = keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken, cfg.Region
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	d, k, b, q := dynamodb.NewFromConfig(cfg).Options(), kinesis.NewFromConfig(cfg).Options(), s3.NewFromConfig(cfg).Options(), sqs.NewFromConfig(cfg).Options()
	s.endpoints = [4]string{text(d.BaseEndpoint), text(k.BaseEndpoint), text(b.BaseEndpoint), text(q.BaseEndpoint)}
	s.fips = [4]int{
		int(d.EndpointOptions.UseFIPSEndpoint), int(k.EndpointOptions.UseFIPSEndpoint),
		int(b.EndpointOptions.UseFIPSEndpoint), int(q.EndpointOptions.UseFIPSEndpoint),
	}
	s.dualStack = [4]int{
		int(d.EndpointOptions.UseDualStackEndpoint), int(k.EndpointOptions.UseDualStackEndpoint),
		int(b.EndpointOptions.UseDualStackEndpoint), int(q.EndpointOptions.UseDualStackEndpoint),
	}
	return s
}

// TestEnvironmentReadsAsTheSDKDoes compares the functions' reading of variables
// with the SDK's own.
func TestEnvironmentReadsAsTheSDKDoes(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"as Lambda sets them": nil,
		"no session":          {"AWS_SESSION_TOKEN": ""},
		"one endpoint":        {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"},
		"endpoints of services": {
			"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ENDPOINT_URL_DYNAMODB": "http://127.0.0.1:2",
			"AWS_ENDPOINT_URL_S3":      "http://127.0.0.1:3",
			"AWS_ENDPOINT_URL_KINESIS": "http://127.0.0.1:4", "AWS_ENDPOINT_URL_SQS": "http://127.0.0.1:5",
		},
		"endpoints that do not count": {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "true"},
		"FIPS":                        {"AWS_USE_FIPS_ENDPOINT": "true"},
		"dual stack":                  {"AWS_USE_DUALSTACK_ENDPOINT": "TRUE"},
		"neither":                     {"AWS_USE_FIPS_ENDPOINT": "false", "AWS_USE_DUALSTACK_ENDPOINT": "False"},
	} {
		t.Run(name, func(t *testing.T) {
			lambdas(t)
			for name, value := range variables {
				t.Setenv(name, value)
			}
			got, want := settingsOf(t, awsclient.FromEnvironment), settingsOf(t, sdkconfig.Load)
			if got != want {
				t.Errorf("want %+v\n got %+v", want, got)
			}
			if got.key != "key" || got.region != "eu-west-1" {
				t.Errorf("nothing was read: %+v", got)
			}
		})
	}
}

// lambdas sets the environment that Lambda sets.
func lambdas(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
		"AWS_SESSION_TOKEN": "token",
		"AWS_ENDPOINT_URL":  "", "AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
}

func TestLoadSaysWhatIsMissing(t *testing.T) {
	for variable, value := range map[string]string{
		"AWS_REGION": "", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_USE_FIPS_ENDPOINT": "yes",
		"AWS_USE_DUALSTACK_ENDPOINT": "1",
	} {
		t.Run(variable, func(t *testing.T) {
			lambdas(t)
			t.Setenv(variable, value)
			if _, err := awsclient.NewDynamoDB(t.Context(), awsclient.FromEnvironment); err == nil ||
				!strings.Contains(err.Error(), variable) {
				t.Errorf("want an error that names %s, got %v", variable, err)
			}
		})
	}
}
