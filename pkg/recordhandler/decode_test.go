package recordhandler

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

const sequence = "49590338271490256608559692538361571095921575989136588898"

// kinesisRecord is one record of an event, as Lambda makes it.
var kinesisRecord = `{"kinesis":{"kinesisSchemaVersion":"1.0","partitionKey":"pk","sequenceNumber":"` + sequence + `",
  "data":"c2VjcmV0","approximateArrivalTimestamp":1795176000.123},"eventSource":"aws:kinesis","eventVersion":"1.0",
  "eventID":"shardId-000000000006:` + sequence + `","eventName":"aws:kinesis:record","awsRegion":"eu-central-1",
  "invokeIdentityArn":"arn:aws:iam::123456789012:role/dedupe",
  "eventSourceARN":"arn:aws:kinesis:eu-central-1:123456789012:stream/clicks"}`

func eventOf(records ...string) json.RawMessage {
	return json.RawMessage(`{"Records":[` + strings.Join(records, ",") + `]}`)
}

// change replaces a part of the record, which must exist.
func change(t *testing.T, old, to string) string {
	t.Helper()
	if !strings.Contains(kinesisRecord, old) {
		t.Fatalf("no %s in the record", old)
	}
	return strings.ReplaceAll(kinesisRecord, old, to)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	next := strings.TrimSuffix(sequence, "898") + "900"
	b, err := decode(eventOf(kinesisRecord, change(t, sequence, next)), false)
	if err != nil {
		t.Fatal(err)
	}
	if want := (dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "clicks"}); b.Stream != want {
		t.Errorf("stream: %v", b.Stream)
	}
	if b.Shard != "shardId-000000000006" || len(b.Records) != 2 {
		t.Errorf("shard %s, %d records", b.Shard, len(b.Records))
	}
	want := dedupe.Record{Sequence: sequence, PartitionKey: "pk", Arrival: time.UnixMilli(1795176000123).UTC(),
		Data: []byte("secret")}
	for _, r := range b.Records {
		if fmt.Sprint(r) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", r, want)
		}
		if cap(r.Data) != len(r.Data) {
			t.Error("appending to the data would overwrite the data of the next record")
		}
		want.Sequence = next
	}
}

// TestDecodeArrival: a time in milliseconds is exact, although the event has it as a floating-point number of
// seconds.
func TestDecodeArrival(t *testing.T) {
	t.Parallel()
	for millis := range int64(1000) {
		text := fmt.Sprintf("1795176000.%03d", millis)
		b, err := decode(eventOf(change(t, "1795176000.123", text)), false)
		if err != nil || b.Records[0].Arrival.UnixMilli() != 1795176000000+millis {
			t.Errorf("%s: %v, %v", text, b.Records, err)
		}
	}
	for text, millis := range map[string]int64{"1.795176000123E9": 1795176000123, "1795176000": 1795176000000, "1E9": 1e12,
		"1795176000.1236": 1795176000124} {
		b, err := decode(eventOf(change(t, "1795176000.123", text)), false)
		if err != nil || b.Records[0].Arrival.UnixMilli() != millis {
			t.Errorf("%s: %v, %v", text, b.Records, err)
		}
	}
}

