package eventsource_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

// TestBatchSize: "The maximum number of records in each batch" (Lambda API Reference,
// "CreateEventSourceMapping"). The default is 100 (Parameters). A batch does not wait for more
// records.
func TestBatchSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.BatchSize = 2
	w.send(numbers(5)...)
	w.start()
	w.drain()
	w.batches("0 1, 2 3, 4")

	w = newWorld(t, 1)
	w.send(numbers(130)...)
	w.start()
	w.drain()
	equal(t, "first batch by default", len(w.calls[0].data), 100)
	equal(t, "second batch by default", len(w.calls[1].data), 30)
}

// TestBatchesHoldOneShard: "Each batch contains records from a single shard/data
// stream", and "Lambda processes records in each shard in order" (Using).
func TestBatchesHoldOneShard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.mapping.BatchSize = 10
	w.send(numbers(100)...)
	w.start()
	w.drain()
	last, seen := map[string]int{}, 0
	for _, c := range w.calls {
		for i, r := range c.event.Records {
			if shard, _, _ := strings.Cut(r.EventID, ":"); shard != c.shard {
				t.Errorf("a batch has records of %s and %s", c.shard, shard)
			}
			var n int
			_, err := fmt.Sscan(c.data[i], &n)
			must(t, err)
			if n < last[c.shard] {
				t.Errorf("%s: %d after %d", c.shard, n, last[c.shard])
			}
			last[c.shard] = n
			seen++
		}
	}
	equal(t, "records", seen, 100)
	equal(t, "shards", len(last), 4)
}

// TestPayloadLimit: an event has at most 6 MB (Quotas, the payload of a synchronous invocation),
// including base64 and everything else. Records that do not fit make the next event.
func TestPayloadLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.BatchSize = 10_000
	var sizes []int
	var records int
	w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		sizes = append(sizes, len(event))
		_, err := w.handle(ctx, event)
		records += len(w.calls[len(w.calls)-1].data)
		return nil, err
	}
	for range 30 {
		w.stream.Put("k", bytes.Repeat([]byte("x"), 300_000))
	}
	w.start()
	w.drain()
	equal(t, "records", records, 30)
	equal(t, "invocations", len(sizes), 2)
	for _, size := range sizes[:2] {
		if size > 6<<20 || size < 6<<20-500_000 { // one more would not fit
			t.Errorf("an event of %d bytes", size)
		}
	}
}

// TestPayloadLimitIsReached: an event may have exactly 6 MB.
func TestPayloadLimitIsReached(t *testing.T) {
	t.Parallel()
	size := func(key int, data int) (sizes []int) {
		w := newWorld(t, 1)
		w.mapping.Function = func(_ context.Context, event json.RawMessage) (json.RawMessage, error) {
			sizes = append(sizes, len(event))
			return nil, nil
		}
		for range 2 {
			w.stream.Put("k", make([]byte, data))
		}
		w.stream.Put(strings.Repeat("k", key), nil)
		w.start()
		w.drain()
		return sizes
	}
	const data = 2_358_000 // 3,144,000 in base64
	rest := 6<<20 - size(1, data)[0]
	equal(t, "events", fmt.Sprint(size(1+rest, data)), fmt.Sprint([]int{6 << 20}))
	equal(t, "events with a byte more", len(size(2+rest, data)), 2)
}

// TestEvent compares the form of an event (Using, "Example event").
func TestEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	var raw json.RawMessage
	var about lambdacontext.LambdaContext
	w.mapping.Function = func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		lc, _ := lambdacontext.FromContext(ctx)
		raw, about = event, *lc
		return nil, nil
	}
	w.stream.Put("1", []byte("Hello, this is a test."))
	w.stream.Put("1", nil)
	w.start()
	w.drain()
	equal(t, "length of the request id", len(about.AwsRequestID), 36)
	equal(t, "function", about.InvokedFunctionArn, "arn:aws:lambda:us-east-1:123456789012:function:eventsource")
	var got, want any
	must(t, json.Unmarshal(raw, &got))
	record := func(sequence, data string) string {
		return `{"kinesis":{"kinesisSchemaVersion":"1.0","partitionKey":"1","sequenceNumber":"` + sequence + `","data":"` + data + `",
			"approximateArrivalTimestamp":1767323045.006},
			"eventSource":"aws:kinesis","eventVersion":"1.0","eventID":"shardId-000000000000:` + sequence + `","eventName":"aws:kinesis:record",
			"invokeIdentityArn":"arn:aws:iam::123456789012:role/eventsource","awsRegion":"us-east-1","eventSourceARN":"` + arn + `"}`
	}
	must(t, json.Unmarshal([]byte(`{"Records":[`+record("99", "SGVsbG8sIHRoaXMgaXMgYSB0ZXN0Lg==")+`,`+record("100", "")+`]}`), &want))
	equal(t, "event", fmt.Sprint(got), fmt.Sprint(want))
}

// TestHandler: a function returns the answer and the error of its handler.
func TestHandler(t *testing.T) {
	t.Parallel()
	var answer events.KinesisEventResponse
	var err error
	f := eventsource.Handler(func(context.Context, json.RawMessage) (events.KinesisEventResponse, error) { return answer, err })
	answer.BatchItemFailures = []events.KinesisBatchItemFailure{{ItemIdentifier: "7"}}
	got, gotErr := f(t.Context(), nil)
	must(t, gotErr)
	equal(t, "answer", string(got), `{"batchItemFailures":[{"itemIdentifier":"7"}]}`)
	err = errBroken
	if _, gotErr = f(t.Context(), nil); !errors.Is(gotErr, err) {
		t.Errorf("want %v, got %v", err, gotErr)
	}
}
