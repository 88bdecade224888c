// Package awserror explains errors of the AWS SDK to the caller, for every service.
package awserror

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// IsTransient reports whether a later attempt may succeed. In addition to the SDK's retryable errors, this is true
// for a reply that was cut off, a used-up retry budget, and a deadline. A service may have more such errors.
func IsTransient(err error) bool {
	var (
		garbled *smithy.DeserializationError
		quota   ratelimit.QuotaExceededError
	)
	return errors.As(err, &garbled) || errors.As(err, &quota) || errors.Is(err, context.DeadlineExceeded) ||
		sdkRetryables.IsErrorRetryable(err) == aws.TrueTernary
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
