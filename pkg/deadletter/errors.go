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

// advice says what to do about settings that are wrong.
var advice = map[string]string{
	"NoSuchBucket":      "the bucket does not exist; check its name",
	"PermanentRedirect": "the bucket is in another region; set AWS_REGION to it",
	"AccessDenied":      "not allowed; the function needs s3:PutObject below the prefix (s3:GetObject to read), and sqs:SendMessage for the notifier",
	"QueueDoesNotExist": "the queue does not exist; check its URL and region",
	"AWS.SimpleQueueService.NonExistentQueue": "the queue does not exist; check its URL and region",
}

var sdkRetryables = retry.IsErrorRetryables(retry.DefaultRetryables)

// translate wraps an error of the SDK with where it was and what was being done.
// One that says "busy, throttled or out of reach" gets the family
// dedupe.ErrTryAgain, an object that is not there fs.ErrNotExist.
func translate(where, doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("failure store %s: %s: %w", where, doing, err)
	case hasCode(err, codeNoObject):
		return fmt.Errorf("failure store %s: %s: %w: %w", where, doing, fs.ErrNotExist, err)
	case retryable(err):
		return fmt.Errorf("failure store %s: %s: %w: %w", where, doing, dedupe.ErrTryAgain, err)
	}
	if text := advice[code(err)]; text != "" {
		return fmt.Errorf("failure store %s: %s: %s: %w", where, doing, text, err)
	}
	return fmt.Errorf("failure store %s: %s: %w", where, doing, err)
}

// retryable adds to the SDK's own judgement a conflict with another request for
// the same key, replies that could not be read to their end, a spent retry
// budget, and deadlines.
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
