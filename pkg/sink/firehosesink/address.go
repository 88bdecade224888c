package firehosesink

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Config is the address of a Firehose stream, in the account and region of the function.
type Config struct {
	Stream    string
	Delimited bool // see WithDelimiter
}

// Parse reads firehose:NAME, or firehose:NAME?delimiter=none for WithDelimiter(false); delimiter=newline is the default.
// The error is a list of all problems. It repeats no value.
func Parse(text string) (Config, error) {
	a := address.Parse(text)
	if a.Scheme != "firehose" || !isStream(a.Name) {
		a.WrongPlace("does not name a Firehose stream", "firehose:NAME, where NAME is 1 to 64 of a-z, A-Z, 0-9, _, . and -")
	}
	c := Config{a.Name, settings.Choice(a.Parser, "delimiter", "newline", "none") == "newline"}
	return c, a.Done("delimiter")
}

// Open makes a Sink with a client of its own. It sends no request. load loads the settings of AWS:
// awsclient.FromEnvironment in a Lambda function, or a loader of the SDK.
func (c Config) Open(ctx context.Context, load func(context.Context) (aws.Config, error)) (*Sink, error) {
	client, err := NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return New(client, c.Stream, WithDelimiter(c.Delimited))
}
