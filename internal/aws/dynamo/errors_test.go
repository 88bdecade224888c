package dynamo_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
)

var errTryAgain = errors.New("try again")

func status(code int) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: errors.New("body"),
	}}
}

// TestTranslate checks that a failure of the store never counts as an answer, and that only a transient failure asks
// for another try.
func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		err      error
		tryAgain bool
		says     string
	}{
		{"throttled", &types.ThrottlingException{ThrottlingReasons: []types.ThrottlingReason{{Reason: aws.String("TableWriteKeyRangeThroughputExceeded")}}}, true, "TableWriteKeyRangeThroughputExceeded"},
		{"throughput exceeded", &types.ProvisionedThroughputExceededException{}, true, ""},
		{"request limit", &types.RequestLimitExceeded{}, true, ""},
		{"server error", status(500), true, ""},
		{"unavailable", status(503), true, ""},
		{"plain write met a transaction", &types.TransactionConflictException{}, true, ""},
		{"write met one of another region", &types.ReplicatedWriteConflictException{}, true, ""},
		{"same token still running", &types.TransactionInProgressException{}, true, ""},
		{"unreadable reply", &smithy.DeserializationError{Err: errors.New("cut")}, true, ""},
		{"connection refused", &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true, ""},
		{"not sent", &smithyhttp.RequestSendError{Err: errors.New("reset")}, true, ""},
		{"no retries left in the budget", fmt.Errorf("attempt: %w", ratelimit.QuotaExceededError{}), true, ""},
		{"deadline", context.DeadlineExceeded, true, ""},
		{"cancelled", context.Canceled, false, ""},
		{"table missing", &types.ResourceNotFoundException{}, false, "oncebox init"},
		{"token with other parameters", &types.IdempotentParameterMismatchException{}, false, ""},
		{"denied", status(403), false, ""},
		{"bad request", status(400), false, ""},
		{"unknown", errors.New("?"), false, ""},
	} {
		got := dynamo.Translate("claim", test.err, errTryAgain)
		if errors.Is(got, errTryAgain) != test.tryAgain || !errors.Is(got, test.err) ||
			!strings.Contains(got.Error(), test.says) || !strings.HasPrefix(got.Error(), "dynamodb: claim: ") {
			t.Errorf("%s: want try again %t saying %q, got %v", test.name, test.tryAgain, test.says, got)
		}
	}
	if got := dynamo.Translate("claim", nil, errTryAgain); got != nil {
		t.Errorf("no error: got %v", got)
	}
}

func TestCancellations(t *testing.T) {
	t.Parallel()
	old := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}
	codes := func(codes ...string) error {
		e := &types.TransactionCanceledException{}
		for _, c := range codes {
			e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(c), Item: old})
		}
		return fmt.Errorf("operation error: %w", e)
	}
	reasons, ok := dynamo.Cancellations(codes("None", "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"), 5)
	want := []dynamo.Reason{dynamo.NoReason, dynamo.ConditionFailed, dynamo.Conflict, dynamo.Throttled, dynamo.Throttled}
	if !ok || len(reasons) != len(want) {
		t.Fatalf("want %d reasons, got %v", len(want), reasons)
	}
	for i, w := range want {
		if reasons[i].Reason != w || reasons[i].Item["pk"] == nil {
			t.Errorf("reason %d: want %d with the old item, got %+v", i, w, reasons[i])
		}
	}
	for name, err := range map[string]error{
		"a fault in the request": codes("None", "ValidationError"),
		"another number":         codes("None"),
		"another error":          status(500),
		"no error":               nil,
	} {
		if _, ok := dynamo.Cancellations(err, 2); ok {
			t.Errorf("%s was read as a cancellation", name)
		}
	}
}

func TestConditionFailure(t *testing.T) {
	t.Parallel()
	old := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "x"}}
	if got, ok := dynamo.ConditionFailure(fmt.Errorf("put: %w", &types.ConditionalCheckFailedException{Item: old})); !ok ||
		got["pk"] == nil {
		t.Errorf("want the old item, got %v, %t", got, ok)
	}
	for _, err := range []error{nil, status(400), &types.TransactionConflictException{}} {
		if _, ok := dynamo.ConditionFailure(err); ok {
			t.Errorf("%v was read as a failed condition", err)
		}
	}
}
