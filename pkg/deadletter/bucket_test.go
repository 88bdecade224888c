package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

func coded(code string) error {
	return fmt.Errorf("operation error: %w", &smithy.GenericAPIError{Code: code})
}

func status(code int) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: errors.New("body"),
	}}
}

// shaky is a client whose first requests fail: before they reach S3, or after their effect.
type shaky struct {
	deadletter.S3
	before, after []error
	puts          int
}

func (s *shaky) PutObject(
	ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options),
) (*s3.PutObjectOutput, error) {
	s.puts++
	if err := next(&s.before); err != nil {
		return nil, err
	}
	out, err := s.S3.PutObject(ctx, in, options...)
	if lost := next(&s.after); lost != nil {
		return nil, lost
	}
	return out, err
}

func next(all *[]error) (err error) {
	if len(*all) > 0 {
		err, *all = (*all)[0], (*all)[1:]
	}
	return err
}

func repeat(err error, n int) (all []error) {
	for range n {
		all = append(all, err)
	}
	return all
}

// TestBucketFaults: a record counts as stored only if S3 has confirmed it. A notification is sent if this call may
// have made the object.
func TestBucketFaults(t *testing.T) {
	t.Parallel()
	conflict := coded("ConditionalRequestConflict")
	for name, test := range map[string]struct {
		before, after    []error
		exists           bool // made by another call before
		stored, notified bool
		tryAgain         bool
		puts             int
	}{
		"no fault":              {stored: true, notified: true, puts: 1},
		"exists":                {exists: true, stored: true, puts: 1},
		"conflict, then free":   {before: repeat(conflict, 1), stored: true, notified: true, puts: 2},
		"conflict, then exists": {before: repeat(conflict, 1), exists: true, stored: true, puts: 2},
		"conflicts for ever":    {before: repeat(conflict, 9), tryAgain: true, puts: deadletter.MaxAttempts},
		"slow down, then free":  {before: repeat(coded("SlowDown"), 2), stored: true, notified: true, puts: 3},
		"lost answer":           {after: repeat(status(503), 1), stored: true, notified: true, puts: 2},
		"all answers lost":      {after: repeat(status(503), 9), tryAgain: true, puts: deadletter.MaxAttempts},
		"lost answer of a 412":  {after: repeat(status(500), 1), exists: true, stored: true, notified: true, puts: 2},
		"denied":                {before: repeat(coded("AccessDenied"), 1), puts: 1},
		"no such bucket":        {before: repeat(coded("NoSuchBucket"), 1), puts: 1},
		"412 of something else": {before: repeat(status(412), 1), puts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &shaky{S3: newClient(t, "bucket"), before: test.before, after: test.after}
			bucket := deadletter.NewBucket(client, "bucket", "p/")
			bucket.SetWait(func(context.Context, int) error { return nil })
			notifier := &recorder{}
			store := deadletter.New(bucket, deadletter.WithNotifier(notifier, nil))
			if test.exists {
				must(t, put(t, deadletter.New(deadletter.NewBucket(client.S3, "bucket", "p/")), newLetter("1")))
			}
			err := put(t, store, newLetter("1"))
			if (err == nil) != test.stored || errors.Is(err, dedupe.ErrTryAgain) != test.tryAgain {
				t.Errorf("stored: %v", err)
			}
			if (len(notifier.notifications) == 1) != test.notified || client.puts != test.puts {
				t.Errorf("%d notifications, %d puts", len(notifier.notifications), client.puts)
			}
			if _, err := store.Read(t.Context(), nameOf(newLetter("1"))); test.stored && err != nil {
				t.Errorf("stored, but: %v", err)
			}
		})
	}
}

func TestMissingBucket(t *testing.T) {
	t.Parallel()
	err := put(t, deadletter.New(deadletter.NewBucket(newClient(t), "nowhere", "p/")), newLetter("1"))
	if err == nil || errors.Is(err, dedupe.ErrTryAgain) || !strings.Contains(err.Error(), "s3://nowhere/p") ||
		!strings.Contains(err.Error(), "the bucket does not exist") {
		t.Errorf("got %v", err)
	}
}

func TestContextEndsTheWaitForABucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		begin := time.Now()
		bucket := deadletter.NewBucket(&shaky{before: repeat(status(503), 9)}, "bucket", "")
		if _, err := bucket.Create(ctx, "x", nil); !errors.Is(err, context.DeadlineExceeded) ||
			!errors.Is(err, dedupe.ErrTryAgain) {
			t.Errorf("got %v", err)
		}
		if waited := time.Since(begin); waited != time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

// TestTranslate: only a transient failure is to be tried again.
func TestTranslate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		err      error
		tryAgain bool
		says     string
	}{
		{"slow down", coded("SlowDown"), true, ""},
		{"conflict", coded("ConditionalRequestConflict"), true, ""},
		{"server error", status(500), true, ""},
		{"unavailable", status(503), true, ""},
		{"unreadable reply", &smithy.DeserializationError{Err: errors.New("cut")}, true, ""},
		{"connection refused", &net.OpError{Op: "dial", Err: &net.DNSError{IsTemporary: true}}, true, ""},
		{"not sent", &smithyhttp.RequestSendError{Err: errors.New("reset")}, true, ""},
		{"no retries left in the budget", fmt.Errorf("attempt: %w", ratelimit.QuotaExceededError{}), true, ""},
		{"deadline", context.DeadlineExceeded, true, ""},
		{"cancelled", context.Canceled, false, ""},
		{"cancelled on the way", &smithyhttp.RequestSendError{Err: context.Canceled}, false, ""},
		{"exists", coded("PreconditionFailed"), false, ""},
		{"no bucket", coded("NoSuchBucket"), false, "does not exist"},
		{"other region", coded("PermanentRedirect"), false, "region"},
		{"denied", coded("AccessDenied"), false, "s3:PutObject"},
		{"no queue", coded("QueueDoesNotExist"), false, "queue does not exist"},
		{"bad request", status(400), false, ""},
		{"unknown", errors.New("?"), false, ""},
	} {
		got := deadletter.Translate(test.err)
		if errors.Is(got, dedupe.ErrTryAgain) != test.tryAgain || !errors.Is(got, test.err) ||
			!strings.Contains(got.Error(), test.says) ||
			!strings.HasPrefix(got.Error(), "dead-letter store s3://b: put object: ") {
			t.Errorf("%s: want try again %t saying %q, got %v", test.name, test.tryAgain, test.says, got)
		}
	}
	if got := deadletter.Translate(nil); got != nil {
		t.Errorf("no error: got %v", got)
	}
}
