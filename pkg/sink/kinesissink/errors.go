package kinesissink

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// errMisfit means that the answer does not fit the request.
var errMisfit = errors.New("the answer does not have a result for each record")

// refusal is the error of one record of a request.
type refusal struct{ code, message string }

func (r *refusal) Error() string { return fmt.Sprintf("record refused: %s: %s", r.code, r.message) }

// transient reports whether the stream may take the record later. The API reference of PutRecords names these two
// codes. With any other code the stream never takes the record. A record with neither a code nor a sequence number is
// sent again.
func (r *refusal) transient() bool {
	return r.code == "ProvisionedThroughputExceededException" || r.code == "InternalFailure" || r.code == ""
}

// certain reports whether the record is certainly not in the stream.
func (r *refusal) certain() bool { return r.code != "InternalFailure" && r.code != "" }

// translate adds the operation and the stream to an error. An error that means busy, throttled or unreachable gets the
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

// retryable reports whether a later attempt may succeed. In addition to the transient errors of all services, this is
// true for a refusal of one record, and for an answer that does not fit.
func retryable(err error) bool {
	refused, ok := errors.AsType[*refusal](err)
	return ok && refused.transient() || errors.Is(err, errMisfit) || awserror.IsTransient(err)
}
