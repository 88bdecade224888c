package redrive_test

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
	"sync"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/records/redrive"
	"github.com/oncebox/oncebox/internal/testkit/memlog"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/logledger"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// logsOf makes the event of a message of CloudWatch Logs, with a log event for each id.
func logsOf(t testing.TB, at time.Time, ids ...string) json.RawMessage {
	t.Helper()
	var all []map[string]any
	for _, id := range ids {
		all = append(all, map[string]any{"id": id, "timestamp": at.UnixMilli(), "message": id})
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	must(t, json.NewEncoder(w).Encode(map[string]any{
		"messageType": "DATA_MESSAGE", "owner": "123456789012", "logGroup": "shop", "logStream": "s", "logEvents": all,
	}))
	must(t, w.Close())
	event, err := json.Marshal(map[string]any{"awslogs": map[string]any{"data": packed.Bytes()}})
	must(t, err)
	return event
}

// asyncRecord makes Lambda's record of an asynchronous invocation.
func asyncRecord(t testing.TB, condition string, at time.Time, event json.RawMessage) []byte {
	t.Helper()
	record, err := json.Marshal(map[string]any{
		"version": "1.0", "timestamp": at,
		"requestContext": map[string]any{
			"requestId": "e4b46cbf-b738-4f4a-8880-a18cdf61200e", "approximateInvokeCount": 3, "condition": condition,
			"functionArn": "arn:aws:lambda:eu-west-1:123456789012:function:" + function + ":$LATEST",
		},
		"requestPayload":  event,
		"responseContext": map[string]any{"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
		"responsePayload": map[string]any{"errorMessage": "the sink failed"},
	})
	must(t, err)
	return record
}

// logSink is a sink of log events, which may fail.
type logSink struct {
	mu   sync.Mutex
	ids  []string
	fail bool
}

func (*logSink) Check(context.Context, dedupe.Output) error { return nil }

func (s *logSink) Send(_ context.Context, outputs []dedupe.Output) (dedupe.Sent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail {
		return dedupe.Sent{}, errCrash
	}
	for _, o := range outputs {
		s.ids = append(s.ids, o.ID)
	}
	return dedupe.Sent{}, nil
}

func (s *logSink) got() string {
	slices.Sort(s.ids)
	return strings.Join(s.ids, " ")
}

// invocations is a function with a log ledger that CloudWatch Logs invokes, and a job that redrives its failures.
type invocations struct {
	*recordhandler.Handler
	sink *logSink
	now  time.Time
}

func newInvocations(t testing.TB, w *world) *invocations {
	t.Helper()
	v := &invocations{sink: &logSink{}, now: w.now}
	clock := dedupe.Clock{
		Now: func() time.Time { return v.now }, Pause: func(context.Context, time.Duration) error { return errCrash },
	}
	ledger, err := logledger.New(memlog.New(), logledger.Options{Clock: clock})
	must(t, err)
	o, err := recordhandler.ParseOptions([]string{"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=ndjson:out", "ONCEBOX_DEAD_LETTERS=dir:unused"})
	must(t, err)
	o.Clock = clock
	parts := dedupe.Parts{Ledger: ledger, Sink: v.sink, DeadLetters: deadletter.New(poisonPrefix{w})}
	v.Handler, err = recordhandler.New(parts, o, slog.New(slog.DiscardHandler))
	must(t, err)
	return v
}

func (v *invocations) job(w *world) *redrive.Job {
	j := w.job()
	j.Now = func() time.Time { return v.now }
	j.Target = func(ctx context.Context, s dedupe.Stream) (redrive.Processor, string, error) {
		return v.LetterProcessor(ctx, s)
	}
	return j
}

// TestInvocations: a message of CloudWatch Logs that Lambda dropped after its last attempt is delivered once, also if an
// attempt had entered it and its producer's clock is ahead.
func TestInvocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", nil, newMemory())
	v := newInvocations(t, w)
	ahead := v.now.Add(90 * time.Minute)
	event := logsOf(t, ahead, "a", "b")
	v.sink.fail = true
	for range 3 {
		if _, err := v.Handle(t.Context(), event); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		v.now = v.now.Add(time.Minute)
	}
	v.sink.fail = false
	name := "aws/lambda/async/" + function + "/2026/11/20/2026-11-20T13.03.00-id"
	_, err := w.dead.Create(t.Context(), name, asyncRecord(t, "RetriesExhausted", v.now, event))
	must(t, err)
	v.now = v.now.Add(3 * time.Hour)
	must(t, v.job(w).List(t.Context(), func(r redrive.Report) error {
		if arrived := v.now.Add(-3 * time.Hour); r.Status != redrive.Pending || !r.Letter.Arrival().Equal(arrived) ||
			!strings.HasPrefix(r.Letter.Owner(), "123456789012//logs:shop/") || r.Letter.Reason() != "RetriesExhausted" {
			t.Errorf("listed: %+v, %v, %s", r, r.Letter.Arrival(), r.Letter.Owner())
		}
		return nil
	}))
	for _, run := range []struct {
		function string
		dry      bool
		want     redrive.Status
		got      string
	}{
		{"", false, redrive.Refused, ""}, {"other", false, redrive.Refused, ""}, {function, true, redrive.Ready, ""},
		{function, false, redrive.Done, "a b"}, {function, false, redrive.AlreadyDone, "a b"},
	} {
		j := v.job(w)
		j.Function, j.DryRun = run.function, run.dry
		reports, err := w.run(j)
		must(t, err)
		if r := reports[name]; len(reports) != 1 || r.Status != run.want || v.sink.got() != run.got {
			t.Errorf("%+v: %v, %s, delivered %q", run, r.Status, r.Why, v.sink.got())
		}
	}
	if _, err := v.Handle(t.Context(), logsOf(t, ahead, "a", "c")); err != nil || v.sink.got() != "a b c" {
		t.Errorf("a copy that comes later: delivered %q, %v", v.sink.got(), err)
	}
}

// TestOldInvocations: a message of a dead-letter queue may have been delivered by its first attempt long ago. If it is
// from before the horizon, it is not run, and no time is made up for it. Lambda's record says until when it may run.
func TestOldInvocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", nil, newMemory())
	v := newInvocations(t, w)
	old := logsOf(t, v.now.Add(-20*24*time.Hour), "a")
	if _, err := v.Handle(t.Context(), old); err != nil || v.sink.got() != "a" {
		t.Fatalf("delivered %q, %v", v.sink.got(), err)
	}
	gaveUp := v.now.Add(6 * time.Hour)
	for _, run := range []struct {
		content []byte
		at      time.Time
		want    redrive.Status
		why     string
	}{
		{old, v.now.Add(3 * 24 * time.Hour), redrive.PastHorizon, "it arrived before the horizon"},
		{asyncRecord(t, "RetriesExhausted", gaveUp, old), gaveUp.Add(6 * time.Hour), redrive.Ready, ""},
		{asyncRecord(t, "RetriesExhausted", gaveUp, old), gaveUp.Add(7 * time.Hour), redrive.PastHorizon, "it arrived before the horizon"},
	} {
		v.now = run.at
		j := v.job(w)
		j.Function, j.DryRun = function, run.want == redrive.Ready
		j.Items = redrive.FromReader(deadletter.NewArchive(w), "", function, "f", bytes.NewReader(run.content))
		must(t, j.Run(t.Context(), func(r redrive.Report) error {
			if r.Status != run.want || r.Why != run.why {
				t.Errorf("got %v, %s; want %v, %s", r.Status, r.Why, run.want, run.why)
			}
			return nil
		}))
	}
	if v.sink.got() != "a" {
		t.Errorf("delivered %q", v.sink.got())
	}
}

