package sqssink

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Config is the address of a queue.
type Config struct {
	URL       string
	Encoding  Encoding
	MaxRecord int // bytes
}

// Parse reads sqs:URL. These options may stand behind it, as in ?encoding=base64&max-record=256KiB:
//
//	encoding    text or base64; default text
//	max-record  the largest message, 1KiB to 1MiB: the MaximumMessageSize of the queue; default 1MiB
//
// The error is a list of all problems. It repeats no value.
func Parse(text string) (Config, error) {
	a := address.Parse(text)
	if a.Scheme != "sqs" || !isURL(a.Name) {
		a.WrongPlace("does not have the URL of an SQS queue", "sqs:URL, where URL is https://sqs.REGION.amazonaws.com/ACCOUNT/NAME")
	}
	c := Config{
		URL:      a.Name,
		Encoding: settings.Choice(a.Parser, "encoding", EncodingText, EncodingBase64),
		MaxRecord: a.Size("max-record", LargestRecord, SmallestLimit, LargestRecord,
			"1KiB to 1MiB, the MaximumMessageSize of the queue"),
	}
	return c, a.Done("encoding", "max-record")
}

// Open makes a Sink with a client of its own. It sends no request. load loads the settings of AWS:
// awsclient.FromEnvironment in a Lambda function, or a loader of the SDK.
func (c Config) Open(ctx context.Context, load func(context.Context) (aws.Config, error)) (*Sink, error) {
	client, err := NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return New(client, c.URL, WithEncoding(c.Encoding), WithMaxRecord(c.MaxRecord))
}
