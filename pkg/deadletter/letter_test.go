package deadletter_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kinesis/types"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

func discard() eventsource.Discard {
	arrival := time.Date(2026, 11, 20, 1, 2, 3, 456_000_000, time.UTC)
	return eventsource.Discard{
		Shard: "shardId-000000000001", Condition: eventsource.RetryAttemptsExhausted,
		FunctionARN: "arn:aws:lambda:eu-west-1:123456789012:function:orders-dedupe:live",
		StreamARN:   "arn:aws:kinesis:eu-west-1:123456789012:stream/orders", Invocations: 4, RequestID: "request",
		Records: []types.Record{
			{SequenceNumber: aws.String("100"), ApproximateArrivalTimestamp: &arrival},
			{SequenceNumber: aws.String("102"), ApproximateArrivalTimestamp: aws.Time(arrival.Add(time.Second))},
		},
		At: arrival.Add(time.Hour), Event: json.RawMessage(`{"Records":[]}`), ObjectID: "id",
	}
}

// TestInvocationRecords: Lambda's documents are read in all forms in which they come.
func TestInvocationRecords(t *testing.T) {
	t.Parallel()
	d := discard()
	_, object := d.Object()
	sns, err := json.Marshal(map[string]string{"Type": "Notification", "Message": string(d.Message())})
	must(t, err)
	for name, test := range map[string]struct {
		content []byte
		event   string
	}{
		"S3": {object, string(d.Event)}, "SQS": {d.Message(), ""}, "SNS": {sns, ""},
	} {
		l, err := deadletter.ParseLetter("n", test.content)
		must(t, err)
		b := l.Batch
		if l.Name != "n" || l.Poison != nil || b.Function != "orders-dedupe" || b.Stream != newLetter("1").Position.Stream ||
			b.Shard != d.Shard || b.First != "100" || b.Last != "102" || b.Size != 2 || b.Condition != string(d.Condition) ||
			!b.Arrival.Equal(*d.Records[0].ApproximateArrivalTimestamp) || !b.At.Equal(d.At) || string(b.Event) != test.event {
			t.Errorf("%s: %+v", name, b)
		}
		if l.Records() != 2 || l.Reason() != "RetryAttemptsExhausted" || !l.Arrival().Equal(b.Arrival) || l.Stream() != b.Stream ||
			l.Owner() != "123456789012/eu-west-1/orders/shardId-000000000001/100..102" {
			t.Errorf("%s: %d, %s, %v, %s", name, l.Records(), l.Reason(), l.Arrival(), l.Owner())
		}
	}
}

// TestInvocationsThatAreNone: what is no failure of an asynchronous invocation is refused with the reason.
func TestInvocationsThatAreNone(t *testing.T) {
	t.Parallel()
	const of = `"functionArn":"arn:aws:lambda:eu-west-1:123456789012:function:f:$LATEST","condition"`
	for content, says := range map[string]string{
		`{"requestContext":{` + of + `:"Success"},"requestPayload":{}}`:                "succeeded",
		`{"requestContext":{` + of + `:"RetriesExhausted"},"requestPayload":null}`:     "no requestPayload",
		`{"requestContext":{` + of + `:"RetriesExhausted"}}`:                           "no requestPayload",
		`{"requestContext":{"condition":"RetriesExhausted"},"requestPayload":{}}`:      "names no function",
		`{"requestContext":{` + of + `:"RetriesExhausted"},"timestamp":"x"}`:           "damaged",
		`{"requestContext":{` + of + `:"RetriesExhausted"},"DDBStreamBatchInfo":{}}`:   "DynamoDB",
		`{"requestContext":{` + of + `:"RetryAttemptsExhausted"},"KafkaBatchInfo":{}}`: "of another source: KafkaBatchInfo",
		`{"requestPayload":{"awslogs":{"data":"aa=="}}}`:                               "neither",
	} {
		if _, err := deadletter.ParseLetter("n", []byte(content)); !errors.Is(err, deadletter.ErrNotALetter) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: want %q, got %v", content, says, err)
		}
	}
}

// TestBases: a letter has one base in all stores, and different letters have different bases.
func TestBases(t *testing.T) {
	t.Parallel()
	d := discard()
	_, object := d.Object()
	base := func(content []byte) string {
		l, err := deadletter.ParseLetter("any", content)
		must(t, err)
		return l.Base()
	}
	later := d
	later.At = later.At.Add(time.Second)
	if base(object) != base(d.Message()) || base(later.Message()) == base(object) {
		t.Error("the base of a batch")
	}
	f := newLetter("1")
	content, err := deadletter.Encode(f)
	must(t, err)
	if base(content) != nameOf(f) {
		t.Error("the base of a poison record is not its name")
	}
}

func TestNotLetters(t *testing.T) {
	t.Parallel()
	marker, err := json.Marshal(deadletter.Marker{Format: 1, Name: "n"})
	must(t, err)
	for _, content := range []string{
		"", "?", "[]", "{}", `{"KinesisBatchInfo":{}}`, `{"KinesisBatchInfo":7}`, `{"Message":"?"}`, `{"DDBStreamBatchInfo":{}}`,
		`{"KinesisBatchInfo":{"streamArn":"arn:aws:kinesis:r:1:stream/s","shardId":"s","startSequenceNumber":"x",` +
			`"endSequenceNumber":"2","batchSize":1}}`,
	} {
		if l, err := deadletter.ParseLetter("n", []byte(content)); !errors.Is(err, deadletter.ErrNotALetter) {
			t.Errorf("%s is %+v, %v", content, l, err)
		}
	}
	if _, err := deadletter.ParseLetter("n", marker); err == nil {
		t.Error("a marker is a letter")
	}
}
