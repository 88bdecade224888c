// Package kinesissink delivers records to a Kinesis data stream.
//
//	client, err := kinesissink.NewClient(ctx, awsclient.FromEnvironment)
//	...
//	sink, err := kinesissink.New(client, "unique-clicks")
//	...
//	sent, err := sink.Send(ctx, outputs)
//
// # What a reader of the stream sees
//
// The level of this sink is "at least once" (package sinktest), with stable ids. A record may be in the stream
// several times, with equal ids: after a crash, a time-out or a lost reply, and after a resharding (see Aggregates).
// Sent.Repeated counts the copies that a Send itself makes. A record that the stream refused at first is in the
// stream once, however often it was
// refused.
//
// # Order
//
// The key of a record is its explicit hash key, or its partition key if it has none. The key chooses the shard.
// Within a Send, records of one key keep their order:
//
//   - A record waits while an earlier record of its key was sent and is not delivered. Records of other keys do not
//     wait: a shard that refuses records delays only their keys.
//   - A record is not in the same request as an earlier record of its key if either of the two is in an aggregate.
//
// There is one exception. Plain records of one key share a request, and PutRecords continues after a record that it
// refuses. If it refuses a plain record and takes a later one of the same key, the order of these two changes. If you
// need the order of single records, put a sequence number into them.
//
// # Aggregates
//
// A shard takes 1,000 Kinesis records and 1 MB a second. The sink aggregates small records, as the Kinesis Producer
// Library (KPL) does: see WithAggregation. The records keep their partition keys and explicit hash keys.
//
// An aggregate has records of one shard only. The Kinesis Client Library (KCL) drops an aggregate if the hash key of
// one of its records is outside the shard's range (AggregatorUtil of awslabs/amazon-kinesis-client). So after a
// resharding, an aggregate may be in a shard where KCL drops it, but other readers, such as a Lambda function, do
// not. It does not count as delivered: the sink sends its records again, plain, and counts them as repeated.
//
// The sink needs kinesis:PutRecords, and for aggregates also kinesis:ListShards. It lists the shards when it first
// aggregates records, and again after a resharding. If it cannot list them, it sends plain records, and calls the
// function of WithFallback.
package kinesissink

