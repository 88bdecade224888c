// Package kinesissink delivers records to a Kinesis data stream.
//
//	client, err := kinesissink.NewClient(ctx, awsclient.FromEnvironment)
//	...
//	sink, err := kinesissink.New(client, "unique-clicks")
//	...
//	delivered, err := sink.Send(ctx, outputs)
//
// # What a reader of the stream sees
//
// Delivery is at least once, with stable ids. A record may be in the stream several times, with equal ids: after a
// crash, a time-out or a lost reply, and after a request that failed in part.
//
// Records of one request, up to 500, can change their order: PutRecords goes on after a record that it refuses, and the
// sink sends the refused records again after the others. It sends no record of the next request before all records of
// this one are delivered. If you need the order of single records, put a sequence number into them.
package kinesissink

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// The limits of one request, in records and in bytes of data and partition keys (API reference, PutRecords).
const (
	maxRecords = 500
	maxBytes   = 10 << 20
)

// The size of a record is that of its data and its partition key, in bytes. The limit of a stream is
// DefaultMaxRecord, or a size that UpdateMaxRecordSize has set, at most LargestRecord (developer guide, "Handle large
// records").
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

// The lengths are checked apart: in the patterns they take 190 KB of every start.
var (
	hashKeyPattern = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	streamPattern  = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`) // CreateStream
)

// Send gives up after maxAttempts without progress, which take about three seconds. The limits of a shard are per
// second, so the stream is then far too small, or broken.
const (
	maxAttempts  = 6
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Second
)

// The reasons for which a stream can never take a record.
const (
	reasonTooLarge  = "it is too large for a record of the sink's stream"
	reasonKeyUTF8   = "its partition key is not UTF-8"
	reasonKeyLength = "its partition key has more than 256 characters"
	reasonHashKey   = "its explicit hash key is not a decimal number below 2^128"
)

// API is what the sink needs of a *kinesis.Client.
type API interface {
	PutRecords(
		ctx context.Context, in *kinesis.PutRecordsInput, options ...func(*kinesis.Options),
	) (*kinesis.PutRecordsOutput, error)
}

// Sink delivers records to one stream. It is safe for concurrent use.
type Sink struct {
	client    API
	stream    string
	maxRecord int
	repeated  func(records int)
	wait      func(ctx context.Context, attempt int) error
}

var _ dedupe.Sink = (*Sink)(nil)

// Option changes a default of a Sink.
type Option func(*Sink)

// WithMaxRecord sets the size of the largest record that the stream takes, from 1 to LargestRecord bytes. The default
// is DefaultMaxRecord.
func WithMaxRecord(bytes int) Option { return func(s *Sink) { s.maxRecord = bytes } }

// WithRepeated sets a function that Send calls before it sends records again that an earlier request may have
// delivered: a request without an answer, or with a fault of the service as the answer. The sum is an upper limit of
// the repeats that the sink makes by itself. Calls may be concurrent.
func WithRepeated(repeated func(records int)) Option {
	return func(s *Sink) { s.repeated = repeated }
}

// New makes a sink of a stream in the client's account and region. It makes no request. The client must not retry by
// itself, as that of NewClient: else its repeats are not reported.
func New(client API, stream string, options ...Option) (*Sink, error) {
	s := &Sink{client: client, stream: stream, maxRecord: DefaultMaxRecord, repeated: func(int) {}, wait: backOff}
	for _, o := range options {
		o(s)
	}
	if len(stream) > maxStreamName || !streamPattern.MatchString(stream) {
		return nil, fmt.Errorf("%q is not the name of a Kinesis stream: use 1 to 128 of a-z, A-Z, 0-9, _, . and -", stream)
	}
	if s.maxRecord < 1 || s.maxRecord > LargestRecord {
		return nil, fmt.Errorf("kinesis sink: the largest record is %d bytes; use 1 to %d", s.maxRecord, LargestRecord)
	}
	return s, nil
}

// Check returns a *dedupe.PoisonError for a record that the stream can never take. Such a record would fail its whole
// request each time.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error {
	switch key := partitionKey(o); {
	case size(o) > s.maxRecord:
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

// characters counts UTF-16 units, which gives the highest count: the API reference does not define a character.
func characters(key string) int { return len(utf16.Encode([]rune(key))) }

func validHashKey(key string) bool {
	return key == "" || hashKeyPattern.MatchString(key) && dedupe.CompareSequence(key, maxHashKey) <= 0
}

func size(o dedupe.Output) int { return len(o.Data) + len(partitionKey(o)) }

// partitionKey returns the record's own key, or else a key made of its id: a source stream in mode AUTO takes records
// without a key, other streams do not.
func partitionKey(o dedupe.Output) string {
	if o.PartitionKey != "" {
		return o.PartitionKey
	}
	key := format.KeyOf(o.ID)
	return hex.EncodeToString(key[:])
}

// Send delivers records by PutRecords, one request after the other. It sends the records that a request did not deliver
// again, alone, with pauses that grow and have jitter. It gives up when there is no more progress, and at once after an
// error that time does not cure. delivered counts the records from the first one on that are delivered for sure; of the
// others, up to one request may be in the stream, too. Sending them again is safe for readers that compare ids.
//
// Errors: the family dedupe.ErrTryAgain; the error of the context if it was cancelled; any other error means that the
// settings of the stream or the client are wrong.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	n, err := s.send(ctx, outputs)
	sent := dedupe.Sent{Delivered: make([]bool, len(outputs))}
	for i := range n {
		sent.Delivered[i] = true
	}
	return sent, err
}

func (s *Sink) send(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	for delivered < len(outputs) {
		rest := outputs[delivered:]
		n, err := s.sendRequest(ctx, rest[:fit(rest)])
		delivered += n
		if err != nil {
			return delivered, err
		}
	}
	return delivered, nil
}

// fit returns how many of the records fit into one request.
func fit(outputs []dedupe.Output) (n int) {
	for bytes := 0; n < min(len(outputs), maxRecords); n++ {
		bytes += size(outputs[n])
		if n > 0 && bytes > maxBytes {
			break
		}
	}
	return n
}

// sendRequest delivers records that fit into one request. It sends as many requests as that takes.
func (s *Sink) sendRequest(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	open := make([]int, len(outputs)) // indexes of the records that are not delivered
	for i := range open {
		open[i] = i
	}
	for attempt := 1; ; attempt++ {
		rest, answered, err := s.put(ctx, outputs, open)
		if len(rest) == 0 {
			return len(outputs), nil
		}
		if len(rest) < len(open) {
			attempt = 1
		}
		if !errors.Is(err, dedupe.ErrTryAgain) || attempt == maxAttempts {
			return rest[0], err
		}
		if ended := s.wait(ctx, attempt); ended != nil {
			return rest[0], s.translate(fmt.Errorf("%w; before that: %s", ended, err.Error()))
		}
		if !answered {
			s.repeated(len(rest))
		}
		open = rest
	}
}

// put sends the open records in one request. It returns the indexes of the records that are not delivered for sure, the
// reason, and whether Kinesis has answered for each record.
func (s *Sink) put(ctx context.Context, outputs []dedupe.Output, open []int) (rest []int, answered bool, err error) {
	in := &kinesis.PutRecordsInput{StreamName: &s.stream, Records: make([]types.PutRecordsRequestEntry, len(open))}
	for i, index := range open {
		in.Records[i] = entry(outputs[index])
	}
	out, err := s.client.PutRecords(ctx, in)
	if err != nil {
		return open, false, s.translate(err)
	}
	if len(out.Records) != len(open) {
		return open, false, s.translate(errMisfit)
	}
	for i, r := range out.Records {
		if r.ErrorCode == nil && r.SequenceNumber != nil {
			continue
		}
		rest = append(rest, open[i])
		why := &refusal{aws.ToString(r.ErrorCode), aws.ToString(r.ErrorMessage)}
		if err == nil || !why.transient() {
			err = s.translate(why)
		}
	}
	return rest, true, err
}

func entry(o dedupe.Output) types.PutRecordsRequestEntry {
	e := types.PutRecordsRequestEntry{Data: o.Data, PartitionKey: aws.String(partitionKey(o))}
	if e.Data == nil {
		e.Data = []byte{} // nil would leave the member out
	}
	if o.ExplicitHashKey != "" {
		e.ExplicitHashKey = &o.ExplicitHashKey
	}
	return e
}

// backOff waits for a random time that grows with the attempts.
func backOff(ctx context.Context, attempt int) error {
	limit := min(maxBackoff, firstBackoff<<(attempt-1))
	t := time.NewTimer(limit/2 + rand.N(limit/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