// TestInvocationsOfFiles: the destinations SQS and SNS and the dead-letter queue of a function give files. Each letter
// is delivered once, and what is not the failure of a message is refused.
func TestInvocationsOfFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "stream", nil, newMemory())
	v := newInvocations(t, w)
	message := func(body []byte) map[string]any { return map[string]any{"Body": string(body)} }
	topic, err := json.Marshal(map[string]any{
		"Type": "Notification", "Message": string(asyncRecord(t, "EventAgeExceeded", v.now, logsOf(t, v.now, "b"))),
	})
	must(t, err)
	received, err := json.Marshal(map[string]any{"Messages": []any{
		message(asyncRecord(t, "RetriesExhausted", v.now, logsOf(t, v.now, "a"))), message(topic),
		message(logsOf(t, v.now, "c")), message(logsOf(t, v.now.Add(2*time.Hour), "d")),
		message(asyncRecord(t, "Success", v.now, logsOf(t, v.now, "e"))),
		message(asyncRecord(t, "RetriesExhausted", v.now, nil)),
		message(asyncRecord(t, "RetriesExhausted", v.now, json.RawMessage(`{"ORDER_IDS":["1"]}`))),
	}})
	must(t, err)
	var indented bytes.Buffer
	must(t, json.Indent(&indented, logsOf(t, v.now, "c"), "", "  "))
	other, err := json.Marshal(map[string]any{"Messages": []any{message(indented.Bytes())}})
	must(t, err)
	for _, run := range []struct {
		function, counts, got string
		received              []byte
	}{
		{"", "refused:7", "", received}, {function, "done:4 refused:3", "a b c d", received},
		{function, "already-done:4 refused:3", "a b c d", received}, {function, "already-done:1", "a b c d", other},
		{"other", "done:1", "a b c c d", other},
	} {
		j := v.job(w)
		j.Function = run.function
		j.Items = redrive.FromReader(deadletter.NewArchive(w), "", run.function, "f", bytes.NewReader(run.received))
		counts := map[redrive.Status]int{}
		must(t, j.Run(t.Context(), func(r redrive.Report) error {
			if counts[r.Status]++; r.Status == redrive.Refused && r.Why == "" {
				t.Errorf("%s is refused without a reason", r.Name)
			}
			return nil
		}))
		var got []string
		for status, n := range counts {
			got = append(got, fmt.Sprint(status, ":", n))
		}
		if joined(got) != run.counts || v.sink.got() != run.got {
			t.Errorf("%q: %s, delivered %q", run.function, joined(got), v.sink.got())
		}
	}
}