import (
	"context"
	"encoding/hex"
	"fmt"
	"regexp"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/kinesis"

	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The size of a record is the size of its data and its partition key, in bytes. The limit of a stream is
// DefaultMaxRecord, or the size that UpdateMaxRecordSize has set, at most LargestRecord (developer guide, "Handle
// large records").
const (
	DefaultMaxRecord = 1 << 20
	LargestRecord    = 10 << 20
)

// The limits of a record (API reference, PutRecordsRequestEntry).
const (
	maxKeyLength  = 256
	maxHashKey    = "340282366920938463463374607431768211455" // 2^128 - 1
	maxStreamName = 128                                       // CreateStream
)

// The lengths are checked separately: in the patterns they would take 190 KB at every start.
var (
	hashKeyPattern = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	streamPattern  = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`) // CreateStream
)

// The reasons why a stream can never take a record.
const (
	reasonTooLarge  = "it is too large for a record of the sink's stream"
	reasonKeyUTF8   = "its partition key is not UTF-8"
	reasonKeyLength = "its partition key has more than 256 characters"
	reasonHashKey   = "its explicit hash key is not a decimal number below 2^128"
)

// Aggregation says which records the sink aggregates.
type Aggregation string

// In all modes, a record that is alone or does not fit into an aggregate is sent plain, as the KPL does.
const (
	AggregateAuto   Aggregation = "auto" // records that came in an aggregate: Output.Aggregated
	AggregateAlways Aggregation = "kpl"  // all records; all readers of the stream must open aggregates
	AggregateNever  Aggregation = "none" // no record
)

// API is the part of *kinesis.Client that the sink calls.
type API interface {
	PutRecords(
		ctx context.Context, in *kinesis.PutRecordsInput, options ...func(*kinesis.Options),
	) (*kinesis.PutRecordsOutput, error)
	ListShards(
		ctx context.Context, in *kinesis.ListShardsInput, options ...func(*kinesis.Options),
	) (*kinesis.ListShardsOutput, error)
}

// Sink delivers records to one stream. It is safe for concurrent use.
type Sink struct {
	client      API
	stream      string
	maxRecord   int
	aggregation Aggregation
	shards      shardList
	attempts    batchsink.API
}

var _ dedupe.Sink = (*Sink)(nil)

// Option changes a default of a Sink.
type Option func(*Sink)

// WithMaxRecord sets the size of the largest record that the stream takes, from 1 to LargestRecord bytes. The default
// is DefaultMaxRecord.
func WithMaxRecord(bytes int) Option { return func(s *Sink) { s.maxRecord = bytes } }

// WithAggregation sets which records are aggregated. The default is AggregateAuto.
func WithAggregation(a Aggregation) Option { return func(s *Sink) { s.aggregation = a } }

// WithFallback sets a function that is called when the sink begins to send plain records instead of aggregates,
// because it cannot list the shards of the stream. The error has the reason; most often the permission
// kinesis:ListShards is missing. The records are delivered, but they may be too many for the stream. The sink tries
// to list the shards again at most every 10 s. It calls the function again only after a successful listing, so one
// outage is one call. Calls are not concurrent. The function must not call the sink.
func WithFallback(fallback func(error)) Option { return func(s *Sink) { s.shards.fallback = fallback } }

// New makes a sink for a stream in the client's account and region. It sends no request. The client must not retry,
// like that of NewClient: otherwise its repeats are not counted.
func New(client API, stream string, options ...Option) (*Sink, error) {
	s := &Sink{
		client: client, stream: stream, maxRecord: DefaultMaxRecord, aggregation: AggregateAuto,
		shards: shardList{client: client, stream: stream, fallback: func(error) {}},
		attempts: batchsink.API{
			Doing: fmt.Sprintf("kinesis: put records into %q", stream), Advice: advice, Wait: pause.BackOff,
		},
	}
	for _, o := range options {
		o(s)
	}
	if !isStream(stream) {
		return nil, fmt.Errorf("%q is not the name of a Kinesis stream: use 1 to 128 of a-z, A-Z, 0-9, _, . and -", stream)
	}
	if s.maxRecord < 1 || s.maxRecord > LargestRecord {
		return nil, fmt.Errorf("kinesis sink: the largest record is %d bytes; use 1 to %d", s.maxRecord, LargestRecord)
	}
	switch s.aggregation {
	case AggregateAuto, AggregateAlways, AggregateNever:
		return s, nil
	}
	return nil, fmt.Errorf("kinesis sink: aggregation is %q; use auto, kpl or none", s.aggregation)
}

func isStream(name string) bool { return len(name) <= maxStreamName && streamPattern.MatchString(name) }

// Check returns a *dedupe.PoisonError for a record that the stream can never take. Such a record would fail its
// request each time. Check sends no request and returns no other error.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error {
	switch key := partitionKey(o); {
	case len(o.Data)+len(key) > s.maxRecord:
		return &dedupe.PoisonError{Reason: reasonTooLarge}
	case !utf8.ValidString(key):
		return &dedupe.PoisonError{Reason: reasonKeyUTF8}
	case len(key) > maxKeyLength && characters(key) > maxKeyLength:
		return &dedupe.PoisonError{Reason: reasonKeyLength}
	case !validHashKey(o.ExplicitHashKey):
		return &dedupe.PoisonError{Reason: reasonHashKey}
	}
	return nil
}

// characters counts UTF-16 units, which gives the highest count, because the API reference does not define a
// character.
func characters(key string) int { return len(utf16.Encode([]rune(key))) }

func validHashKey(key string) bool {
	return key == "" || hashKeyPattern.MatchString(key) && dedupe.CompareSequence(key, maxHashKey) <= 0
}

// partitionKey returns the record's own key, or a key made from its id if it has none: a source stream in mode AUTO
// accepts records without a key, other streams do not.
func partitionKey(o dedupe.Output) string {
	if o.PartitionKey != "" {
		return o.PartitionKey
	}
	key := format.KeyOf(o.ID)
	return hex.EncodeToString(key[:])
}
