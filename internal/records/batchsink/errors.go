package batchsink

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrMisfit says that an answer does not fit its request.
var ErrMisfit = errors.New("the answer does not have a result for each record")

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

// retryable reports whether a later attempt may succeed. In addition to the transient errors of all services, this is
// true for a refusal of one record, and for an answer that does not fit.
func retryable(err error) bool {
	if refused, ok := errors.AsType[*RefusalError](err); ok {
		return refused.Transient
	}
	return errors.Is(err, ErrMisfit) || awserror.IsTransient(err)
}
