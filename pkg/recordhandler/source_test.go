package recordhandler_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/records/memledger"
	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/framing"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

const queueARN = "arn:aws:sqs:eu-central-1:123456789012:clicks"

// message makes a message of a queue. origin is the queue that it was in first, or "".
func message(id, queue, origin, body string) map[string]any {
	attributes := map[string]string{"SentTimestamp": fmt.Sprint(arrival.UnixMilli()), "MessageGroupId": "ann"}
	if origin != "" {
		attributes["DeadLetterQueueSourceArn"] = origin
	}
	return map[string]any{
		"messageId": id, "eventSource": "aws:sqs", "eventSourceARN": queue, "body": body, "attributes": attributes,
	}
}

// changeOf makes a record of a DynamoDB stream.
func changeOf(n int, item string) map[string]any {
	return map[string]any{
		"eventID": fmt.Sprint("id-", n), "eventSource": "aws:dynamodb", "id": fmt.Sprint(n),
		"eventSourceARN": "arn:aws:dynamodb:eu-central-1:123456789012:table/orders/stream/2026-11-20T00:00:00.000",
		"dynamodb": map[string]any{
			"SequenceNumber": fmt.Sprint(1000 + n), "ApproximateCreationDateTime": arrival.Unix(),
			"Keys": map[string]any{"sk": map[string]string{"N": "1"}, "pk": map[string]string{"S": item}},
		},
	}
}

func rawRecords(t testing.TB, records ...map[string]any) json.RawMessage {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"Records": records})
	must(t, err)
	return raw
}

// logsOf makes a message of CloudWatch Logs. It returns the event and the unpacked message.
func logsOf(t testing.TB, ids ...string) (event json.RawMessage, payload []byte) {
	t.Helper()
	var events []map[string]any
	for _, id := range ids {
		at := arrival.Add(-time.Duration(id[0]-'1') * time.Minute) // that of "1" is the latest
		events = append(events, map[string]any{"id": id, "timestamp": at.UnixMilli(), "message": "<" + id + ">"})
	}
	return packedLogs(t, events)
}

// logsAt makes a message of CloudWatch Logs with a log event at a time.
func logsAt(t testing.TB, at time.Time, id string) json.RawMessage {
	t.Helper()
	event, _ := packedLogs(t, []map[string]any{{"id": id, "timestamp": at.UnixMilli(), "message": "m"}})
	return event
}

func packedLogs(t testing.TB, events []map[string]any) (event json.RawMessage, payload []byte) {
	t.Helper()
	return packedLogsOf(t, "shop", events)
}

// logsOfGroup makes a direct message of a log group.
func logsOfGroup(t testing.TB, group string) json.RawMessage {
	t.Helper()
	event, _ := packedLogsOf(t, group, []map[string]any{{"id": "a", "timestamp": time.Now().UnixMilli(), "message": "m"}})
	return event
}

func packedLogsOf(t testing.TB, group string, events []map[string]any) (event json.RawMessage, payload []byte) {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"messageType": "DATA_MESSAGE", "owner": "123456789012", "logGroup": group, "logStream": "s", "logEvents": events,
	})
	must(t, err)
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(text)
	must(t, errors.Join(err, w.Close()))
	event, err = json.Marshal(map[string]any{"awslogs": map[string]any{"data": b.Bytes()}})
	must(t, err)
	return event, b.Bytes()
}

// failed handles an event and returns the identifiers in the answer.
func (b *bench) failed(t testing.TB, raw json.RawMessage) string {
	t.Helper()
	answer, err := b.Handle(t.Context(), raw)
	must(t, err)
	var ids []string
	for _, f := range answer.BatchItemFailures {
		ids = append(ids, f.ItemIdentifier)
	}
	return strings.Join(ids, " ")
}

