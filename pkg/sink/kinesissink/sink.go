// Package kinesissink delivers records to a Kinesis data stream.
//
// # What a reader of the stream sees
//
// A record may be in the stream several times, with equal ids: after a crash, a
// time-out or a lost reply, and when a request failed in part.
//
// Records of one request, up to 500, can change their order: PutRecords goes on
// after a record that it refused, and the refused ones are sent again behind
// the others. Nothing of the next request is sent before all of this one are
// delivered. Whoever needs the order of single records needs PutRecord, at a
// request each, or a sequence of its own inside the records.
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

// What PutRecords takes in a request, records and bytes. Data and partition
// keys count (API reference, PutRecords).
const (
	maxRecords = 500
	maxBytes   = 10 << 20
)

// The size of a record is that of its data and its partition key. A stream
// takes DefaultMaxRecord, or what UpdateMaxRecordSize set, at most
// LargestRecord (developer guide, "Handle large records").
const (
	DefaultMaxRecord = 1 << 20
	LargestRecord    = 10 << 20
)

// What the API reference says of PutRecordsRequestEntry.
const (
	maxKeyLength  = 256
	maxHashKey    = "340282366920938463463374607431768211455" // 2^128 - 1
	maxStreamName = 128                                       // CreateStream
)

// The lengths stand apart: in patterns they cost 190 KB at every start.
var (
	hashKeyPattern = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	streamPattern  = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`) // CreateStream
)

// How long Send goes on with records that the stream refuses. A shard's limits
// are per second, so that about three seconds without any progress say that it
// is far too small, or that something is broken.
const (
	maxAttempts  = 6
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = time.Second
)

// The reasons for which a record can never be in a stream.
const (
	reasonTooLarge  = "it is too large for a record of the sink's stream"
	reasonKeyUTF8   = "its partition key is not UTF-8"
	reasonKeyLength = "its partition key has more than 256 characters"
	reasonHashKey   = "its explicit hash key is not a decimal number below 2^128"
)

// API is what the sink needs of a *kinesis.Client.
type API interface {
	PutRecords(ctx context.Context, in *kinesis.PutRecordsInput, options ...func(*kinesis.Options)) (*kinesis.PutRecordsOutput, error)
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

// Option changes a Sink from its defaults.
type Option func(*Sink)

// WithMaxRecord sets the largest record that the stream takes, in bytes, from 1
// to LargestRecord. The default is DefaultMaxRecord.
func WithMaxRecord(bytes int) Option { return func(s *Sink) { s.maxRecord = bytes } }

// WithRepeated sets what is told when Send sends records again although an
// earlier request may have delivered them: one that got no answer, or a fault
// of the service for one. It is an upper bound of the doubles that the sink
// makes by itself. Calls may be concurrent.
func WithRepeated(repeated func(records int)) Option {
	return func(s *Sink) { s.repeated = repeated }
}

// New makes a sink of a stream in the client's account and region; the stream
// is not asked. With a client that retries by itself (NewClient's does not)
// repeats go unreported.
func New(client API, stream string, options ...Option) (*Sink, error) {
	s := &Sink{client: client, stream: stream, maxRecord: DefaultMaxRecord, repeated: func(int) {}, wait: backOff}
	for _, o := range options {
		o(s)
	}
	if len(stream) > maxStreamName || !streamPattern.MatchString(stream) {
		return nil, fmt.Errorf("%q is not the name of a Kinesis stream (1 to 128 of a-z A-Z 0-9 _ . -)", stream)
	}
	if s.maxRecord < 1 || s.maxRecord > LargestRecord {
		return nil, fmt.Errorf("kinesis sink: largest record %d: want 1 to %d bytes", s.maxRecord, LargestRecord)
	}
	return s, nil
}

// Check returns a *dedupe.PoisonError for a record that the stream can never
// take. One such record would fail its whole request, again and again.
func (s *Sink) Check(o dedupe.Output) error {
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

// characters counts as the strictest does, by UTF-16 units: the API reference
// does not say what a character is.
func characters(key string) int { return len(utf16.Encode([]rune(key))) }

func validHashKey(key string) bool {
	return key == "" || hashKeyPattern.MatchString(key) && dedupe.CompareSequence(key, maxHashKey) <= 0
}

func size(o dedupe.Output) int { return len(o.Data) + len(partitionKey(o)) }

// partitionKey returns the record's own key or, if it has none, one made of its
// id: records of a stream that distributes by itself (AUTO) need none, other
// streams do.
func partitionKey(o dedupe.Output) string {
	if o.PartitionKey != "" {
		return o.PartitionKey
	}
	key := format.KeyOf(o.ID)
	return hex.EncodeToString(key[:])
}

// Send delivers records by PutRecords, request by request. What a request did
// not deliver is sent again, alone, with growing and jittered pauses, for as long
// as there is progress; then Send gives up. It gives up at once where time does
// not help.
//
// Of the records that are not delivered for sure, up to one request of them may
// be in the stream all the same. Errors: the family dedupe.ErrTryAgain; else the
// stream's or the client's settings are wrong. A cancelled context keeps its
// own error.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
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

// fit returns how many of the records make one request.
func fit(outputs []dedupe.Output) (n int) {
	for bytes := 0; n < min(len(outputs), maxRecords); n++ {
		bytes += size(outputs[n])
		if n > 0 && bytes > maxBytes {
			break
		}
	}
	return n
}

// sendRequest delivers records that fit into one request, by as many as it takes.
func (s *Sink) sendRequest(ctx context.Context, outputs []dedupe.Output) (delivered int, err error) {
	open := make([]int, len(outputs)) // places of the records to deliver
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

// put sends the records at the open places in one request. It returns those
// that are not delivered for sure, why, and whether Kinesis said so for each.
func (s *Sink) put(ctx context.Context, outputs []dedupe.Output, open []int) (rest []int, answered bool, err error) {
	in := &kinesis.PutRecordsInput{StreamName: &s.stream, Records: make([]types.PutRecordsRequestEntry, len(open))}
	for i, place := range open {
		in.Records[i] = entry(outputs[place])
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
		if err == nil || !why.passes() {
			err = s.translate(why)
		}
	}
	return rest, true, err
}

func entry(o dedupe.Output) types.PutRecordsRequestEntry {
	e := types.PutRecordsRequestEntry{Data: o.Data, PartitionKey: aws.String(partitionKey(o))}
	if e.Data == nil {
		e.Data = []byte{} // nil would be a missing member
	}
	if o.ExplicitHashKey != "" {
		e.ExplicitHashKey = &o.ExplicitHashKey
	}
	return e
}

// backOff waits a random time that grows with the attempts.
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
