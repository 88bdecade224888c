package objectsink

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

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/records/s3store"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// S3 is the part of *s3.Client that a Bucket calls.
type S3 interface {
	PutObject(ctx context.Context, in *s3.PutObjectInput, options ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	HeadObject(ctx context.Context, in *s3.HeadObjectInput, options ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	GetObject(ctx context.Context, in *s3.GetObjectInput, options ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	ListObjectsV2(
		ctx context.Context, in *s3.ListObjectsV2Input, options ...func(*s3.Options),
	) (*s3.ListObjectsV2Output, error)
}

// Bucket is a Storage in an S3 bucket, below a prefix.
type Bucket struct {
	client         S3
	bucket, prefix string
	store          s3store.Store
}

var _ Storage = (*Bucket)(nil)

var bucketAdvice = map[string]string{
	"NoSuchBucket":      "the bucket does not exist; check its name",
	"PermanentRedirect": "the bucket is in another region; set AWS_REGION to it",
	"AccessDenied": "access denied; the function needs s3:PutObject and s3:GetObject below the prefix, and s3:ListBucket " +
		"of the bucket",
	"Forbidden": "access denied; the function needs s3:GetObject below the prefix, and s3:ListBucket of the bucket",
}

// NewBucket makes a Bucket. It sends no request. The prefix is "" or ends in "/".
func NewBucket(client S3, bucket, prefix string) *Bucket {
	place := "object sink s3://" + bucket + "/" + strings.TrimSuffix(prefix, "/")
	return &Bucket{client, bucket, prefix, s3store.Store{Name: place, Advice: bucketAdvice, Wait: pause.BackOff}}
}

// requestTimeout limits one attempt. At 20 Mbit/s, an object of DefaultObjectSize takes this long.
const requestTimeout = 30 * time.Second

// NewS3Client makes an S3 client for a Bucket, whose requests take at most 30 s. It does not retry, because Bucket
// retries. If the endpoint is set, for example by AWS_ENDPOINT_URL_S3, the bucket's name is in the path. Make one
// client for each process.
func NewS3Client(ctx context.Context, load func(context.Context) (aws.Config, error)) (*s3.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, requestTimeout, nil)
	if err != nil {
		return nil, err
	}
	return s3store.NewClient(cfg), nil
}

// PutIfAbsent implements Storage.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, o Content) (created bool, err error) {
	put, err := b.store.PutIfAbsent(ctx, func() error {
		in := b.put(key, o)
		in.IfNoneMatch = aws.String("*")
		_, err := b.client.PutObject(ctx, in)
		return err
	})
	return err == nil && put == s3store.Created, err
}

// Put implements Storage.
func (b *Bucket) Put(ctx context.Context, key string, o Content) error {
	return b.store.Repeat(ctx, "put object", func() error {
		_, err := b.client.PutObject(ctx, b.put(key, o))
		return err
	})
}

func (b *Bucket) put(key string, o Content) *s3.PutObjectInput {
	return &s3.PutObjectInput{
		Bucket: &b.bucket, Key: aws.String(b.prefix + key), Body: bytes.NewReader(o.Body), ContentType: &o.Type,
		Metadata: o.Metadata,
	}
}

// Head implements Storage.
func (b *Bucket) Head(ctx context.Context, key string) (metadata map[string]string, err error) {
	err = b.store.Repeat(ctx, "head object", func() error {
		out, err := b.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + key)})
		if err == nil {
			metadata = out.Metadata
		}
		return err
	})
	return metadata, err
}

// Get implements Storage.
func (b *Bucket) Get(ctx context.Context, key string) (o Content, err error) {
	err = b.store.Repeat(ctx, "get object", func() (err error) {
		o, err = b.get(ctx, key)
		return err
	})
	return o, err
}

func (b *Bucket) get(ctx context.Context, key string) (o Content, err error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: aws.String(b.prefix + key)})
	if err != nil {
		return o, err
	}
	defer func() { _ = out.Body.Close() }()
	o.Type, o.Metadata = aws.ToString(out.ContentType), out.Metadata
	o.Body, err = io.ReadAll(out.Body)
	return o, err
}

// List implements Storage. S3 lists up to 1,000 keys at a time, in the order of their bytes (API reference,
// "ListObjectsV2"). Directory buckets do not, so a Sink cannot use them.
func (b *Bucket) List(ctx context.Context, prefix, after string) (keys []string, more bool, err error) {
	in := &s3.ListObjectsV2Input{Bucket: &b.bucket, Prefix: aws.String(b.prefix + prefix)}
	if after != "" {
		in.StartAfter = aws.String(b.prefix + after)
	}
	err = b.store.Repeat(ctx, "list objects", func() error {
		out, err := b.client.ListObjectsV2(ctx, in)
		if err != nil {
			return err
		}
		keys, more = nil, aws.ToBool(out.IsTruncated)
		for _, o := range out.Contents {
			keys = append(keys, strings.TrimPrefix(aws.ToString(o.Key), b.prefix))
		}
		return nil
	})
	return keys, more, err
}

// errNotABucket says that a setting does not name a bucket and a prefix.
var errNotABucket = errors.New("use s3://BUCKET/PREFIX")

// maxPrefix leaves enough of the 1,024 bytes of a key for the longest names of scope, stream and shard.
const maxPrefix = 400

// ParseSetting reads s3://BUCKET/PREFIX. The prefix may be empty, and may end in a slash. The returned prefix is ""
// or ends in "/".
func ParseSetting(text string) (bucket, prefix string, err error) {
	at, err := deadletter.ParseSetting(text)
	switch {
	case err == nil && at.Folder != "":
		err = errNotABucket
	case err == nil && len(at.Prefix) > maxPrefix:
		err = fmt.Errorf("the prefix is longer than %d bytes", maxPrefix)
	case err == nil && strings.HasPrefix(at.Prefix, "_"), err == nil && strings.Contains(at.Prefix, "/_"):
		err = errors.New(`a part of the prefix begins with "_", which hides objects from Athena and Spark`)
	}
	if err != nil {
		return "", "", fmt.Errorf("object sink %q: %w", text, err)
	}
	return at.Bucket, at.Prefix, nil
}
