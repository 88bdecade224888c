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

	"github.com/oncebox/oncebox/internal/aws/awsconfig"
	"github.com/oncebox/oncebox/internal/records/s3store"
	"github.com/oncebox/oncebox/internal/shared/address"
)

// The time-outs of one request, and the pause before a message is sent again. The largest document has 14 MB: 10 MiB in
// base64.
const (
	objectTimeout  = 10 * time.Second
	messageTimeout = 1 * time.Second
	messageBackoff = 100 * time.Millisecond
)

// maxPrefix leaves enough of the 1,024 bytes of a key for a name, and for the attempts at a letter.
const maxPrefix = 780

// bucketPattern is S3's naming rule. The length is checked separately: in the pattern it would take 40 KB at every
// start.
var bucketPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]+[a-z0-9]$`)

const maxBucket = 63

// Setting is the address of a dead-letter store: a bucket with a prefix, or a folder.
type Setting struct {
	Bucket string
	Prefix string // "", or ends in "/"
	Folder string
	// Notify is the URL of an SQS queue that gets a message for each new letter. It is no FIFO queue. "": there is none.
	// A message may be lost or come twice; the letter is not.
	Notify string
}

// ParseSetting reads s3://BUCKET/PREFIX or dir:PATH, with ?notify=URL behind it for notifications. The prefix may be
// empty, and may end in a slash.
func ParseSetting(text string) (Setting, error) {
	place, _, _ := strings.Cut(text, "?")
	at, err := parsePlace(place)
	if err != nil {
		return Setting{}, fmt.Errorf("dead-letter store %q: %w", place, err)
	}
	a := address.Parse(text)
	if at.Notify = a.Text("notify"); at.Notify != "" {
		if _, err := NewQueue(nil, at.Notify); err != nil {
			a.Wrong("notify", "is not the URL of a standard SQS queue",
				"https://sqs.REGION.amazonaws.com/ACCOUNT/NAME, and no FIFO queue")
		}
	}
	return at, a.Done("notify")
}

func parsePlace(text string) (Setting, error) {
	if path, ok := strings.CutPrefix(text, "dir:"); ok {
		if path == "" {
			return Setting{}, errors.New("the path is missing; use dir:PATH")
		}
		return Setting{Folder: path}, nil
	}
	rest, ok := strings.CutPrefix(text, "s3://")
	if !ok {
		return Setting{}, errors.New("use s3://BUCKET/PREFIX or dir:PATH")
	}
	bucket, prefix, _ := strings.Cut(rest, "/")
	if len(bucket) > maxBucket || !bucketPattern.MatchString(bucket) {
		return Setting{}, fmt.Errorf("%q is not the name of a bucket", bucket)
	}
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix == "" {
		return Setting{Bucket: bucket}, nil
	}
	return Setting{Bucket: bucket, Prefix: prefix + "/"}, checkPrefix(prefix)
}

// checkPrefix refuses prefixes with which some tools lose objects, or with which an Archive takes letters for markers.
func checkPrefix(prefix string) error {
	if len(prefix) > maxPrefix {
		return fmt.Errorf("the prefix is longer than %d bytes", maxPrefix)
	}
	for part := range strings.SplitSeq(prefix, "/") {
		if part == "" || part == "." || part == ".." {
			return fmt.Errorf("the prefix has a part %q", part)
		}
		if part == strings.TrimSuffix(doneFolder, "/") {
			return fmt.Errorf("the prefix has a part %q, which is the folder of the markers of done letters; choose another prefix",
				part)
		}
	}
	if strings.ContainsFunc(prefix, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return errors.New("the prefix has a control character or is not UTF-8")
	}
	return nil
}

// Open opens the store of a setting. If the setting names a queue, it sends notifications there, and calls unsent for
// each notification that could not be sent. Open sends no request: a wrong bucket or queue fails with the first
// record. load loads the AWS settings if the store needs them: awsclient.FromEnvironment, or a loader of the SDK.
func Open(
	ctx context.Context, load func(context.Context) (aws.Config, error), setting string,
	unsent func(Notification, error),
) (*Store, error) {
	at, err := ParseSetting(setting)
	if err != nil {
		return nil, err
	}
	objects, err := openObjects(ctx, load, at)
	if err != nil {
		return nil, err
	}
	if at.Notify == "" {
		return New(objects), nil
	}
	client, err := NewSQSClient(ctx, load)
	if err != nil {
		return nil, err
	}
	queue, err := NewQueue(client, at.Notify)
	if err != nil {
		return nil, err
	}
	return New(objects, WithNotifier(queue, unsent)), nil
}

// OpenArchive opens the store of a setting for redrive. It sends no request. A folder must exist. load is as for
// Open.
func OpenArchive(
	ctx context.Context, load func(context.Context) (aws.Config, error), setting string,
) (*Archive, error) {
	at, err := ParseSetting(setting)
	if err != nil {
		return nil, err
	}
	if at.Folder != "" {
		if err := checkFolder(at.Folder); err != nil {
			return nil, fmt.Errorf("dead-letter store %s: %w", at.Folder, err)
		}
	}
	objects, err := openObjects(ctx, load, at)
	if err != nil {
		return nil, err
	}
	return NewArchive(objects), nil
}

func openObjects(ctx context.Context, load func(context.Context) (aws.Config, error), at Setting) (Listed, error) {
	if at.Folder != "" {
		return NewFolder(at.Folder)
	}
	client, err := NewS3Client(ctx, load)
	if err != nil {
		return nil, err
	}
	return NewBucket(client, at.Bucket, at.Prefix), nil
}

// keepIdle keeps one idle connection for each concurrent record. The SDK keeps 10.
func keepIdle(t *http.Transport) { t.MaxIdleConnsPerHost = DefaultConcurrency }

// NewS3Client makes an S3 client whose requests take at most 10 s. It does not retry, because Bucket retries, which
// knows what it may have written. If the endpoint is set, for example by AWS_ENDPOINT_URL_S3, the bucket's name is in
// the path. Make one client for each process.
func NewS3Client(ctx context.Context, load func(context.Context) (aws.Config, error)) (*s3.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, objectTimeout, keepIdle)
	if err != nil {
		return nil, err
	}
	return s3store.NewClient(cfg), nil
}

// NewSQSClient makes an SQS client with two attempts of at most 1 s each. Make one client for each process.
func NewSQSClient(ctx context.Context, load func(context.Context) (aws.Config, error)) (*sqs.Client, error) {
	cfg, err := awsconfig.Load(ctx, load, messageTimeout, keepIdle)
	if err != nil {
		return nil, err
	}
	return sqs.NewFromConfig(cfg, func(o *sqs.Options) {
		o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxAttempts, o.MaxBackoff = 2, messageBackoff })
	}), nil
}