// TestStandardQueue: a message that fails comes again alone, and is then a retry. A message that is done is skipped.
func TestStandardQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sink.fails = `{"id":"b"}`
	all := []map[string]any{
		message("m1", queueARN, "", `{"id":"a"}`), message("m2", queueARN, "", `{"id":"b"}`), message("m3", queueARN, "", `{"id":"c"}`),
	}
	equal(t, "failed", b.failed(t, rawRecords(t, all...)), "m2")
	equal(t, "stream", b.line(t)["stream"], any("123456789012/eu-central-1/sqs:clicks"))
	b.sink.fails = ""
	copied := message("m4", queueARN, "", `{"id":"b"}`)
	equal(t, "in progress", b.failed(t, rawRecords(t, all[1], copied, all[0])), "m2 m4")
	line := b.line(t)
	equal(t, "skipped", line["skipped"], any(1.0))
	equal(t, "error", line["error"], any(dedupe.ErrInWork.Error()))
	equal(t, "level", line["level"], any("WARN"))
	b.sink.fails = `{"id":"d"}`
	moved := message("m5", queueARN, "arn:aws:sqs:eu-central-1:123456789012:other", `{"id":"d"}`)
	equal(t, "failed", b.failed(t, rawRecords(t, all[1], moved)), "m2 m5")
	equal(t, "level beside a failure", b.line(t)["level"], any("ERROR"))
	b.sink.fails = ""
	b.store.afterTheLease()
	equal(t, "failed", b.failed(t, rawRecords(t, all[1])), "")
	equal(t, "retries", b.line(t)["retry"], any(1.0))
	equal(t, "failed", b.failed(t, rawRecords(t, append(all, copied)...)), "")
	line = b.line(t)
	equal(t, "skipped", line["skipped"], any(3.0))
	equal(t, "natural", line["natural"], any(1.0))
	b.sink.holds(t, `{"id":"a"}`, `{"id":"c"}`, `{"id":"b"}`)
}

// TestFIFOQueue: no message overtakes a message that fails.
func TestFIFOQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sink.err = errBroken
	all := []map[string]any{
		message("m9", queueARN+".fifo", "", `{"id":"a"}`), message("m2", queueARN+".fifo", "", "poison"),
		message("m3", queueARN+".fifo", "", `{"id":"c"}`),
	}
	equal(t, "failed", b.failed(t, rawRecords(t, all...)), "m9 m2 m3")
	b.sink.err, b.sink.fails = nil, `{"id":"c"}`
	b.store.afterTheLease()
	equal(t, "failed", b.failed(t, rawRecords(t, all...)), "m3")
	equal(t, "partition key", b.sink.keys[0], "ann")
	b.sink.holds(t, `{"id":"a"}`)
	b.deadLetters.holds(t, "poison")
}

// TestQueueOfRefusedMessages: if the sink refuses nearly all of the first messages for one reason, the answer lists
// these, and the log has the error. Messages that the sink has taken do not come again.
func TestQueueOfRefusedMessages(t *testing.T) {
	t.Parallel()
	for _, queue := range []string{queueARN, queueARN + ".fifo"} {
		b := newBench(t, "ONCEBOX_POISON_LIMIT=50% of 2")
		b.sink.refuses = "no"
		m := func(id, body string) map[string]any { return message(id, queue, "", body) }
		one, two, three := m("m1", `{"id":"a"}`), m("m2", `{"id":"no b"}`), m("m3", `{"id":"no c"}`)
		equal(t, "failed", b.failed(t, rawRecords(t, one, two, three)), "m2 m3")
		line := b.line(t)
		equal(t, "level", line["level"], "ERROR")
		if text := fmt.Sprint(line["error"]); !strings.HasPrefix(text, dedupe.ErrWrongSetting.Error()) {
			t.Errorf("%s: the log has the error %s", queue, text)
		}
		b.store.afterTheLease()
		equal(t, "failed", b.failed(t, rawRecords(t, two, three)), "m2 m3")
		b.sink.holds(t, `{"id":"a"}`)
		b.deadLetters.holds(t)
	}
}

