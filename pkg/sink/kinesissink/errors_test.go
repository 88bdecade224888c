package kinesissink_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

func TestNewClient(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	if _, err := kinesissink.NewClient(t.Context(), sdkconfig.Load); err == nil ||
		!strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("no region: %v", err)
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"ResourceNotFoundException"}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_KINESIS", server.URL)
	client, err := kinesissink.NewClient(t.Context(), sdkconfig.Load)
	must(t, err)
	if n := client.Options().Retryer.MaxAttempts(); n != 1 {
		t.Errorf("the client tries %d times by itself", n)
	}
	sink, err := kinesissink.New(client, "nowhere")
	must(t, err)
	_, err = sink.Send(t.Context(), records(1))
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok || !strings.Contains(err.Error(), "check its name") {
		t.Errorf("want the error of the endpoint, got %v", err)
	}
}
