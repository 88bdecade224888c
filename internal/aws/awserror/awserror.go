// Package awserror explains errors of the AWS SDK to the caller, for every service.
package awserror

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// CodeConflict is the answer of S3 if another request for the key was in progress.
const CodeConflict = "ConditionalRequestConflict"

// conflicts are the codes of requests that met another one at the same row or object (API references of DynamoDB,
// TransactWriteItems and PutItem, and S3, "Error responses"). The other request may come from another region.
var conflicts = []string{"TransactionConflictException", "ReplicatedWriteConflictException", CodeConflict}

// throttledKeys are the codes of requests that the key service refuses (API references, SendMessageBatch and PutRecords).
// The SDK does not know them.
var throttledKeys = []string{"KmsThrottled", "KMS.ThrottlingException", "KMSThrottlingException"}

// IsTransient reports whether a later attempt may succeed. In addition to the SDK's retryable errors, this is true
// for a fault of the service, a conflict, throttling by the key service, a reply that was cut off, a used-up retry
// budget, and a deadline.
func IsTransient(err error) bool {
	var (
		garbled *smithy.DeserializationError
		quota   ratelimit.QuotaExceededError
		named   smithy.APIError
	)
	return errors.As(err, &named) && (named.ErrorFault() == smithy.FaultServer || isTransient(named.ErrorCode())) ||
		errors.As(err, &garbled) || errors.As(err, &quota) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, context.DeadlineExceeded) || sdkRetryables.IsErrorRetryable(err) == aws.TrueTernary
}

func isTransient(code string) bool { return slices.Contains(conflicts, code) || IsThrottled(code) }

// IsThrottled reports whether a code asks the client to send less.
func IsThrottled(code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return throttled || slices.Contains(throttledKeys, code)
}

// IsRefusal reports whether an error proves that its request had no effect: the error is an answer, and names a fault
// of the client, such as throttling. A request without an answer may have had its effect.
func IsRefusal(err error) bool {
	var (
		named  smithy.APIError
		answer *smithyhttp.ResponseError
	)
	return errors.As(err, &named) && named.ErrorFault() == smithy.FaultClient ||
		errors.As(err, &answer) && answer.HTTPStatusCode()/100 == 4
}

// Code returns the error code of the service, or "".
func Code(err error) string {
	var named smithy.APIError
	if errors.As(err, &named) {
		return named.ErrorCode()
	}
	return ""
}
