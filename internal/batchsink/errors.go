package batchsink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/internal/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// errMisfit says that an answer does not fit its request.
var errMisfit = errors.New("the answer does not have a result for each record")

// RefusalError is the result of a record that was not delivered.
type RefusalError struct {
	Code, Message string
	Transient     bool // the destination may take the record later
	Certain       bool // the record is certainly not delivered
}

func (r *RefusalError) Error() string {
	return fmt.Sprintf("record refused: %s: %s", r.Code, r.Message)
}

// Translate adds the operation to an error, and advice. An error that means busy, throttled or unreachable gets the
// family dedupe.ErrTryAgain.
func (a *API) Translate(err error) error {
	advice := a.Advice[code(err)]
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", a.Doing, err)
	case retryable(err):
		return fmt.Errorf("%s: %w: %w", a.Doing, dedupe.ErrTryAgain, err)
	case advice != "":
		return fmt.Errorf("%s: %s: %w", a.Doing, advice, err)
	}
	return fmt.Errorf("%s: %w", a.Doing, err)
}

func code(err error) string {
	if refused, ok := errors.AsType[*RefusalError](err); ok {
		return refused.Code
	}
	return awserror.Code(err)
}

// Throttled reports whether an error code asks the client to send less.
func Throttled(code string) bool {
	_, throttled := retry.DefaultThrottleErrorCodes[code]
	return throttled || slices.Contains(throttledKeys, code)
}

// throttledKeys are SQS's error codes for requests that the key service refuses (API reference, SendMessageBatch).
// The SDK does not know them.
var throttledKeys = []string{"KmsThrottled", "KMS.ThrottlingException"}

// retryable reports whether a later attempt may succeed. In addition to the transient errors of all services, this is
// true for a refusal of one record, a fault of the service, throttling by the key service, and an answer that was cut
// off or does not fit.
func retryable(err error) bool {
	var (
		refused *RefusalError
		named   smithy.APIError
	)
	if errors.As(err, &refused) {
		return refused.Transient
	}
	return errors.As(err, &named) && (named.ErrorFault() == smithy.FaultServer || Throttled(named.ErrorCode())) ||
		errors.Is(err, errMisfit) || errors.Is(err, io.ErrUnexpectedEOF) || awserror.IsTransient(err)
}
