package kinesissink

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// errMisfit is an answer that says nothing of any record.
var errMisfit = errors.New("the answer is not for the records that were sent")

// refusal is what Kinesis said of a single record of a request.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return fmt.Sprintf("record refused: %s: %s", r.code, r.message) }

// passes reports whether the same record may be taken later. The API reference
// of PutRecords names these two codes; others say that the stream will never
// take the record as it is. No code and no sequence number says nothing.
func (r *refusal) passes() bool {
	return r.code == "ProvisionedThroughputExceededException" || r.code == "InternalFailure" || r.code == ""
}

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// translate wraps an error with what was being done. One that says "busy,
// throttled or out of reach" gets the family dedupe.ErrTryAgain.
func (s *Sink) translate(err error) error {
	var missing *types.ResourceNotFoundException
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("kinesis: put records: %w", err)
	case errors.As(err, &missing):
		return fmt.Errorf("kinesis: put records: stream %q not found; check its name and region: %w", s.stream, err)
	case retryable(err):
		return fmt.Errorf("kinesis: put records into %q: %w: %w", s.stream, dedupe.ErrTryAgain, err)
	}
	return fmt.Errorf("kinesis: put records into %q: %w", s.stream, err)
}

// retryable adds to the SDK's own judgement single records, replies that could
// not be read, a fault and a throttle it does not count, a retry budget that
// is spent, and deadlines.
func retryable(err error) bool {
	var (
		refused  *refusal
		garbled  *smithy.DeserializationError
		internal *types.InternalFailureException
		kms      *types.KMSThrottlingException
		quota    ratelimit.QuotaExceededError
	)
	return errors.As(err, &refused) && refused.passes() || errors.As(err, &garbled) || errors.As(err, &internal) ||
		errors.As(err, &kms) || errors.As(err, &quota) || errors.Is(err, errMisfit) ||
		errors.Is(err, context.DeadlineExceeded) || sdkRetryables.IsErrorRetryable(err) == aws.TrueTernary
}
