package kinesishandler

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

// sinkVariables has the variables that are only for some kinds of sinks.
var sinkVariables = []struct {
	variable string
	kinds    []string
}{
	{varSinkAggregation, []string{"kinesis"}},
	{varSinkMaxRecord, []string{"kinesis", "sqs"}},
	{varSinkEncoding, []string{"sqs"}},
	{varSinkDelimiter, []string{"firehose"}},
	{varSinkObjectFormat, []string{"s3"}},
	{varSinkCompression, []string{"s3"}},
	{varSinkObjectSize, []string{"s3"}},
	{varSinkKey, []string{"dynamodb"}},
	{varSinkVersion, []string{"dynamodb"}},
	{varSinkDelete, []string{"dynamodb"}},
}

// refuseOtherSinks refuses variables that this kind of sink does not have.
func (p parser) refuseOtherSinks(kind string) {
	for _, v := range sinkVariables {
		if p.Text(v.variable) != "" && !slices.Contains(v.kinds, kind) {
			p.Wrong(v.variable, "is not a setting of "+varSink+"="+kind, "leave it empty")
		}
	}
}

// isSource reports whether the sink is the source that records come from.
func (s SinkSetting) isSource(source dedupe.Stream) bool {
	if table, isTable := strings.CutPrefix(source.Name, "dynamodb:"); isTable {
		return table == s.Table
	}
	queue, isQueue := strings.CutPrefix(source.Name, "sqs:")
	return !isQueue && source.Name == s.Stream ||
		isQueue && strings.HasSuffix(s.Queue, "/"+source.Account+"/"+queue) && strings.Contains(s.Queue, source.Region)
}

func (p parser) firehose(name, allowed string) SinkSetting {
	if _, err := firehosesink.New(nil, name); err != nil {
		p.Wrong(varSink, "does not name a Firehose stream", allowed+", where NAME is 1 to 64 of a-z, A-Z, 0-9, _, . and -")
	}
	return SinkSetting{Firehose: name}
}

func (p parser) queue(url, allowed string) SinkSetting {
	if _, err := sqssink.New(nil, url); err != nil {
		p.Wrong(varSink, "does not have the URL of an SQS queue",
			allowed+", where URL is https://sqs.REGION.amazonaws.com/ACCOUNT/NAME")
	}
	return SinkSetting{Queue: url}
}

func (p parser) sinkMaxRecord(kind string) int {
	if kind == "sqs" {
		return p.Size(varSinkMaxRecord, sqssink.LargestRecord, sqssink.SmallestLimit, sqssink.LargestRecord,
			"1KiB to 1MiB, the MaximumMessageSize of the queue")
	}
	return p.Size(varSinkMaxRecord, kinesissink.DefaultMaxRecord, kinesissink.DefaultMaxRecord, kinesissink.LargestRecord,
		"1MiB to 10MiB, as the stream allows")
}

func (p parser) sinkEncoding() sqssink.Encoding {
	text := sqssink.Encoding(cmp.Or(p.Text(varSinkEncoding), string(sqssink.EncodingText)))
	if text != sqssink.EncodingText && text != sqssink.EncodingBase64 {
		p.Wrong(varSinkEncoding, "is neither text nor base64", "text or base64")
	}
	return text
}

// noDelimiter reads the delimiter of the records of a Firehose stream.
func (p parser) noDelimiter() bool {
	switch p.Text(varSinkDelimiter) {
	case "", "newline":
		return false
	case "none":
		return true
	}
	p.Wrong(varSinkDelimiter, "is neither newline nor none", "newline or none")
	return false
}

func openFirehose(ctx context.Context, load func(context.Context) (aws.Config, error), o Options) (dedupe.Sink, error) {
	client, err := firehosesink.NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return firehosesink.New(client, o.Sink.Firehose, firehosesink.WithDelimiter(!o.SinkNoDelimiter))
}

func openQueue(ctx context.Context, load func(context.Context) (aws.Config, error), o Options) (dedupe.Sink, error) {
	client, err := sqssink.NewClient(ctx, load)
	if err != nil {
		return nil, err
	}
	return sqssink.New(client, o.Sink.Queue,
		sqssink.WithEncoding(cmp.Or(o.SinkEncoding, sqssink.EncodingText)),
		sqssink.WithMaxRecord(cmp.Or(o.SinkMaxRecord, sqssink.LargestRecord)))
}
