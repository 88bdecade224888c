// Package firehosesink delivers records to an Amazon Data Firehose stream, which writes them to S3, OpenSearch,
// Redshift, Snowflake and other destinations.
//
//	client, err := firehosesink.NewClient(ctx, awsclient.FromEnvironment)
//	...
//	sink, err := firehosesink.New(client, "unique-clicks")
//	...
//	sent, err := sink.Send(ctx, outputs)
//
// # What a reader of the destination sees
//
// The level of this sink is "at least once" (package sinktest), with stable ids. A record may come several times,
// with equal ids: after a crash, a time-out or a lost reply between the sink and Firehose, and after a failed
// delivery between Firehose and its destination. Sent.Repeated counts the copies that a Send itself makes. A record
// that Firehose refused at first is delivered once, however often it was refused.
//
// "Delivered" means that Firehose has stored the record. If Firehose cannot write to its destination, it keeps a
// record for 24 hours and then drops it (API reference, PutRecordBatch). Watch the alarm of the destination, such as
// DeliveryToS3.DataFreshness.
//
// # Order
//
// Firehose promises no order, and neither does the sink. It sends records in order, but sends a refused record again
// after the records that follow it. Firehose does not use partition keys.
//
// # Delimiter
//
// Firehose joins records to objects without a delimiter. So the sink appends a line break to each record that does
// not end with one. If each record is JSON in one line, the objects are then NDJSON. WithDelimiter(false) sends
// records unchanged. Use it for a Firehose stream that has the processor AppendDelimiterToRecord.
package firehosesink

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/firehose/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/internal/records/firehoseaddress"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// MaxRecord is the size of the largest record in bytes, with its delimiter, before the base64 encoding of the request
// (API reference, PutRecordBatch; developer guide, "Amazon Data Firehose Quota").
const MaxRecord = 1000 << 10

// The limits of one request, in records and in bytes of data (as MaxRecord).
const (
	maxRecords = 500
	maxBytes   = 4 << 20
)

// reasonTooLarge is the reason why Firehose can never take a record.
const reasonTooLarge = "it is too large for a record of a Firehose stream"

// advice says what to do about wrong settings, by error code (API reference, PutRecordBatch).
var advice = map[string]string{
	"ResourceNotFoundException":   "the Firehose stream does not exist; check its name and region",
	"AccessDeniedException":       "access denied; the function needs firehose:PutRecordBatch",
	"InvalidSourceException":      "the source of the Firehose stream is not Direct PUT; choose one that is",
	"InvalidKMSResourceException": "the key of the Firehose stream cannot be used; check that it is enabled",
}

// API is the part of *firehose.Client that the sink calls.
type API interface {
	PutRecordBatch(
		ctx context.Context, in *firehose.PutRecordBatchInput, options ...func(*firehose.Options),
	) (*firehose.PutRecordBatchOutput, error)
}

// Sink delivers records to one Firehose stream. It is safe for concurrent use.
type Sink struct {
	client    API
	stream    string
	delimited bool
	batches   batchsink.API
}

var _ dedupe.Sink = (*Sink)(nil)

// Option changes a default of a Sink.
type Option func(*Sink)

// WithDelimiter says whether the sink appends a line break to each record that does not end with one. The default is
// true.
func WithDelimiter(on bool) Option { return func(s *Sink) { s.delimited = on } }

// New makes a sink for a Firehose stream in the client's account and region. It sends no request. The source of the
// stream must be Direct PUT. The client must not retry, like that of NewClient: otherwise its repeats are not
// counted.
func New(client API, stream string, options ...Option) (*Sink, error) {
	s := &Sink{client: client, stream: stream, delimited: true}
	for _, o := range options {
		o(s)
	}
	if !firehoseaddress.IsStream(stream) {
		return nil, fmt.Errorf("%q is not the name of a Firehose stream: use 1 to 64 of a-z, A-Z, 0-9, _, . and -", stream)
	}
	s.batches = batchsink.API{
		Doing:  fmt.Sprintf("firehose: put records into %q", stream),
		Advice: advice, MaxRecords: maxRecords, MaxBytes: maxBytes, Parallel: 1,
		Size: s.size, Put: s.put, Wait: pause.BackOff,
	}
	return s, nil
}

// Check returns a *dedupe.PoisonError for a record that is larger than MaxRecord. Such a record would fail its
// request each time. Check sends no request and returns no other error.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error {
	if s.size(o) > MaxRecord {
		return &dedupe.PoisonError{Reason: reasonTooLarge}
	}
	return nil
}

// Send delivers records by PutRecordBatch. All of them must have passed Check. Records that Firehose refuses, or that
// get no answer, are sent again, with growing random pauses, until the deadline of the context. If it has no
// deadline, Send gives up after six attempts without progress. It gives up at once after an error that a later
// attempt cannot avoid.
//
// Sent names each record that is certainly delivered, also if there is an error. Some of the others may be delivered.
// Sending them again is safe for readers that compare ids.
//
// Sent.Repeated counts the copies of records that were sent, and not refused, after an earlier request of this Send
// may have delivered them: a request without an answer, or with a fault of the service as the answer.
//
// Errors: the family dedupe.ErrTryAgain; the error of the context if it was cancelled; any other error means that the
// settings of the stream or the client are wrong.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	return s.batches.Send(ctx, outputs)
}

var lineBreak = []byte("\n")

func (s *Sink) lacksDelimiter(o dedupe.Output) bool {
	return s.delimited && !bytes.HasSuffix(o.Data, lineBreak)
}

func (s *Sink) size(o dedupe.Output) int {
	if s.lacksDelimiter(o) {
		return len(o.Data) + len(lineBreak)
	}
	return len(o.Data)
}

func (s *Sink) put(ctx context.Context, outputs []dedupe.Output) ([]*batchsink.RefusalError, error) {
	in := &firehose.PutRecordBatchInput{DeliveryStreamName: &s.stream, Records: make([]types.Record, len(outputs))}
	for i, o := range outputs {
		in.Records[i].Data = s.data(o)
	}
	out, err := s.client.PutRecordBatch(ctx, in)
	if err != nil {
		return nil, err
	}
	results := make([]*batchsink.RefusalError, len(out.RequestResponses))
	for i, r := range out.RequestResponses {
		if r.ErrorCode != nil || r.RecordId == nil {
			results[i] = refusal(aws.ToString(r.ErrorCode), aws.ToString(r.ErrorMessage))
		}
	}
	return results, nil
}

func (s *Sink) data(o dedupe.Output) []byte {
	switch {
	case s.lacksDelimiter(o):
		return slices.Concat(o.Data, lineBreak)
	case o.Data == nil:
		return []byte{} // nil would leave the member out
	}
	return o.Data
}

// The codes of a record that is not delivered. PutRecordBatch has no others (API reference). After an internal
// failure "the write might have completed".
const (
	codeBusy     = "ServiceUnavailableException"
	codeInternal = "InternalFailure"
)

// refusal makes a RefusalError from a result. A result with neither a code nor a record id says nothing about the
// record.
func refusal(code, message string) *batchsink.RefusalError {
	known := code == codeBusy || code == codeInternal || code == ""
	return &batchsink.RefusalError{
		Code: code, Message: message,
		Transient: known || awserror.IsThrottled(code),
		Certain:   code != codeInternal && code != "",
	}
}
