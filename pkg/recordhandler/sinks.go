package recordhandler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/internal/records/firehoseaddress"
	"github.com/oncebox/oncebox/internal/shared/address"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
	"github.com/oncebox/oncebox/pkg/sink/ndjsonsink"
	"github.com/oncebox/oncebox/pkg/sink/objectsink"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

// SinkSetting is the destination of unique records. Exactly one field is set.
type SinkSetting struct {
	Stream   *kinesissink.Config
	Firehose *firehoseaddress.Config // is firehosesink.Config
	Queue    *sqssink.Config
	Objects  *objectsink.Config
	Table    *dynamosink.Table
	File     string // an NDJSON file
	Own      string // the name of a sink in the parts of New: a record that is done for one name is not done for another
}

// String names the sink in acks: its address without options, so that a record that is done stays done when an option
// changes.
func (s SinkSetting) String() string {
	switch {
	case s.Stream != nil:
		return "kinesis:" + s.Stream.Stream
	case s.Firehose != nil:
		return "firehose:" + s.Firehose.Stream
	case s.Queue != nil:
		return "sqs:" + s.Queue.URL
	case s.Objects != nil:
		return "s3://" + s.Objects.Bucket + "/" + s.Objects.Prefix
	case s.Table != nil:
		return "dynamodb:" + s.Table.Name
	case s.File != "":
		sum := sha256.Sum256([]byte(s.File)) // a path may be longer than a key of a table
		return "ndjson:" + hex.EncodeToString(sum[:16])
	}
	return "own:" + s.Own
}

// sinks reads addresses, by scheme.
var sinks = map[string]func(text string) (SinkSetting, error){
	"kinesis": func(text string) (SinkSetting, error) {
		c, err := kinesissink.Parse(text)
		return SinkSetting{Stream: &c}, err
	},
	"firehose": func(text string) (SinkSetting, error) {
		c, err := firehoseaddress.Parse(text)
		return SinkSetting{Firehose: &c}, err
	},
	"sqs": func(text string) (SinkSetting, error) {
		c, err := sqssink.Parse(text)
		return SinkSetting{Queue: &c}, err
	},
	"s3": func(text string) (SinkSetting, error) {
		c, err := objectsink.Parse(text)
		return SinkSetting{Objects: &c}, err
	},
	"dynamodb": func(text string) (SinkSetting, error) {
		t, err := dynamosink.Parse(text)
		return SinkSetting{Table: &t}, err
	},
	"ndjson": func(text string) (SinkSetting, error) {
		path, err := ndjsonsink.Parse(text)
		return SinkSetting{File: path}, err
	},
}

// ParseSink reads the address of a sink, a value of ONCEBOX_SINK. Its error is a *settings.Error without the name of the
// setting.
func ParseSink(text string) (SinkSetting, error) {
	parse := sinks[address.Scheme(text)]
	if parse == nil {
		a := address.Parse("") // an unknown text may be a secret, and is not repeated
		a.WrongPlace("is not a known sink", strings.Join(slices.Sorted(maps.Keys(sinks)), ":, ")+":")
		return SinkSetting{}, a.Done()
	}
	return parse(text)
}

func (p parser) sink() (s SinkSetting) {
	text := p.s.Sink
	switch {
	case text == "":
	case sinks[address.Scheme(text)] == nil:
		p.Refuse(&p.s.Sink, "is not a known sink", "")
	default:
		var err error
		s, err = ParseSink(text)
		p.WrongAddress(p.Variable(&p.s.Sink), err)
	}
	return s
}

// isSource reports whether the sink is the source that records come from. Streams and tables are found in the account and
// region of the function. Outside of Lambda these are not known, and a source of the same name is taken for the sink.
func (s SinkSetting) isSource(ctx context.Context, source dedupe.Stream) bool {
	if s.Queue == nil && isElsewhere(ctx, source) {
		return false
	}
	if table, isTable := strings.CutPrefix(source.Name, "dynamodb:"); isTable {
		return s.Table != nil && table == s.Table.Name
	}
	if queue, isQueue := strings.CutPrefix(source.Name, "sqs:"); isQueue {
		return s.Queue != nil && strings.HasSuffix(s.Queue.URL, "/"+source.Account+"/"+queue) &&
			strings.Contains(s.Queue.URL, source.Region)
	}
	return s.Stream != nil && source.Name == s.Stream.Stream
}

// isElsewhere reports whether a source is in another account or region than the function. Outside of Lambda it is false.
func isElsewhere(ctx context.Context, source dedupe.Stream) bool {
	lambda, ok := lambdacontext.FromContext(ctx)
	if !ok {
		return false
	}
	function, known := arn.Of("lambda", lambda.InvokedFunctionArn)
	return known && (function.Account != source.Account || function.Region != source.Region)
}

// openSink adds the sink of the options to the parts.
func openSink(
	ctx context.Context, load func(context.Context) (aws.Config, error), store Store, o Options, log *slog.Logger,
	p *dedupe.Parts,
) (closeSink func() error, err error) {
	closeSink = func() error { return nil }
	switch s := o.Sink; {
	case s.File != "":
		sink, err := ndjsonsink.Open(s.File)
		if err != nil {
			return closeSink, err
		}
		p.Sink, closeSink = sink, sink.Close
	case s.Table != nil:
		p.Ledger = nil // the sink has the entries
		p.Tx, err = openTable(store, *s.Table)
	case s.Firehose != nil && o.Clients.Firehose == nil:
		err = notLinked("ONCEBOX_SINK", "firehose:")
	case s.Firehose != nil:
		p.Sink, err = o.Clients.Firehose(ctx, load, *s.Firehose)
	case s.Queue != nil:
		p.Sink, err = s.Queue.Open(ctx, load)
	case s.Objects != nil:
		p.Acks = nil // the objects show which records are done
		p.Objects, err = openObjects(ctx, load, o)
	case s.Stream != nil:
		p.Sink, err = s.Stream.Open(ctx, load, kinesissink.WithFallback(unaggregated(log)))
	}
	return closeSink, err
}

// unaggregated logs that the sink cannot make aggregates.
func unaggregated(log *slog.Logger) func(error) {
	return func(err error) {
		log.Warn("records are sent without aggregation", "error", err.Error())
	}
}
