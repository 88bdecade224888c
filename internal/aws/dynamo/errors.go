// Package dynamo holds code that the DynamoDB engines share: the translation of errors, and the encoding of rows.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/internal/aws/awserror"
)

// Translate adds the operation to an error of the SDK. An error that means busy, throttled or unreachable gets the
// family tryAgain; the effect of its request is unknown. The error of a context stays in the chain.
func Translate(doing string, err, tryAgain error) error {
	var missing *types.ResourceNotFoundException
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("dynamodb: %s: %w", doing, err)
	case errors.As(err, &missing):
		return fmt.Errorf("dynamodb: %s: table not found; check its name and region, or run oncebox init to make it: %w",
			doing, err)
	case awserror.IsTransient(err):
		return fmt.Errorf("dynamodb: %s: %w: %w%s", doing, tryAgain, err, throttlingReasons(err))
	}
	return fmt.Errorf("dynamodb: %s: %w", doing, err)
}

// IsThrottled reports whether DynamoDB refused a request because a key range or a table got too many.
func IsThrottled(err error) bool {
	var a *types.ThrottlingException
	var b *types.ProvisionedThroughputExceededException
	var c *types.RequestLimitExceeded
	return errors.As(err, &a) || errors.As(err, &b) || errors.As(err, &c)
}

// throttlingReasons returns the throttled resources, because a hot key range and the limit of a table need different
// measures.
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

// Reason is the reason why an action of a cancelled transaction failed.
type Reason int

// These are the reasons, by the codes of CancellationReasons of TransactWriteItems.
const (
	NoReason        Reason = iota // the action itself did not fail
	ConditionFailed               // its condition was false; Cancellation.Item is the old item, if requested
	Conflict                      // another transaction used the item
	Throttled                     // the partition or the table was throttled
	Invalid                       // the action is invalid; for example, its item is too large
)

// Cancellation is the reason why one action failed.
type Cancellation struct {
	Reason Reason
	Item   map[string]types.AttributeValue
}

// Cancellations returns the reasons of a cancelled transaction, one for each action, in the order of the actions. ok
// is false for every other error, and for a cancellation because of an invalid request.
func Cancellations(err error, actions int) (reasons []Cancellation, ok bool) {
	reasons, ok = allCancellations(err, actions)
	if slices.ContainsFunc(reasons, func(c Cancellation) bool { return c.Reason == Invalid }) {
		return nil, false
	}
	return reasons, ok
}

// allCancellations is Cancellations for a caller that can handle an invalid request.
func allCancellations(err error, actions int) (reasons []Cancellation, ok bool) {
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

	"ValidationError":                 Invalid,
	"ItemCollectionSizeLimitExceeded": Invalid,
}

// IsInvalid reports whether DynamoDB refused a request as invalid, or the SDK did before sending it. Such a request fails
// however often it is sent.
func IsInvalid(err error) bool {
	var notSent smithy.InvalidParamsError
	return awserror.Code(err) == "ValidationException" || errors.As(err, &notSent)
}

// ConditionFailure returns the old item of a single write whose condition was false. ok is false for every other error.
func ConditionFailure(err error) (old map[string]types.AttributeValue, ok bool) {
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return nil, false
	}
	return failed.Item, true
}
