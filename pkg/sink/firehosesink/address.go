package firehosesink

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/records/firehoseaddress"
)

// Config is the address of a Firehose stream, in the account and region of the function: the name Stream, and whether
// the sink is Delimited (see WithDelimiter).
type Config = firehoseaddress.Config

// Parse reads firehose:NAME, or firehose:NAME?delimiter=none for WithDelimiter(false); delimiter=newline is the default.
// The error is a list of all problems. It repeats no value.
func Parse(text string) (Config, error) { return firehoseaddress.Parse(text) }

// Open makes a Sink with a client of its own. It sends no request. load loads the settings of AWS:
// awsclient.FromEnvironment in a Lambda function, or a loader of the SDK.
func Open(ctx context.Context, load func(context.Context) (aws.Config, error), c Config) (*Sink, error) {
	client, err := NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return New(client, c.Stream, WithDelimiter(c.Delimited))
}