// TestMessageTwiceInABatch: the second of two equal messages is done with the first. An answer names each message once,
// and none that is done.
func TestMessageTwiceInABatch(t *testing.T) {
	t.Parallel()
	for queue, fails := range map[string]string{queueARN: "m2", queueARN + ".fifo": "m2 m3"} {
		b := newBench(t)
		m := func(id, body string) map[string]any { return message(id, queue, "", body) }
		one, two, three := m("m1", `{"id":"a"}`), m("m2", `{"id":"b"}`), m("m3", `{"id":"c"}`)
		b.sink.fails = `{"id":"b"}`
		equal(t, "failed", b.failed(t, rawRecords(t, one, one, two, one, three, two, three)), fails)
		b.sink.fails = ""
		b.lines(t)
		b.store.afterTheLease()
		equal(t, "failed", b.failed(t, rawRecords(t, two, three, two)), "")
		equal(t, "skipped", b.line(t)["skipped"], any(2.0)) // the third message is done, too
		for id, n := range map[string]int{"a": 1, "b": 1, "c": 1} {
			if got := strings.Count(strings.Join(b.sink.data, ""), fmt.Sprintf("{%q:%q}", "id", id)); got != n {
				t.Errorf("%s: %s was delivered %d times", queue, id, got)
			}
		}
	}
}

// TestDeadLetterQueue: a message keeps its owner in a dead-letter queue, so it is not a copy of itself. Messages of
// two queues are independent.
func TestDeadLetterQueue(t *testing.T) {
	t.Parallel()
	const dead, other = "arn:aws:sqs:eu-central-1:123456789012:dead", "arn:aws:sqs:eu-central-1:123456789012:other"
	b := newBench(t, "ONCEBOX_SCOPE=all")
	b.sink.err = errBroken
	equal(t, "failed", b.failed(t, rawRecords(t, message("m1", queueARN, "", `{"id":"a"}`))), "m1")
	b.sink.err = nil
	b.lines(t)
	b.store.afterTheLease()
	equal(t, "failed", b.failed(t, rawRecords(t,
		message("m2", dead, other, `{"id":"a"}`), message("m1", dead, queueARN, `{"id":"a"}`),
		message("m1", dead, other, `{"id":"a"}`), message("m3", dead, other, `{"id":"b"}`))), "")
	line := b.line(t)
	for name, want := range map[string]any{"in": 4.0, "retry": 1.0, "natural": 2.0, "new": 1.0, "records": 4.0} {
		equal(t, name, line[name], want)
	}
	b.sink.holds(t, `{"id":"a"}`, `{"id":"b"}`)
}

// TestRedriveByTheConsole: StartMessageMoveTask gives a message that was never done a new id. It is delivered. A message
// that is done is dropped.
func TestRedriveByTheConsole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sink.fails = `{"id":"a"}`
	equal(t, "failed", b.failed(t, rawRecords(t, message("m1", queueARN, "", `{"id":"a"}`), message("m2", queueARN, "", `{"id":"b"}`))), "m1")
	b.sink.fails = ""
	b.store.afterTheLease()
	equal(t, "failed", b.failed(t, rawRecords(t, message("m3", queueARN, "", `{"id":"a"}`), message("m4", queueARN, "", `{"id":"b"}`))), "")
	equal(t, "failed", b.failed(t, rawRecords(t, message("m1", queueARN, "", `{"id":"a"}`))), "")
	b.sink.holds(t, `{"id":"b"}`, `{"id":"a"}`)
}

// TestQueueWithoutHolds: a ledger that does not store what is done fails each batch of a queue, unless acks are off.
func TestQueueWithoutHolds(t *testing.T) {
	t.Parallel()
	j, err := format.NewJSON(format.Options{IDPath: "id"})
	must(t, err)
	for acks, want := range map[string]error{"on": dedupe.ErrNoHolds, "off": nil} {
		b := newBench(t, "ONCEBOX_ACKS="+acks)
		o := recordhandler.Options{Retention: dedupe.Retention{ForGood: true}, NoAcks: acks == "off", Format: j}
		o.Sink.Own = "memory"
		parts := dedupe.Parts{
			Ledger: memledger.New(), Sink: b.sink, DeadLetters: b.deadLetters, Acks: b.store,
		}
		h, err := recordhandler.New(parts, o, slog.New(slog.DiscardHandler))
		must(t, err)
		_, err = h.Handle(t.Context(), rawRecords(t, message("m1", queueARN, "", `{"id":"a"}`)))
		if !errors.Is(err, want) {
			t.Errorf("acks %s: got %v", acks, err)
		}
		if _, err := h.Handle(t.Context(), rawOf(t, event(`{"id":"b"}`))); err != nil {
			t.Errorf("acks %s: %v", acks, err)
		}
	}
}

