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
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// errMisfit is an answer that does not fit the request.
var errMisfit = errors.New("the answer does not have a result for each record")

// refusal is the error of one record of a request.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return fmt.Sprintf("record refused: %s: %s", r.code, r.message) }

// transient reports whether the stream may take the record later. The API reference of PutRecords names these two
// codes. With another code the stream never takes the record. A record with neither a code nor a sequence number is
// sent again.
func (r *refusal) transient() bool {
	return r.code == "ProvisionedThroughputExceededException" || r.code == "InternalFailure" || r.code == ""
}

// certain reports whether the record is surely not in the stream.
func (r *refusal) certain() bool { return r.code != "InternalFailure" && r.code != "" }

// refusesAll reports whether the error of a request says that none of its records is in the stream: it is an answer,
// and names a fault of the client, such as throttling. A request without an answer may have had its effect.
func refusesAll(err error) bool {
	var (
		named  smithy.APIError
		answer *smithyhttp.ResponseError
	)
	return errors.As(err, &named) && named.ErrorFault() == smithy.FaultClient ||
		errors.As(err, &answer) && answer.HTTPStatusCode()/100 == 4
}

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// translate adds the operation and the stream to an error. An error that says busy, throttled or unreachable gets the
// family dedupe.ErrTryAgain.
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

// retryable reports whether a later attempt may succeed. Beside the SDK's retryable errors these are a refusal of one
// record, a reply that was cut, an internal failure, throttling by KMS, a retry budget that is used up, and a deadline.
func retryable(err error) bool {
	var (
		refused  *refusal
		garbled  *smithy.DeserializationError
		internal *types.InternalFailureException
		kms      *types.KMSThrottlingException
		quota    ratelimit.QuotaExceededError
	)
	return errors.As(err, &refused) && refused.transient() || errors.As(err, &garbled) || errors.As(err, &internal) ||
		errors.As(err, &kms) || errors.As(err, &quota) || errors.Is(err, errMisfit) ||
		errors.Is(err, context.DeadlineExceeded) || sdkRetryables.IsErrorRetryable(err) == aws.TrueTernary
}
