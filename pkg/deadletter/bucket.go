package deadletter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/pause"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// A put has 5 attempts, with at most 1.5 s of pauses in all.
const (
	maxAttempts  = 5
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Second
)

// S3 is what a Bucket needs of an *s3.Client.
type S3 interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	ListObjectsV2(
		ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options),
	) (*s3.ListObjectsV2Output, error)
}

// Bucket stores objects in an S3 bucket, below a prefix.
type Bucket struct {
	client         S3
	bucket, prefix string
	wait           func(ctx context.Context, attempt int) error
}

var _ Listed = (*Bucket)(nil)

// NewBucket uses a bucket. It makes no request. The prefix is "" or ends in "/". The client must not retry by itself,
// as that of NewS3Client: else there is no notification for an object whose first put lost its answer.
func NewBucket(client S3, bucket, prefix string) *Bucket {
	return &Bucket{client: client, bucket: bucket, prefix: prefix, wait: backOff}
}

// Place returns the bucket and the object's key.
func (b *Bucket) Place(name string) Place { return Place{Bucket: b.bucket, Key: b.prefix + name} }

// Create puts the object with If-None-Match: *, and repeats that after a conflict or a transient failure. S3 answers
// 412 PreconditionFailed if the key exists. It answers 409 ConditionalRequestConflict if another request for the key
// was in progress; then nothing is known (user guide, "How to prevent object overwrites").
func (b *Bucket) Create(ctx context.Context, name string, content []byte) (created bool, err error) {
	for attempt := 1; ; attempt++ {
		err := b.put(ctx, name, content)
		switch {
		case err == nil:
			return true, nil
		case hasCode(err, codeExists):
			return created, nil
		case !errors.Is(err, dedupe.ErrTryAgain) || attempt == maxAttempts:
			return false, err
		}
		if ended := b.wait(ctx, attempt); ended != nil {
			return false, b.translate("put object", fmt.Errorf("%w; before that: %s", ended, err.Error()))
		}
		if !hasCode(err, codeConflict) {
			created = true // perhaps: the next 412 may be caused by the object of this attempt
		}
	}
}

func (b *Bucket) put(ctx context.Context, name string, content []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.bucket, Key: aws.String(b.prefix + name), IfNoneMatch: aws.String("*"),
		ContentType: aws.String("application/json"), Body: bytes.NewReader(content),
	})
	return b.translate("put object", err)
}

// Read returns an object. It repeats the request after a transient failure.
func (b *Bucket) Read(ctx context.Context, name string) (content []byte, err error) {
	err = b.repeat(ctx, func() error {
		content, err = b.read(ctx, name)
		return err
	})
	return content, err
}

func (b *Bucket) read(ctx context.Context, name string) ([]byte, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if err != nil {
		return nil, b.translate("get object", err)
	}
	defer func() { _ = out.Body.Close() }()
	content, err := io.ReadAll(out.Body)
	return content, b.translate("get object", err)
}

// List returns a page of up to 1,000 names. S3 lists them in the order of their bytes (API reference, ListObjectsV2;
// directory buckets, which do not, are not supported).
func (b *Bucket) List(ctx context.Context, prefix, after string) (names []string, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(b.prefix + after)
	}
	var page *s3.ListObjectsV2Output
	err = b.repeat(ctx, func() error {
		page, err = b.client.ListObjectsV2(ctx, in)
		return b.translate("list objects", err)
	})
	if err != nil {
		return nil, err
	}
	for _, object := range page.Contents {
		names = append(names, strings.TrimPrefix(aws.ToString(object.Key), b.prefix))
	}
	return names, nil
}

// repeat repeats a request that changes nothing, after a transient failure.
func (b *Bucket) repeat(ctx context.Context, request func() error) error {
	for attempt := 1; ; attempt++ {
		err := request()
		if err == nil || !errors.Is(err, dedupe.ErrTryAgain) || attempt == maxAttempts {
			return err
		}
		if ended := b.wait(ctx, attempt); ended != nil {
			return errors.Join(ended, err)
		}
	}
}

func (b *Bucket) translate(doing string, err error) error {
	return translate("s3://"+b.bucket+"/"+strings.TrimSuffix(b.prefix, "/"), doing, err)
}

// backOff waits for a random time that grows with the attempts.
func backOff(ctx context.Context, attempt int) error {
	return pause.Growing(ctx, attempt, firstBackoff, maxBackoff)
}
