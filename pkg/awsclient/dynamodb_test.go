package awsclient_test

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/awsclient"
)

func TestNewDynamoDB(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "http://127.0.0.1:1")
	local, err := awsclient.NewDynamoDB(t.Context(), sdkconfig.Load)
	if err != nil || !dynamo.Local(local) {
		t.Errorf("want a client of a local endpoint, got %v", err)
	}
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", "")
	account, err := awsclient.NewDynamoDB(t.Context(), sdkconfig.Load)
	if err != nil || dynamo.Local(account) {
		t.Errorf("want a client of an account, got %v", err)
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", "none")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	if _, err := awsclient.NewDynamoDB(t.Context(), sdkconfig.Load); err == nil ||
		!strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("want an error that names AWS_REGION, got %v", err)
	}
}
