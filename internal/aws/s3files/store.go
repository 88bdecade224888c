package s3files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
)

// Scheme is the beginning of an object's name.
const Scheme = "s3://"

// ErrChanged says that an object has changed since it was found.
var ErrChanged = errors.New("the object has changed")

const (
	// answerTimeout is how long S3 may take to begin its answer. A whole answer may take hours.
	answerTimeout = 30 * time.Second
	maxAttempts   = 5
)

// Place is the name of an object. If the key is empty or ends in "/", it is the prefix of several objects.
type Place struct{ Bucket, Key string }

func (p Place) String() string { return Scheme + p.Bucket + "/" + p.Key }

// IsPrefix reports whether the place means all objects below it.
func (p Place) IsPrefix() bool { return p.Key == "" || strings.HasSuffix(p.Key, "/") }

// ParsePlace reads s3://BUCKET/KEY.
func ParsePlace(text string) (Place, error) {
	rest, ok := strings.CutPrefix(text, Scheme)
	bucket, key, _ := strings.Cut(rest, "/")
	if !ok || bucket == "" {
		return Place{}, fmt.Errorf("%s: use s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for all objects below", text)
	}
	return Place{bucket, key}, nil
}

// Object is an object as it was found.
type Object struct {
	Place
	Size int64
	etag string
}

// Store is a client of S3. It is safe for concurrent use.
type Store struct{ client *s3.Client }

// Open returns a client. It makes no request. It returns the errors of awsconfig.Load. If the client has its own
// endpoint, as in AWS_ENDPOINT_URL_S3, the bucket's name is in the path.
func Open(ctx context.Context, load func(context.Context) (aws.Config, error)) (*Store, error) {
	const forWholeAnswer = 0 // no limit
	cfg, err := awsconfig.Load(ctx, load, forWholeAnswer, func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerTimeout
	})
	if err != nil {
		return nil, err
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts = maxAttempts })
		o.UsePathStyle = o.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true // a part of an object has no checksum
	})
	return &Store{client}, nil
}

// Credentials returns the credentials of the client.
func (s *Store) Credentials() aws.CredentialsProvider { return s.client.Options().Credentials }

// Local reports whether the client has its own endpoint, such as an emulator's.
func (s *Store) Local() bool { return s.client.Options().BaseEndpoint != nil }

// Find finds an object. It returns fs.ErrNotExist if the object does not exist.
func (s *Store) Find(ctx context.Context, at Place) (Object, error) {
	out, err := s.head(ctx, at)
	if err != nil {
		return Object{}, err
	}
	return Object{at, aws.ToInt64(out.ContentLength), aws.ToString(out.ETag)}, nil
}

func (s *Store) head(ctx context.Context, at Place) (*s3.HeadObjectOutput, error) {
	out, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &at.Bucket, Key: &at.Key})
	if hasStatus(err, http.StatusNotFound) { // the answer to HEAD has no code
		return nil, &missingError{at, err}
	}
	if err != nil {
		return nil, failed(at, err)
	}
	return out, nil
}

// missingError says that an object does not exist. It hides the SDK's error, whose words are for programmers.
type missingError struct {
	at  Place
	err error
}

func (e *missingError) Error() string {
	return fmt.Sprintf("%s: there is no such object or bucket", e.at)
}
func (e *missingError) Is(target error) bool { return target == fs.ErrNotExist }

// List returns the objects whose keys begin with a prefix. S3 orders them by the bytes of their keys.
func (s *Store) List(ctx context.Context, prefix Place) iter.Seq2[Object, error] {
	return func(yield func(Object, error) bool) {
		pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{
			Bucket: &prefix.Bucket, Prefix: &prefix.Key,
		})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(Object{}, failed(prefix, err))
				return
			}
			for _, o := range page.Contents {
				at := Place{prefix.Bucket, aws.ToString(o.Key)}
				if !yield(Object{at, aws.ToInt64(o.Size), aws.ToString(o.ETag)}, nil) {
					return
				}
			}
		}
	}
}

func failed(at Place, err error) error { return fmt.Errorf("%s: %w", at, err) }

func hasStatus(err error, status int) bool {
	response, ok := errors.AsType[*awshttp.ResponseError](err)
	return ok && response.HTTPStatusCode() == status
}
