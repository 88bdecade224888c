// Package sqssink delivers records to an Amazon SQS queue, a standard queue or a FIFO queue.
//
//	client, err := sqssink.NewClient(ctx, awsclient.FromEnvironment)
//	...
//	sink, err := sqssink.New(client, "https://sqs.eu-west-1.amazonaws.com/123456789012/unique-clicks.fifo")
//	...
//	sent, err := sink.Send(ctx, outputs)
//
// # What a reader of the queue sees
//
// The level of this sink is "at least once" (package sinktest), with stable ids. A record may be in the queue several
// times, with equal ids: after a crash, a time-out or a lost reply. Sent.Repeated counts the copies that a Send
// itself makes. A record that the queue refused at first is in it once, however often it was refused. A standard
// queue also sometimes delivers a message twice.
//
// The body of a message is the record. The id of a record is in its payload, unless the format takes it from another
// place.
//
// # FIFO queues
//
// The deduplication id of a message is the id of its record. SQS drops a message whose deduplication id it has seen
// in the last five minutes. This drops most of the copies above, but not those that come later: the guarantee is
// still at least once. Sent.Repeated also counts copies that SQS drops, because the sink cannot see this.
//
// SQS compares ids, not payloads. So each record must have its own id: with Settings.PassSynthetic two different
// records may have one id, and SQS would drop the second one. The settings of the function refuse that.
//
// The message group of a message is the partition key of its record. Records of one partition key are sent one after
// the other, each when the one before is in the queue. So they are in the queue in the order of the stream. Only
// copies can be out of order.
//
// An id or a partition key of more than 128 characters, or with characters other than visible ASCII, is replaced by
// "sha256:" and its hash. A record without a partition key has its own group.
//
// A standard queue has no order. Messages there have neither a deduplication id nor a group.
//
// # Binary records
//
// A message is a text: UTF-8 without control characters except tab, line feed and carriage return, and without U+FFFE
// and U+FFFF. With EncodingText, the default, a record with other bytes is poison. EncodingBase64 encodes every
// record, because a reader could not tell which ones are encoded. It accepts all bytes, and takes a third more space.
package sqssink

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/internal/records/batchsink"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// LargestRecord is the size of the largest message in bytes, and of all messages of a request together (API
// reference, SendMessageBatch). A queue may have a lower limit, its MaximumMessageSize. A queue from before August
// 2025 has 256 KiB unless its limit was raised.
const LargestRecord = 1 << 20

const (
	maxRecords = 10 // of a request (API reference, SendMessageBatch)
	// parallel is how many requests are sent at the same time: one request takes about 10 ms, and 500 records take 50.
	parallel = 8
)

// Encoding says how a record becomes the body of a message.
type Encoding string

// The encodings.
const (
	EncodingText   Encoding = "text"   // unchanged; a record that SQS does not accept as text is poison
	EncodingBase64 Encoding = "base64" // standard base64 with padding
)

// advice says what to do about wrong settings, by error code (API reference, SendMessageBatch).
var advice = map[string]string{
	"QueueDoesNotExist":                       adviceNoQueue,
	"AWS.SimpleQueueService.NonExistentQueue": adviceNoQueue,
	"AccessDenied":                            adviceDenied,
	"AccessDeniedException":                   adviceDenied,
	"InvalidParameterValue":                   adviceTooLarge,
	"KmsAccessDenied":                         adviceKey,
	"KMS.AccessDeniedException":               adviceKey,
}

const (
	adviceNoQueue  = "the queue does not exist; check its URL and region"
	adviceDenied   = "access denied; the function needs sqs:SendMessage"
	adviceTooLarge = "if a message is larger than the queue allows, set the sink's largest record to the queue's " +
		"MaximumMessageSize"
	adviceKey = "the function may not use the key of the queue; it needs kms:Decrypt and kms:GenerateDataKey"
)

// API is the part of *sqs.Client that the sink calls.
type API interface {
	SendMessageBatch(
		ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options),
	) (*sqs.SendMessageBatchOutput, error)
}

// Sink delivers records to one queue. It is safe for concurrent use.
type Sink struct {
	client    API
	url       string
	fifo      bool
	maxRecord int
	encoding  Encoding
	batches   batchsink.API
}

var _ dedupe.Sink = (*Sink)(nil)

// Option changes a default of a Sink.
type Option func(*Sink)

// WithMaxRecord sets the size of the largest message that the queue takes, from 1 KiB to LargestRecord. It is the
// queue's MaximumMessageSize. The default is LargestRecord.
func WithMaxRecord(bytes int) Option { return func(s *Sink) { s.maxRecord = bytes } }