// TestChangesOfATable: the answer names the sequence number of the first change that failed. The changes of an item
// have one partition key.
func TestChangesOfATable(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	all := rawRecords(t, changeOf(1, "x"), changeOf(2, "y"), changeOf(3, "x"))
	b.sink.err = errBroken
	if _, err := b.Handle(t.Context(), all); !errors.Is(err, recordhandler.ErrNoProgress) {
		t.Errorf("nothing is done: %v", err)
	}
	second, err := json.Marshal(changeOf(2, "y"))
	must(t, err)
	b.sink.err, b.sink.fails, b.sink.keys = nil, string(second), nil
	equal(t, "failed", b.failed(t, all), "1002")
	if k := b.sink.keys; k[0] != k[2] || k[0] == k[1] || len(k[0]) != 64 {
		t.Errorf("partition keys %q", k)
	}
	b.sink.fails = ""
	equal(t, "failed", b.failed(t, all), "")
}

// withoutKind is a mutant of the default scopes: a scope is only the name of its source.
func withoutKind(scope string) string { return scope[strings.Index(scope, ":")+1:] }

// TestScopesOfUnlikeSources: a stream, a queue, a table and a log group of one name are unrelated. In any order, none
// of their records is a copy of a record of another one.
func TestScopesOfUnlikeSources(t *testing.T) {
	t.Parallel()
	logs, _ := logsOf(t, "7") // of the log group shop
	change := changeOf(7, "a")
	change["eventSourceARN"] = strings.Replace(change["eventSourceARN"].(string), "orders", "shop", 1)
	stream := event(`{"id":"7"}`)
	stream.Records[0].EventSourceArn = strings.Replace(clicks, "clicks", "shop", 1)
	sources := []json.RawMessage{
		rawOf(t, stream), rawRecords(t, message("m1", strings.Replace(queueARN, "clicks", "shop", 1), "", `{"id":"7"}`)),
		rawRecords(t, change), logs,
	}
	for first := range sources {
		for name, mutant := range map[string]func(string) string{"": nil, "without the kind": withoutKind} {
			store, err := sqlitestore.OpenMemory(t.Context())
			must(t, err)
			t.Cleanup(func() { _ = store.Close() })
			b, unknown := newBenchOver(t, &faults{engine: store, scope: mutant}), 0.0
			for i := range sources {
				equal(t, "failed", b.failed(t, sources[(first+i)%len(sources)]), "")
				unknown += b.line(t)["new"].(float64)
			}
			if found := unknown < float64(len(sources)); found != (name != "") {
				t.Errorf("source %d comes first, mutant %q: %v of %d records are new", first, name, unknown, len(sources))
			}
		}
	}
}

// TestOwnersOfChanges: two changes of a table are two records, even if two shards of its stream gave them one
// sequence number, because the event does not name the shard.
func TestOwnersOfChanges(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, other := changeOf(1, "x"), changeOf(1, "x")
	other["eventID"] = "id-2"
	equal(t, "failed", b.failed(t, rawRecords(t, one)), "")
	b.lines(t)
	equal(t, "failed", b.failed(t, rawRecords(t, other)), "")
	line := b.line(t)
	equal(t, "retries", line["retry"], any(0.0))
	equal(t, "synthetic", line["synthetic"], any(1.0))
}

// TestConsumersOfSources: a table has one consumer in a scope. A queue gives each message to one of its readers, and
// CloudWatch Logs sends to each of its subscribers.
func TestConsumersOfSources(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	for _, name := range []string{"one", "two"} {
		b := newBenchOver(t, &faults{engine: store}, "AWS_LAMBDA_FUNCTION_NAME="+name)
		equal(t, "failed", b.failed(t, rawRecords(t, message("m1", queueARN, "", `{"id":"a"}`))), "")
		logs, _ := logsOf(t, "a")
		equal(t, "failed", b.failed(t, logs), "")
		if _, err := b.Handle(t.Context(), rawRecords(t, changeOf(1, "x"))); errors.Is(err, dedupe.ErrOtherConsumer) != (name == "two") {
			t.Errorf("function %s reads the table: %v", name, err)
		}
	}
}