func TestDecodeUnusualButGood(t *testing.T) {
	t.Parallel()
	b, err := decode(eventOf(), false)
	if err != nil || len(b.Records) != 0 {
		t.Errorf("no records: %v, %v", b, err)
	}
	for name, record := range map[string]string{
		"unknown members":    change(t, `"eventVersion":"1.0"`, `"eventVersion":"9.9","more":{"a":[1]}`),
		"no partition key":   change(t, `"partitionKey":"pk",`, ``),
		"leading zero":       change(t, sequence, "0"+sequence),
		"longest sequence":   change(t, sequence, strings.Repeat("9", 128)),
		"windowed":           kinesisRecord,
		"other partition":    change(t, "arn:aws:", "arn:aws-cn:"),
		"no data at all":     change(t, `"data":"c2VjcmV0",`, ``),
		"data of null":       change(t, `"c2VjcmV0"`, `null`),
		"data of no bytes":   change(t, `"c2VjcmV0"`, `""`),
		"server-side crypto": change(t, `"partitionKey":"pk"`, `"partitionKey":"pk","encryptionType":"KMS"`),
	} {
		b, err := decode(eventOf(record), false)
		if err != nil || len(b.Records) != 1 || b.Stream.Name != "clicks" {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
}

// TestDecodeRefuses: a bad event is refused completely, and the error does not repeat data.
func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string]json.RawMessage{
		"nothing":                nil,
		"null":                   json.RawMessage(`null`),
		"no object":              json.RawMessage(`[]`),
		"empty object":           json.RawMessage(`{}`),
		"null records":           json.RawMessage(`{"Records":null}`),
		"records is an object":   json.RawMessage(`{"Records":{}}`),
		"cut":                    eventOf(kinesisRecord)[:200],
		"HTTP":                   json.RawMessage(`{"version":"2.0","rawPath":"/","body":"c2VjcmV0"}`),
		"SQS":                    json.RawMessage(`{"Records":[{"messageId":"1","body":"secret","eventSource":"aws:sqs","eventSourceARN":"arn:aws:sqs:eu-central-1:123456789012:clicks"}]}`),
		"SNS":                    json.RawMessage(`{"Records":[{"EventSource":"aws:sns","Sns":{"Message":"secret"}}]}`),
		"DynamoDB stream":        eventOf(change(t, "aws:kinesis\"", "aws:dynamodb\"")),
		"record is null":         eventOf("null"),
		"bad base64":             eventOf(change(t, "c2VjcmV0", "c2VjcmV0!")),
		"data is a number":       eventOf(change(t, `"c2VjcmV0"`, "4711")),
		"data is a list":         eventOf(change(t, `"c2VjcmV0"`, "[4711]")),
		"no ARN":                 eventOf(change(t, `arn:aws:kinesis:eu-central-1:123456789012:stream/clicks`, ``)),
		"ARN of a consumer only": eventOf(change(t, `:stream/clicks`, `:consumer/clicks`)),
		"no event id":            eventOf(change(t, `shardId-000000000006:`+sequence, ``)),
		"no shard":               eventOf(change(t, `shardId-000000000006:`, `:`)),
		"event id of another":    eventOf(change(t, `shardId-000000000006:`, `shardId-000000000006:1`)),
		"no sequence":            eventOf(change(t, sequence, ``)),
		"sequence not a number":  eventOf(change(t, sequence, `4x`)),
		"sequence too long":      eventOf(change(t, sequence, strings.Repeat("9", 129))),
		"no arrival":             eventOf(change(t, `,"approximateArrivalTimestamp":1795176000.123`, ``)),
		"arrival is null":        eventOf(change(t, `1795176000.123`, `null`)),
		"arrival is a text":      eventOf(change(t, `1795176000.123`, `"4711"`)),
		"arrival at no time":     eventOf(change(t, `1795176000.123`, `0`)),
		"arrival before":         eventOf(change(t, `1795176000.123`, `-4711`)),
		"arrival in millis":      eventOf(change(t, `1795176000.123`, `1795176000123`)),
		"arrival never":          eventOf(change(t, `1795176000.123`, `1e300`)),
		"second is null":         eventOf(kinesisRecord, "null"),
	} {
		b, err := decode(raw, false)
		if !errors.Is(err, ErrNotKinesis) || b.Records != nil {
			t.Errorf("%s: want %v, got %v, %v", name, ErrNotKinesis, b, err)
			continue
		}
		for _, data := range []string{"secret", "c2VjcmV0", "4711"} {
			if strings.Contains(err.Error(), data) {
				t.Errorf("%s: the error repeats data: %v", name, err)
			}
		}
	}
	next := "5" + sequence
	for name, second := range map[string]string{
		"shard":  strings.ReplaceAll(change(t, sequence, next), "shardId-000000000006", "shardId-000000000007"),
		"stream": strings.ReplaceAll(change(t, sequence, next), "stream/clicks", "stream/orders"),
		"region": strings.ReplaceAll(change(t, sequence, next), "kinesis:eu-central-1", "kinesis:eu-west-1"),
	} {
		if b, err := decode(eventOf(kinesisRecord, second), false); !errors.Is(err, ErrManyShards) || b.Records != nil {
			t.Errorf("another %s: want %v, got %v, %v", name, ErrManyShards, b, err)
		}
	}
}

// manyRecords makes an event of n records of 1 KB.
func manyRecords(n int) json.RawMessage {
	record := strings.Replace(kinesisRecord, "c2VjcmV0", strings.Repeat("c2VjcmV0", 170), 1)
	records := make([]string, n)
	for i := range records {
		records[i] = strings.ReplaceAll(record, sequence, fmt.Sprint(1000+i))
	}
	return eventOf(records...)
}

// TestDecodeAllocations: each record costs two strings. All data is in one buffer.
func TestDecodeAllocations(t *testing.T) {
	const n, perRecord = 200, 2
	raw := manyRecords(n)
	allocations := testing.AllocsPerRun(5, func() {
		if _, err := decode(raw, false); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%.1f a record", allocations/n)
	if allocations > (perRecord+0.5)*n {
		t.Errorf("%.1f allocations a record, want %d", allocations/n, perRecord)
	}
}

func BenchmarkDecode(b *testing.B) {
	const n = 500
	raw := manyRecords(n)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decode(raw, false); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/record")
}
