package eventsource_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/eventsource"
)

const mappingID = "00000000-0000-4000-8000-000000000000"

// discard returns two records that arrived a second apart and had two attempts.
func discard(t *testing.T, answer func(call) (json.RawMessage, error)) eventsource.Discard {
	t.Helper()
	w := newWorld(t, 1)
	w.mapping.Retries = new(1)
	w.send("0")
	w.advance(time.Second)
	w.send("1")
	w.answer = answer
	w.start()
	w.drain()
	w.discarded("0 1")
	return w.given[0]
}

// compare compares two JSON texts. ID in the wanted text matches any UUID.
func compare(t *testing.T, got []byte, want string) {
	t.Helper()
	var g, w any
	must(t, json.Unmarshal([]byte(uuids.ReplaceAllString(string(got), "ID")), &g))
	must(t, json.Unmarshal([]byte(want), &w))
	equal(t, "document", fmt.Sprint(g), fmt.Sprint(w))
}

var uuids = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

const batchInfo = `"version":"1.0","timestamp":"2026-01-02T03:04:07.006Z","KinesisBatchInfo":{"shardId":"shardId-000000000000",
	"startSequenceNumber":"99","endSequenceNumber":"100","approximateArrivalOfFirstRecord":"2026-01-02T03:04:05.006Z",
	"approximateArrivalOfLastRecord":"2026-01-02T03:04:06.006Z","batchSize":2,"streamArn":"` + arn + `"}`

// TestMessage: the message for a queue or topic has no records (Discarded, "Example Amazon SNS and
// Amazon SQS invocation record").
func TestMessage(t *testing.T) {
	t.Parallel()
	const begin = `{"requestContext":{"requestId":"ID","functionArn":"arn:aws:lambda:us-east-1:123456789012:function:eventsource",
		"condition":"RetryAttemptsExhausted","approximateInvokeCount":2},"responseContext":{"statusCode":200,"executedVersion":"$LATEST"`
	t.Run("thrown", func(t *testing.T) {
		t.Parallel()
		compare(t, discard(t, throwing("0")).Message(), begin+`,"functionError":"Unhandled"},`+batchInfo+`}`)
	})
	t.Run("reported", func(t *testing.T) { // Recorded, test_kinesis_report_batch_item_failures
		t.Parallel()
		compare(t, discard(t, failing("0")).Message(), begin+`,"functionError":null},`+batchInfo+`}`)
	})
}

// TestMessageOfOldRecords compares the condition, the count and the missing response, for records
// with and without an invocation (Recorded, test_kinesis_maximum_record_age_exceeded).
func TestMessageOfOldRecords(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		wait        time.Duration
		invocations int
		count       int
	}{"before": {2 * time.Minute, 0, 1}, "while retrying": {0, 6, 6}} { // 6: after 0, 1, 3, 7, 15 and 31 seconds
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.send("0", "1")
			w.advance(c.wait)
			w.mapping.RecordAge, w.answer = time.Minute, throwing("0")
			w.start()
			w.drain()
			var message struct {
				RequestContext  struct{ Condition, ApproximateInvokeCount any }
				ResponseContext any
			}
			must(t, json.Unmarshal(w.given[0].Message(), &message))
			equal(t, "invocations", len(w.calls), c.invocations)
			equal(t, "message", fmt.Sprint(message), fmt.Sprintf("{{RecordAgeExceeded %d} <nil>}", c.count))
		})
	}
}

// TestObject: an object holds the whole event too, "as an escaped JSON string". Its key is
// aws/lambda/<ESM-UUID>/<shardID>/YYYY/MM/DD/YYYY-MM-DDTHH.MM.SS-<Random UUID>
// (Discarded, "Example Amazon S3 invocation record").
func TestObject(t *testing.T) {
	t.Parallel()
	d := discard(t, throwing("0"))
	key, body := d.Object()
	equal(t, "key", uuids.ReplaceAllString(strings.Replace(key, mappingID, "MAPPING", 1), "ID"),
		"aws/lambda/MAPPING/shardId-000000000000/2026/01/02/2026-01-02T03.04.07-ID")
	var object map[string]any
	must(t, json.Unmarshal(body, &object))
	payload, _ := object["payload"].(string)
	equal(t, "payload", payload, string(d.Event))
	equal(t, "records in the payload", strings.Count(payload, `"kinesisSchemaVersion"`), 2)
	delete(object, "payload")
	var message map[string]any
	must(t, json.Unmarshal(d.Message(), &message))
	equal(t, "the rest", fmt.Sprint(object), fmt.Sprint(message))
	if other, _ := discard(t, throwing("0")).Object(); uuids.FindAllString(key, -1)[1] == mappingID || len(other) != len(key) {
		t.Errorf("keys %s and %s", key, other)
	}
}

// TestOnlyTheRestIsDiscarded: after a partial failure the destination gets the records that were not
// delivered (Recorded, test_kinesis_report_batch_item_failures).
func TestOnlyTheRestIsDiscarded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.mapping.Retries, w.answer = new(0), failing("2")
	w.send(numbers(4)...)
	w.start()
	w.drain()
	w.discarded("2 3")
	equal(t, "first sequence", strings.Contains(string(w.given[0].Message()), `"startSequenceNumber":"`+w.put["2"]+`"`), true)
}

// TestNoDestination: discarded records are lost without a destination, and if the destination
// fails. Lambda continues (Metrics, DestinationDeliveryFailures and DroppedEventCount).
func TestNoDestination(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		destination eventsource.Destination
		dropped     int
	}{
		"none":  {nil, 2},
		"fails": {func(context.Context, eventsource.Discard) error { return errBroken }, 2},
		"works": {func(context.Context, eventsource.Discard) error { return nil }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.mapping.Retries, w.mapping.OnFailure, w.answer = new(0), c.destination, throwing("1")
			w.send("0", "1")
			p := w.start()
			w.drain()
			equal(t, "dropped", p.Tally().Dropped, c.dropped)
			w.send("2")
			w.drain()
			w.batches("0 1, 2")
		})
	}
}