// TestLogs: a message that fails is an error, because no answer can name its log events. The remaining events are
// sent as a message.
func TestLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.sink.err = errBroken
	first, _ := logsOf(t, "a", "b")
	if _, err := b.Handle(t.Context(), first); !errors.Is(err, errBroken) {
		t.Errorf("want the error of the sink, got %v", err)
	}
	b.sink.err = nil
	equal(t, "failed", b.failed(t, first), "") // the same message is not a copy of itself
	second, payload := logsOf(t, "a", "c")     // the copy is at the same place of another message
	equal(t, "failed", b.failed(t, second), "")
	for i, want := range []string{"<a> <b>", "<c>"} {
		records, framed, err := framing.Logs{}.Open(t.Context(), []byte(b.sink.data[i]), dedupe.NewRoom())
		must(t, err)
		var messages []string
		for _, r := range records {
			var e struct{ Message, LogGroup string }
			must(t, json.Unmarshal(r, &e))
			equal(t, "log group", e.LogGroup, "shop")
			messages = append(messages, e.Message)
		}
		if !framed || strings.Join(messages, " ") != want {
			t.Errorf("message %d has %q", i, messages)
		}
	}
	b = newBench(t, "ONCEBOX_SOURCE_RECORDS=logs")
	equal(t, "failed", b.do(t, event(string(payload))), "")
	equal(t, "messages", len(b.sink.data), 1)
}

// TestArrivals: the entry of a record counts from the time that its source reports.
func TestArrivals(t *testing.T) {
	t.Parallel()
	logs, _ := logsOf(t, "2", "1", "3") // the latest one, "1", counts for all
	for _, raw := range []json.RawMessage{
		rawRecords(t, message("m1", queueARN, "", `{"id":"1"}`)), rawRecords(t, changeOf(1, "x")), logs,
	} {
		b := newBench(t)
		var put []time.Time
		b.store.put = func(_ context.Context, e dedupe.Entry) error {
			put = append(put, e.Arrival)
			return nil
		}
		equal(t, "failed", b.failed(t, raw), "")
		wrong := slices.ContainsFunc(put, func(at time.Time) bool { return at.Sub(arrival).Abs() >= time.Second })
		if len(put) == 0 || wrong {
			t.Errorf("arrivals %v, want %v", put, arrival)
		}
	}
}

// TestLogsOfWrongClocks: a message whose log events are after now arrives now, and one from before the horizon arrives
// as early as its last attempt allows, so that every ledger takes it and keeps its entry. The log counts both.
func TestLogsOfWrongClocks(t *testing.T) {
	t.Parallel()
	for latest, want := range map[time.Duration]time.Duration{
		2 * time.Hour: 0, 90 * time.Minute: 0, -time.Hour: -time.Hour, -20 * 24 * time.Hour: -14*24*time.Hour + 6*time.Hour + 15*time.Minute,
	} {
		now := time.Now().Truncate(time.Millisecond)
		event := logsAt(t, now.Add(latest), "a")
		b := newBench(t)
		var put time.Time
		b.store.put = func(_ context.Context, e dedupe.Entry) error {
			put = e.Arrival
			return nil
		}
		equal(t, "failed", b.failed(t, event), "")
		if put.Before(now.Add(want)) || put.After(time.Now().Add(want)) {
			t.Errorf("%v: the arrival is %v, and now is %v", latest, put, now)
		}
		line := b.line(t)
		equal(t, "past horizon", line["past_horizon"], any(0.0))
		clamped := 1.0
		if latest == want {
			clamped = 0
		}
		equal(t, fmt.Sprint("clamped, at ", latest), line["clamped"], any(clamped))

		log, err := logledger.New(memlog.New(), logledger.Options{})
		must(t, err)
		sink, letters := &memory{}, &memory{}
		o, err := recordhandler.ParseOptions([]string{"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused"})
		must(t, err)
		h, err := recordhandler.New(dedupe.Parts{Ledger: log, Sink: sink, DeadLetters: letters}, o, slog.New(slog.DiscardHandler))
		must(t, err)
		if _, err := h.Handle(t.Context(), event); err != nil || len(sink.data) != 1 || len(letters.data) > 0 {
			t.Errorf("%v, with a log ledger: %d delivered, %d dead letters, %v", latest, len(sink.data), len(letters.data), err)
		}
	}
}