// WithEncoding sets how a record becomes the body of a message. The default is EncodingText.
func WithEncoding(e Encoding) Option { return func(s *Sink) { s.encoding = e } }

// SmallestLimit is the lowest MaximumMessageSize of a queue in bytes (API reference, SetQueueAttributes).
const SmallestLimit = 1 << 10

// IsFIFO reports whether the URL names a FIFO queue: the names of FIFO queues end with .fifo.
func IsFIFO(queueURL string) bool { return strings.HasSuffix(queueURL, ".fifo") }

// New makes a sink for the queue of a URL. It sends no request. The client must not retry, like that of NewClient:
// otherwise its repeats are not counted.
func New(client API, queueURL string, options ...Option) (*Sink, error) {
	s := &Sink{
		client: client, url: queueURL, fifo: IsFIFO(queueURL), maxRecord: LargestRecord, encoding: EncodingText,
	}
	for _, o := range options {
		o(s)
	}
	switch {
	case !isURL(queueURL):
		return nil, fmt.Errorf("%q is not the URL of an SQS queue", queueURL)
	case s.maxRecord < SmallestLimit || s.maxRecord > LargestRecord:
		return nil, fmt.Errorf("sqs sink: the largest record is %d bytes; use %d to %d",
			s.maxRecord, SmallestLimit, LargestRecord)
	case s.encoding != EncodingText && s.encoding != EncodingBase64:
		return nil, fmt.Errorf("sqs sink: the encoding is %q; use text or base64", s.encoding)
	}
	s.batches = batchsink.API{
		Doing:  "sqs: send messages to " + queueURL,
		Advice: advice, MaxRecords: maxRecords, MaxBytes: LargestRecord, Parallel: parallel,
		Size: s.size, Put: s.put, Wait: pause.BackOff,
	}
	if s.fifo {
		s.batches.Group = groupOf
	}
	return s, nil
}

// isURL reports whether a text may be the URL of a queue.
func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.User == nil && u.Host != "" && strings.Trim(u.Path, "/") != ""
}

// Send delivers records by SendMessageBatch, several requests at a time. All records must have passed Check. Records
// that the queue refuses, or that get no answer, are sent again, with growing random pauses, until the deadline of
// the context. If it has no deadline, Send gives up after six attempts without progress. It gives up at once after an
// error that a later attempt cannot avoid.
//
// Sent names each record that is certainly delivered, also if there is an error. Some of the others may be in the
// queue. Sending them again is safe for readers that compare ids.
//
// Sent.Repeated counts the copies of records that were sent, and not refused, after an earlier request of this Send
// may have delivered them: a request without an answer, or with a fault of the service as the answer.
//
// Errors: the family dedupe.ErrTryAgain; the error of the context if it was cancelled; any other error means that the
// settings of the queue or the client are wrong.
func (s *Sink) Send(ctx context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	return s.batches.Send(ctx, outputs)
}

func (s *Sink) put(ctx context.Context, outputs []dedupe.Output) ([]*batchsink.RefusalError, error) {
	in := &sqs.SendMessageBatchInput{QueueUrl: &s.url, Entries: make([]types.SendMessageBatchRequestEntry, len(outputs))}
	for i, o := range outputs {
		entry := types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: aws.String(s.body(o))}
		if s.fifo {
			entry.MessageDeduplicationId, entry.MessageGroupId = aws.String(token(o.ID)), aws.String(groupOf(o))
		}
		in.Entries[i] = entry
	}
	out, err := s.client.SendMessageBatch(ctx, in)
	if err != nil {
		return nil, err
	}
	return results(len(outputs), out), nil
}

// results sorts the results of a request by record, because SQS returns them in any order. A record without a result
// may be in the queue.
func results(n int, out *sqs.SendMessageBatchOutput) []*batchsink.RefusalError {
	all := make([]*batchsink.RefusalError, n)
	for i := range all {
		all[i] = &batchsink.RefusalError{Message: "the answer has no result", Transient: true}
	}
	set := func(id *string, result *batchsink.RefusalError) {
		if i, err := strconv.Atoi(aws.ToString(id)); err == nil && i >= 0 && i < n {
			all[i] = result
		}
	}
	for _, r := range out.Successful {
		set(r.Id, nil)
	}
	for _, r := range out.Failed {
		throttled := awserror.IsThrottled(aws.ToString(r.Code))
		set(r.Id, &batchsink.RefusalError{
			Code: aws.ToString(r.Code), Message: aws.ToString(r.Message),
			Transient: !r.SenderFault || throttled, Certain: r.SenderFault || throttled,
		})
	}
	return all
}
