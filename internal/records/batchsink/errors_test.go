package batchsink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	firehose "github.com/aws/aws-sdk-go-v2/service/firehose/types"
	kinesis "github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	sqs "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

func status(code int) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: errors.New("body"),
	}}
}

// TestTranslate checks that only a transient failure asks for another try.
func TestTranslate(t *testing.T) {
	t.Parallel()
	api := &batchsink.API{Doing: "x: put", Advice: map[string]string{"QueueDoesNotExist": "check its URL"}}
	for _, test := range []struct {
		name     string
		err      error
		tryAgain bool
	}{
		{"Firehose busy", &firehose.ServiceUnavailableException{}, true},
		{"Firehose limit", &firehose.LimitExceededException{}, true},
		{"Kinesis throughput exceeded", &kinesis.ProvisionedThroughputExceededException{}, true},
		{"key of Kinesis throttled", &kinesis.KMSThrottlingException{}, true},
		{"Kinesis failed", &kinesis.InternalFailureException{}, true},
		{"SQS throttled", &sqs.RequestThrottled{}, true},
		{"key service throttled", &sqs.KmsThrottled{}, true},
		{"internal failure", &smithy.GenericAPIError{Code: "InternalFailure", Fault: smithy.FaultServer}, true},
		{"refused for now", &batchsink.RefusalError{Transient: true}, true},
		{"server error", status(500), true},
		{"unavailable", status(503), true},
		{"unreadable reply", &smithy.DeserializationError{Err: errors.New("cut")}, true},
		{"cut", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true},
		{"connection refused", &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true},
		{"not sent", &smithyhttp.RequestSendError{Err: errors.New("reset")}, true},
		{"no retries left in the budget", fmt.Errorf("attempt: %w", ratelimit.QuotaExceededError{}), true},
		{"deadline", context.DeadlineExceeded, true},
		{"cancelled", context.Canceled, false},
		{"cancelled on the way", &smithyhttp.RequestSendError{Err: context.Canceled}, false},
		{"refused for ever", &batchsink.RefusalError{Code: "InvalidMessageContents"}, false},
		{"no queue", &sqs.QueueDoesNotExist{}, false},
		{"no stream", &firehose.ResourceNotFoundException{}, false},
		{"no access", &kinesis.AccessDeniedException{}, false},
		{"key disabled", &sqs.KmsDisabled{}, false},
		{"bad request", status(400), false},
		{"unknown", errors.New("?"), false},
	} {
		got := api.Translate(test.err)
		if errors.Is(got, dedupe.ErrTryAgain) != test.tryAgain || !errors.Is(got, test.err) ||
			!strings.HasPrefix(got.Error(), "x: put: ") {
			t.Errorf("%s: want try again %t, got %v", test.name, test.tryAgain, got)
		}
	}
	if got := api.Translate(&sqs.QueueDoesNotExist{}).Error(); !strings.HasPrefix(got, "x: put: check its URL: ") {
		t.Errorf("no advice in %q", got)
	}
}