// TestUnreadableLogs: a message without a time arrives now, by the clock of the handler. That is no wrong clock.
func TestUnreadableLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	raw := json.RawMessage(`{"awslogs":{"data":"AAAA"}}`)
	equal(t, "failed", b.failed(t, raw), "")
	equal(t, "clamped", b.line(t)["clamped"], any(0.0))
	now := time.Date(2027, 3, 1, 9, 0, 0, 0, time.UTC)
	o, err := recordhandler.ParseOptions([]string{"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=dir:unused"})
	must(t, err)
	o.Clock.Now = func() time.Time { return now }
	letters := &memory{}
	h, err := recordhandler.New(dedupe.Parts{Ledger: b.store, Sink: b.sink, DeadLetters: letters}, o, slog.New(slog.DiscardHandler))
	must(t, err)
	_, err = h.Handle(t.Context(), raw)
	must(t, err)
	equal(t, "arrivals", fmt.Sprint(letters.arrivals), fmt.Sprint([]time.Time{now}))
}

// TestQueueIsItsSink: otherwise the messages would circulate for ever.
func TestQueueIsItsSink(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_SINK=sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/clicks")
	if _, err := b.Handle(t.Context(), rawRecords(t, message("m1", queueARN, "", `{"id":"a"}`))); !errors.Is(err, recordhandler.ErrLoop) {
		t.Errorf("want %v, got %v", recordhandler.ErrLoop, err)
	}
	equal(t, "failed", b.failed(t, rawRecords(t, message("m1", strings.Replace(queueARN, "clicks", "others", 1), "", `{"id":"a"}`))), "")
}

// TestOneSourceIsRefused: if the messages of one queue are refused, those of another queue do not hide this.
func TestOneSourceIsRefused(t *testing.T) {
	t.Parallel()
	const dead, other = "arn:aws:sqs:eu-central-1:123456789012:dead", "arn:aws:sqs:eu-central-1:123456789012:other"
	b := newBench(t, "ONCEBOX_SINK=sqs:https://sqs.eu-central-1.amazonaws.com/123456789012/clicks")
	raw := rawRecords(t, message("m1", dead, queueARN, `{"id":"a"}`), message("m2", dead, other, `{"id":"b"}`))
	if _, err := b.Handle(t.Context(), raw); !errors.Is(err, recordhandler.ErrLoop) {
		t.Errorf("want %v, got %v", recordhandler.ErrLoop, err)
	}
}

// TestTableIsItsSink: otherwise each item would be a change that comes as the next record.
func TestTableIsItsSink(t *testing.T) {
	t.Parallel()
	b := newBench(t, "ONCEBOX_SINK=dynamodb:orders?key=id")
	if _, err := b.Handle(t.Context(), rawRecords(t, changeOf(1, `{"id":{"S":"a"}}`))); !errors.Is(err, recordhandler.ErrLoop) {
		t.Errorf("want %v, got %v", recordhandler.ErrLoop, err)
	}
}

// TestOwnChanges: the function refuses the changes of its dedupe table, where each entry would be a change.
func TestOwnChanges(t *testing.T) {
	t.Parallel()
	_, o, err := recordhandler.ParseSettings([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=kinesis:unique", "ONCEBOX_DEAD_LETTERS=s3://letters", "ONCEBOX_DEDUPE_TABLE=orders",
	})
	must(t, err)
	b := newBench(t)
	h, err := recordhandler.New(dedupe.Parts{Ledger: b.store, Sink: b.sink, DeadLetters: &memory{}}, o, slog.New(slog.DiscardHandler))
	must(t, err)
	if _, err := h.Handle(t.Context(), rawRecords(t, changeOf(1, `{"id":{"S":"a"}}`))); !errors.Is(err, recordhandler.ErrOwnChanges) {
		t.Errorf("want %v, got %v", recordhandler.ErrOwnChanges, err)
	}
	elsewhere := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{
		InvokedFunctionArn: "arn:aws:lambda:eu-central-1:999999999999:function:dedupe",
	})
	if _, err := h.Handle(elsewhere, rawRecords(t, changeOf(1, `{"id":{"S":"a"}}`))); errors.Is(err, recordhandler.ErrOwnChanges) {
		t.Errorf("a table of another account: %v", err)
	}
}
