package kinesissink

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Config is the address of a stream, in the account and region of the function.
type Config struct {
	Stream      string
	Aggregation Aggregation
	MaxRecord   int // bytes
}

// Parse reads kinesis:NAME. These options may stand behind it, as in ?aggregation=kpl&max-record=10MiB:
//
//	aggregation  which records are put into KPL aggregates: kpl all, none no record, auto those that came in one;
//	             default auto
//	max-record   the largest record that the stream takes, 1MiB to 10MiB; default 1MiB
//
// The error is a list of all problems. It repeats no value.
func Parse(text string) (Config, error) {
	a := address.Parse(text)
	if a.Scheme != "kinesis" || !isStream(a.Name) {
		a.WrongPlace("does not name a Kinesis stream", "kinesis:NAME, where NAME is 1 to 128 of a-z, A-Z, 0-9, _, . and -")
	}
	c := Config{
		Stream:      a.Name,
		Aggregation: settings.Choice(a.Parser, "aggregation", AggregateAuto, AggregateAlways, AggregateNever),
		MaxRecord: a.Size("max-record", DefaultMaxRecord, DefaultMaxRecord, LargestRecord,
			"1MiB to 10MiB, as the stream allows"),
	}
	return c, a.Done("aggregation", "max-record")
}

// Open makes a Sink with a client of its own. It sends no request. load loads the settings of AWS:
// awsclient.FromEnvironment in a Lambda function, or a loader of the SDK.
func (c Config) Open(ctx context.Context, load func(context.Context) (aws.Config, error), options ...Option) (*Sink, error) {
	client, err := NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return New(client, c.Stream, append([]Option{WithAggregation(c.Aggregation), WithMaxRecord(c.MaxRecord)}, options...)...)
}
