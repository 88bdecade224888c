// Package dynamo holds what the DynamoDB engines share: the translation of errors, and the encoding of rows.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// Translate wraps an error of the SDK with what was being done. One that says
// "busy, throttled or out of reach" gets the family tryAgain; after it the effect
// is unknown. A cancelled or timed-out context keeps its own error.
func Translate(doing string, err, tryAgain error) error {
	var missing *types.ResourceNotFoundException
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("dynamodb: %s: %w", doing, err)
	case errors.As(err, &missing):
		return fmt.Errorf("dynamodb: %s: table not found; check its name and region, or make it with oncebox init: %w", doing, err)
	case retryable(err):
		return fmt.Errorf("dynamodb: %s: %w: %w%s", doing, tryAgain, err, throttlingReasons(err))
	}
	return fmt.Errorf("dynamodb: %s: %w", doing, err)
}

// retryable adds to the SDK's own judgement what it has no further attempt
// for: a spent retry budget, a reply that could not be read, a conflict with a
// transaction on the same item, a deadline.
func retryable(err error) bool {
	var (
		conflict *types.TransactionConflictException
		garbled  *smithy.DeserializationError
		quota    ratelimit.QuotaExceededError
	)
	return errors.As(err, &conflict) || errors.As(err, &garbled) || errors.As(err, &quota) ||
		errors.Is(err, context.DeadlineExceeded) || sdkRetryables.IsErrorRetryable(err) == aws.TrueTernary
}

// throttlingReasons says what was throttled: a hot key range and a table's
// limit need different remedies.
func throttlingReasons(err error) string {
	var all []types.ThrottlingReason
	var a *types.ThrottlingException
	var b *types.ProvisionedThroughputExceededException
	var c *types.RequestLimitExceeded
	switch {
	case errors.As(err, &a):
		all = a.ThrottlingReasons
	case errors.As(err, &b):
		all = b.ThrottlingReasons
	case errors.As(err, &c):
		all = c.ThrottlingReasons
	}
	texts := make([]string, 0, len(all))
	for _, r := range all {
		texts = append(texts, aws.ToString(r.Reason))
	}
	if len(texts) == 0 {
		return ""
	}
	return " (throttled: " + strings.Join(texts, ", ") + ")"
}

// Reason is why an action of a cancelled transaction did not take place.
type Reason int

// The reasons, from the codes of TransactWriteItems' CancellationReasons.
const (
	NoReason        Reason = iota // the action would have taken place
	ConditionFailed               // its condition was false; Cancellation.Item is the old item, if asked for
	Conflict                      // another transaction had the item
	Throttled                     // the partition or table gave less
)

// Cancellation is the reason of one action.
type Cancellation struct {
	Reason Reason
	Item   map[string]types.AttributeValue
}

// Cancellations reads the reasons of a cancelled transaction, one per action
// and in their order. ok is false for every other error, and for a cancellation
// whose cause is a fault in the request.
func Cancellations(err error, actions int) (reasons []Cancellation, ok bool) {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) || len(cancelled.CancellationReasons) != actions {
		return nil, false
	}
	for _, r := range cancelled.CancellationReasons {
		reason, known := reasonCodes[aws.ToString(r.Code)]
		if !known {
			return nil, false
		}
		reasons = append(reasons, Cancellation{reason, r.Item})
	}
	return reasons, true
}

var reasonCodes = map[string]Reason{
	"":                              NoReason,
	"None":                          NoReason,
	"ConditionalCheckFailed":        ConditionFailed,
	"TransactionConflict":           Conflict,
	"ThrottlingError":               Throttled,
	"ProvisionedThroughputExceeded": Throttled,
}

// ConditionFailure returns the old item of a single write whose condition was false.
func ConditionFailure(err error) (old map[string]types.AttributeValue, ok bool) {
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return nil, false
	}
	return failed.Item, true
}
