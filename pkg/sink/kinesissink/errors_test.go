package kinesissink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

func status(code int) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: errors.New("body"),
	}}
}

// TestTranslate: only transient failures get dedupe.ErrTryAgain.
func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		err      error
		tryAgain bool
	}{
		{"throughput exceeded", &types.ProvisionedThroughputExceededException{}, true},
		{"key service throttled", &types.KMSThrottlingException{}, true},
		{"internal failure", &types.InternalFailureException{}, true},
		{"server error", status(500), true},
		{"unavailable", status(503), true},
		{"unreadable reply", &smithy.DeserializationError{Err: errors.New("cut")}, true},
		{"connection refused", &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true},
		{"not sent", &smithyhttp.RequestSendError{Err: errors.New("reset")}, true},
		{"no retries left in the budget", fmt.Errorf("attempt: %w", ratelimit.QuotaExceededError{}), true},
		{"deadline", context.DeadlineExceeded, true},
		{"cancelled", context.Canceled, false},
		{"cancelled on the way", &smithyhttp.RequestSendError{Err: context.Canceled}, false},
		{"stream missing", &types.ResourceNotFoundException{}, false},
		{"key disabled", &types.KMSDisabledException{}, false},
		{"denied", &types.AccessDeniedException{}, false},
		{"bad argument", &types.InvalidArgumentException{}, false},
		{"bad request", status(400), false},
		{"unknown", errors.New("?"), false},
	} {
		got := kinesissink.Translate("s", test.err)
		if errors.Is(got, dedupe.ErrTryAgain) != test.tryAgain || !errors.Is(got, test.err) ||
			!strings.HasPrefix(got.Error(), "kinesis: put records") {
			t.Errorf("%s: want try again %t, got %v", test.name, test.tryAgain, got)
		}
	}
}

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
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("want the error of the endpoint, got %v", err)
	}
}
