package deadletter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/oncebox/oncebox/internal/awsconfig"
)

// Time-outs of one request. The largest document is 14 MB (10 MiB in base64).
const (
	objectTimeout  = 10 * time.Second
	messageTimeout = 1 * time.Second
)

// maxPrefix leaves room for a name in the 1,024 bytes of a key.
const maxPrefix = 800

// A bucket's name has 3 to 63 characters. The longest stands apart: in the
// pattern it costs 40 KB at every start.
var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]+[a-z0-9]$`)

const maxBucket = 63

// Setting is where a failure store is: a bucket with a prefix, or a folder.
type Setting struct {
	Bucket string
	Prefix string // "" or with "/" at its end
	Folder string
}

// ParseSetting reads s3://BUCKET/PREFIX or dir:PATH. The prefix may be empty,
// and may end in a slash or not.
func ParseSetting(text string) (Setting, error) {
	if path, ok := strings.CutPrefix(text, "dir:"); ok {
		if path == "" {
			return Setting{}, fmt.Errorf("failure store %q: no path; want dir:PATH", text)
		}
		return Setting{Folder: path}, nil
	}
	rest, ok := strings.CutPrefix(text, "s3://")
	if !ok {
		return Setting{}, fmt.Errorf("failure store %q: want s3://BUCKET/PREFIX or dir:PATH", text)
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	if len(bucket) > maxBucket || !bucketPattern.MatchString(bucket) {
		return Setting{}, fmt.Errorf("failure store %q: %q is not the name of a bucket", text, bucket)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return Setting{Bucket: bucket}, nil
	}
	if err := checkPrefix(prefix); err != nil {
		return Setting{}, fmt.Errorf("failure store %q: %w", text, err)
	}
	return Setting{Bucket: bucket, Prefix: prefix + "/"}, nil
}

// checkPrefix refuses prefixes below which tools lose objects.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("the prefix is longer than %d bytes", maxPrefix)
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("the prefix has a part %q", part)
		}
	}
	if i := strings.IndexFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }); i >= 0 {
		return errors.New("the prefix has a control character or is not UTF-8")
	}
	return nil
}

// Open opens the store of a setting, and with a queue URL its notifier; unsent is
// told of notifiers that could not be notified. Bucket and queue are not asked: wrong
// names come to light with the first record. load brings the AWS settings, if they
// are needed, such as those of config.LoadDefaultConfig.
func Open(ctx context.Context, load Loader, setting, queueURL string, unsent func(Notification, error)) (*Store, error) {
	at, err := ParseSetting(setting)
	if err != nil {
		return nil, err
	}
	objects, err := openObjects(ctx, load, at)
	if err != nil {
		return nil, err
	}
	if queueURL == "" {
		return New(objects), nil
	}
	client, err := NewSQSClient(ctx, load)
	if err != nil {
		return nil, err
	}
	queue, err := NewQueue(client, queueURL)
	if err != nil {
		return nil, err
	}
	return New(objects, WithNotifier(queue, unsent)), nil
}

func openObjects(ctx context.Context, load Loader, at Setting) (Objects, error) {
	if at.Folder != "" {
		return NewFolder(at.Folder)
	}
	client, err := NewS3Client(ctx, load)
	if err != nil {
		return nil, err
	}
	return NewBucket(client, at.Bucket, at.Prefix), nil
}

// Loader loads AWS settings.
type Loader = func(context.Context) (aws.Config, error)

// keepIdle keeps connections for the next records; the SDK keeps 10.
func keepIdle(t *http.Transport) { t.MaxIdleConnsPerHost = DefaultConcurrency }

// NewS3Client makes an S3 client. An endpoint other than AWS's, as of
// AWS_ENDPOINT_URL_S3, gets bucket names in the path. It does not retry: a Bucket
// does, and knows what it may have written. Make one per process.
func NewS3Client(ctx context.Context, load Loader) (*s3.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, objectTimeout, keepIdle)
	if err != nil {
		return nil, err
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.Retryer = aws.NopRetryer{}
		o.UsePathStyle = o.BaseEndpoint != nil
		o.DisableLogOutputChecksumValidationSkipped = true // emulators give none, at a line of log a read
	}), nil
}

// NewSQSClient makes an SQS client in the same way. It retries once.
func NewSQSClient(ctx context.Context, load Loader) (*sqs.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, messageTimeout, keepIdle)
	if err != nil {
		return nil, err
	}
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 2, firstBackoff })
	}), nil
}
