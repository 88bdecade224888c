package deadletter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Error codes of S3 and SQS (API references, "Error responses").
const (
	codeExists   = "PreconditionFailed"
	codeConflict = "ConditionalRequestConflict"
	codeNoObject = "NoSuchKey"
)

// advice says what to do about wrong settings.
var advice = map[string]string{
	"NoSuchBucket":      "the bucket does not exist; check its name",
	"PermanentRedirect": "the bucket is in another region; set AWS_REGION to it",
	"AccessDenied": "access denied; the function needs s3:PutObject below the prefix, and sqs:SendMessage for notifications; " +
		"redrive needs s3:ListBucket, s3:GetObject and s3:PutObject",
	"QueueDoesNotExist":                       "the queue does not exist; check its URL and region",
	"AWS.SimpleQueueService.NonExistentQueue": "the queue does not exist; check its URL and region",
}

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// translate adds to an error of the SDK where and in which operation it happened. An error that says busy, throttled or
// unreachable gets the family dedupe.ErrTryAgain. A missing object gets fs.ErrNotExist.
func translate(where, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("dead-letter store %s: %s: %w", where, doing, err)
	case hasCode(err, codeNoObject):
		return fmt.Errorf("dead-letter store %s: %s: %w: %w", where, doing, fs.ErrNotExist, err)
	case retryable(err):
		return fmt.Errorf("dead-letter store %s: %s: %w: %w", where, doing, dedupe.ErrTryAgain, err)
	}
	if text := advice[code(err)]; text != "" {
		return fmt.Errorf("dead-letter store %s: %s: %s: %w", where, doing, text, err)
	}
	return fmt.Errorf("dead-letter store %s: %s: %w", where, doing, err)
}

// retryable reports whether a later attempt may succeed. Beside the SDK's retryable errors these are a conflict with
// another request for the same key, a reply that was cut, a retry budget that is used up, and a deadline.
func retryable(err error) bool {
	var (
		garbled *smithy.DeserializationError
		quota   ratelimit.QuotaExceededError
	)
	return hasCode(err, codeConflict) || errors.As(err, &garbled) || errors.As(err, &quota) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.DeadlineExceeded) ||
		sdkRetryables.IsErrorRetryable(err) == aws.TrueTernary
}

func hasCode(err error, want string) bool { return code(err) == want }

func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
