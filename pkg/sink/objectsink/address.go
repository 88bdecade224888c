package objectsink

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Config is the address of objects in a bucket of S3.
type Config struct {
	Bucket string
	Prefix string // "", or ends in "/"
	Options
}

// These are the limits of the size of an object. A function has one object in memory, besides the records of its batch.
const (
	smallestObject = 64 << 10
	largestObject  = 1 << 30
)

// Parse reads s3://BUCKET/PREFIX. The prefix may be empty, and may end in a slash. These options may stand behind it, as
// in ?compression=zstd&object-size=128MiB:
//
//	format       ndjson, or raw: records are lines of text; default: the caller chooses
//	compression  gzip, zstd or none; default gzip
//	object-size  uncompressed bytes after which another object is begun, 64KiB to 1024MiB; default 64MiB
//
// The error is a list of all problems. It repeats no value.
func Parse(text string) (c Config, err error) {
	a := address.Parse(text)
	place, _, _ := strings.Cut(text, "?")
	if c.Bucket, c.Prefix, err = ParseSetting(place); err != nil {
		a.WrongPlace("does not name a bucket and a prefix for objects",
			`s3://BUCKET/PREFIX, where no part of PREFIX begins with "_"`)
	}
	if a.Text("format") != "" {
		c.Format = settings.Choice(a.Parser, "format", NDJSON, Raw)
	}
	c.Compression = settings.Choice(a.Parser, "compression", Gzip, Zstd, Uncompressed)
	c.ObjectSize = int64(a.Size("object-size", DefaultObjectSize, smallestObject, largestObject, "64KiB to 1024MiB"))
	return c, a.Done("format", "compression", "object-size")
}

// Open makes a Sink with a client of its own. It sends no request. load loads the settings of AWS:
// awsclient.FromEnvironment in a Lambda function, or a loader of the SDK.
func (c Config) Open(ctx context.Context, load func(context.Context) (aws.Config, error)) (*Sink, error) {
	client, err := NewS3Client(ctx, load)
	if err != nil {
		return nil, err
	}
	return New(NewBucket(client, c.Bucket, c.Prefix), c.Options)
}
