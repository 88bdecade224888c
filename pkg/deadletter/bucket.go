package deadletter

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/oncebox/oncebox/internal/records/s3store"
	"github.com/oncebox/oncebox/internal/shared/pause"
)

// S3 is the part of *s3.Client that a Bucket calls.
type S3 interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	ListObjectsV2(
		ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options),
	) (*s3.ListObjectsV2Output, error)
	ListObjectVersions(
		ctx context.Context, in *s3.ListObjectVersionsInput, options ...func(*s3.Options),
	) (*s3.ListObjectVersionsOutput, error)
	PutObjectTagging(
		ctx context.Context, in *s3.PutObjectTaggingInput, options ...func(*s3.Options),
	) (*s3.PutObjectTaggingOutput, error)
	DeleteObject(
		ctx context.Context, in *s3.DeleteObjectInput, options ...func(*s3.Options),
	) (*s3.DeleteObjectOutput, error)
}

// Bucket stores objects in an S3 bucket, below a prefix.
type Bucket struct {
	client         S3
	bucket, prefix string
	wait           func(ctx context.Context, attempt int) error
}

var _ Listed = (*Bucket)(nil)

// NewBucket makes a Bucket. It sends no request. The prefix is "" or ends in "/". The client must not retry, like the
// one of NewS3Client: otherwise an object whose first put lost its answer gets no notification.
func NewBucket(client S3, bucket, prefix string) *Bucket {
	return &Bucket{client: client, bucket: bucket, prefix: prefix, wait: pause.BackOff}
}

// Place returns the bucket and the object's key.
func (b *Bucket) Place(name string) Place { return Place{Bucket: b.bucket, Key: b.prefix + name} }

// Create puts the object with If-None-Match: *. It repeats the put after a conflict or a transient failure.
func (b *Bucket) Create(ctx context.Context, name string, content []byte) (created bool, err error) {
	put, err := b.store().PutIfAbsent(ctx, func() error { return b.put(ctx, name, content) })
	return err == nil && put != s3store.Exists, err
}

func (b *Bucket) put(ctx context.Context, name string, content []byte) error {
	_, err := b.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &b.bucket, Key: aws.String(b.prefix + name), IfNoneMatch: aws.String("*"),
		ContentType: aws.String("application/json"), Body: bytes.NewReader(content),
	})
	return err
}

// Read returns an object. It repeats the request after a transient failure.
func (b *Bucket) Read(ctx context.Context, name string) (content []byte, err error) {
	err = b.store().Repeat(ctx, "get object", func() error {
		content, err = b.read(ctx, name)
		return err
	})
	return content, err
}

func (b *Bucket) read(ctx context.Context, name string) ([]byte, error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + name)})
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Body.Close() }()
	return io.ReadAll(out.Body)
}

// List returns a page of up to 1,000 names. S3 lists them in the order of their bytes (API reference, ListObjectsV2).
// Directory buckets do not, and are not supported.
func (b *Bucket) List(ctx context.Context, prefix, after string) (names []string, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(b.prefix + after)
	}
	var page *s3.ListObjectsV2Output
	err = b.store().Repeat(ctx, "list objects", func() error {
		page, err = b.client.ListObjectsV2(ctx, in)
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, object := range page.Contents {
		names = append(names, strings.TrimPrefix(aws.ToString(object.Key), b.prefix))
	}
	return names, nil
}

// Versions returns the versions and delete markers of objects. Older versions come before newer ones, then the delete
// markers over them, and last what readers see: so removing them in this order shows no older version to a reader.
func (b *Bucket) Versions(ctx context.Context, prefix string) ([]Version, error) {
	var old, markers, latest []Version
	pages := s3.NewListObjectVersionsPaginator(b.client, &s3.ListObjectVersionsInput{
		Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix),
	})
	for pages.HasMorePages() {
		var page *s3.ListObjectVersionsOutput
		err := b.store().Repeat(ctx, "list object versions", func() (err error) {
			page, err = pages.NextPage(ctx)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, v := range page.Versions { // of each object, the newest comes first (API reference, ListObjectVersions)
			b.add(&old, &latest, v.Key, v.VersionId, v.IsLatest)
		}
		for _, m := range page.DeleteMarkers {
			b.add(&markers, &latest, m.Key, m.VersionId, m.IsLatest)
		}
	}
	slices.Reverse(old)
	return slices.Concat(old, markers, latest), nil
}

func (b *Bucket) add(others, latest *[]Version, key, id *string, isLatest *bool) {
	to := others
	if aws.ToBool(isLatest) {
		to = latest
	}
	*to = append(*to, Version{strings.TrimPrefix(aws.ToString(key), b.prefix), aws.ToString(id)})
}

// Remove deletes a version. It repeats the request after a transient failure.
func (b *Bucket) Remove(ctx context.Context, v Version) error {
	return b.store().Repeat(ctx, "delete object version", func() error {
		_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{
			Bucket: &b.bucket, Key: aws.String(b.prefix + v.Name), VersionId: &v.ID,
		})
		return err
	})
}

// DoneTag and DoneValue are the tag of the objects of letters that are done.
const (
	DoneTag   = "oncebox"
	DoneValue = "done"
)

// TagDone tags the current version of an object. It repeats the request after a transient failure.
func (b *Bucket) TagDone(ctx context.Context, name string) error {
	err := b.store().Repeat(ctx, "put object tagging", func() error {
		_, err := b.client.PutObjectTagging(ctx, &s3.PutObjectTaggingInput{
			Bucket: &b.bucket, Key: aws.String(b.prefix + name),
			Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String(DoneTag), Value: aws.String(DoneValue)}}},
		})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // the letter came in a file
		return nil
	}
	return err
}

func (b *Bucket) store() s3store.Store {
	return s3store.Store{
		Name: storeName("s3://" + b.bucket + "/" + strings.TrimSuffix(b.prefix, "/")), Advice: advice, Wait: b.wait,
	}
}
