// Package s3store holds the code that stores in S3 buckets share: the conditional put, and the errors.
package s3store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// MaxAttempts is the number of attempts for a request. The pauses between them take at most 1.5 s in all.
const MaxAttempts = 5

// These are error codes of S3 (API reference, "Error responses"). The answer to a HeadObject has no body, so only its
// status says that the object does not exist.
const (
	codeExists   = "PreconditionFailed"
	codeConflict = awserror.CodeConflict
	codeNoObject = "NoSuchKey"
	codeNotFound = "NotFound"
)

// NewClient returns an S3 client that does not retry. A Store retries, because it knows what it may have written. If
// the client has its own endpoint, as in AWS_ENDPOINT_URL_S3, the bucket's name is in the path.
func NewClient(cfg aws.Config) *s3.Client {
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.Retryer = aws.NopRetryer{}
		o.UsePathStyle = o.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true // emulators send no checksum, which would log a line a read
	})
}

// Store has the beginning of a store's errors, and advice for error codes that mean a wrong setting.
type Store struct {
	Name   string // the name of the store, with its place
	Advice map[string]string
	Wait   func(ctx context.Context, attempt int) error // pause.BackOff, or a function of a test
}

// Put is the result of a conditional put.
type Put int

// These are the results. After Perhaps the object exists, but it is unknown who made it: an attempt whose reply was
// lost may have done so.
const (
	Created Put = iota
	Exists
	Perhaps
)

// PutIfAbsent calls put, which sends a request with If-None-Match: *. It calls put again after a conflict or a
// transient failure. S3 answers 412 PreconditionFailed if the key exists. It answers 409 ConditionalRequestConflict
// if another request for the key was in progress, so that the state of the key is unknown (user guide, "How to
// prevent object overwrites").
func (s Store) PutIfAbsent(ctx context.Context, put func() error) (Put, error) {
	result := Exists
	err := s.Repeat(ctx, "put object", func() error {
		err := put()
		switch {
		case err == nil:
			result = Created
		case awserror.Code(err) == codeExists:
			return nil
		case awserror.Code(err) != codeConflict:
			result = Perhaps // this attempt's own object may cause the next 412
		}
		return err
	})
	return result, err
}

// Repeat calls a function until it succeeds, has failed for good, or has failed too often.
func (s Store) Repeat(ctx context.Context, doing string, request func() error) error {
	for attempt := 1; ; attempt++ {
		err := s.Translate(doing, request())
		if err == nil || !errors.Is(err, dedupe.ErrTryAgain) || attempt == MaxAttempts {
			return err
		}
		if ended := s.Wait(ctx, attempt); ended != nil {
			return s.Translate(doing, fmt.Errorf("%w; before that: %s", ended, err.Error()))
		}
	}
}

// Translate adds the place and the operation to an error of the SDK. An error that means busy, throttled or
// unreachable gets the family dedupe.ErrTryAgain. The error of a missing object gets fs.ErrNotExist.
func (s Store) Translate(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %s: %w", s.Name, doing, err)
	case awserror.Code(err) == codeNoObject, awserror.Code(err) == codeNotFound:
		return fmt.Errorf("%s: %s: %w: %w", s.Name, doing, fs.ErrNotExist, err)
	case awserror.IsTransient(err):
		return fmt.Errorf("%s: %s: %w: %w", s.Name, doing, dedupe.ErrTryAgain, err)
	}
	if text := s.Advice[awserror.Code(err)]; text != "" {
		return fmt.Errorf("%s: %s: %s: %w", s.Name, doing, text, err)
	}
	return fmt.Errorf("%s: %s: %w", s.Name, doing, err)
}
