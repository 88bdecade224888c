package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

const dedupeEvents = "../events/dedupe"

// dedupeCase is the dedupe function's expected result for an event: the numbers that it logs and the ids that it
// delivers, in order, or the error of the invocation.
type dedupeCase struct {
	tally dedupe.Tally
	out   string // ids, with spaces between
	fault error
}

// The ids of synthetic duplicates.
const (
	order1fp1 = "a78d0945-7855-5071-b185-8466c665a24d" // order-1 with the fingerprint fp1: the example of the contract
	derived   = "*"                                    // any id: the fingerprint is computed
)

// dedupeCases lists all events in events/dedupe by file name without .json. They hold with
// the settings of a dedupeBench and a ledger that knows no record of the event, in any order
// of the events.
var dedupeCases = map[string]dedupeCase{
	"single":                     {tally: dedupe.Tally{In: 1, New: 1}, out: "single-1"},
	"several":                    {tally: dedupe.Tally{In: 3, New: 3}, out: "several-1 several-2 several-3"},
	"numeric-id":                 {tally: dedupe.Tally{In: 2, New: 2}, out: "9007199254740993 9007199254740992"},
	"uuid-in-two-cases":          {tally: dedupe.Tally{In: 2, New: 1, Natural: 1}, out: "5f1c7e52-0f67-4d8e-8d5e-2f4f0c1d9b44"},
	"natural-duplicates":         {tally: dedupe.Tally{In: 4, New: 2, Natural: 2}, out: "natural-1 natural-2"},
	"rewritten-number-and-order": {tally: dedupe.Tally{In: 2, New: 1, Natural: 1}, out: "order-of-members"},
	"synthetic-duplicates":       {tally: dedupe.Tally{In: 4, New: 1, Natural: 2, Synthetic: 1}, out: "order-1 " + order1fp1},
	"synthetic-without-contexts": {tally: dedupe.Tally{In: 3, New: 1, Synthetic: 1, DeadLettered: 1}, out: "contexts-1 " + derived},
	"time-window":                {tally: dedupe.Tally{In: 1, New: 1}, out: "window-1"},
	"empty-records":              {},

	"kpl":               {tally: dedupe.Tally{In: 3, New: 3}, out: "kpl-1 kpl-2 kpl-3"},
	"kpl-duplicates":    {tally: dedupe.Tally{In: 5, New: 2, Natural: 3}, out: "kpl-natural kpl-other"},
	"kpl-vector":        {tally: dedupe.Tally{In: 2, DeadLettered: 2}}, // its user records are not JSON
	"kpl-poison-inside": {tally: dedupe.Tally{In: 2, New: 1, DeadLettered: 1}, out: "kpl-good"},
	"kpl-broken":        {tally: dedupe.Tally{In: 2, New: 1, DeadLettered: 1}, out: "after-kpl-broken"},
	"kpl-wrong-digest":  {tally: dedupe.Tally{In: 1, DeadLettered: 1}},

	"line-break": {tally: dedupe.Tally{In: 1, New: 1}, out: "line-break"}, // an ndjson sink joins its lines

	"poison-not-json":      {tally: dedupe.Tally{In: 1, DeadLettered: 1}},
	"poison-not-utf8":      {tally: dedupe.Tally{In: 1, DeadLettered: 1}},
	"poison-not-an-object": {tally: dedupe.Tally{In: 1, DeadLettered: 1}},
	"poison-no-id":         {tally: dedupe.Tally{In: 4, DeadLettered: 4}},
	"poison-empty-data":    {tally: dedupe.Tally{In: 1, DeadLettered: 1}},
	"poison-among-good":    {tally: dedupe.Tally{In: 4, New: 2, Natural: 1, DeadLettered: 1}, out: "among-1 among-3"},

	"snowplow": {tally: dedupe.Tally{In: 7, DeadLettered: 7}}, // for the format of JSON; see TestSnowplowEvents

	"http":              {fault: recordhandler.ErrNotKinesis},
	"no-records":        {fault: recordhandler.ErrNotKinesis},
	"null-records":      {fault: recordhandler.ErrNotKinesis},
	"missing-arn":       {fault: recordhandler.ErrNotKinesis},
	"missing-sequence":  {fault: recordhandler.ErrNotKinesis},
	"missing-event-id":  {fault: recordhandler.ErrNotKinesis},
	"missing-arrival":   {fault: recordhandler.ErrNotKinesis},
	"bad-base64":        {fault: recordhandler.ErrNotKinesis},
	"data-not-a-string": {fault: recordhandler.ErrNotKinesis},
	"descending":        {fault: dedupe.ErrNotABatch},
	"shared-sequence":   {fault: dedupe.ErrSharedSequence},
	"two-shards":        {fault: recordhandler.ErrManyShards},
	"two-streams":       {fault: recordhandler.ErrManyShards},

	// Events of a consumer with enhanced fan-out; see unaggregatedCases.
	"consumer-arn":       {fault: recordhandler.ErrConsumer},
	"consumer-aggregate": {fault: recordhandler.ErrConsumer},
}

// unaggregatedCases are events whose result differs if ONCEBOX_SOURCE_AGGREGATION is off. Lambda has opened the
// aggregate in consumer-aggregate, so that its records share a number.
var unaggregatedCases = map[string]dedupeCase{
	"consumer-arn":       {tally: dedupe.Tally{In: 2, New: 2}, out: "consumer-1 consumer-2"},
	"consumer-aggregate": {fault: dedupe.ErrSharedSequence},
	"kpl":                {tally: dedupe.Tally{In: 1, DeadLettered: 1}},
}

func TestEveryDedupeEventIsInTheTable(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(dedupeEvents + "/*")
	must(t, err)
	found := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		if _, ok := dedupeCases[name]; !ok {
			t.Errorf("%s is not in the table of dedupe_events_test.go", file)
		}
		found[name] = true
	}
	for name := range dedupeCases {
		if !found[name] {
			t.Errorf("%s/%s.json of the table does not exist", dedupeEvents, name)
		}
	}
}

// TestDedupeEvents gives every event to the handler on SQLite, twice. The second time the
// handler delivers nothing if it has acks, else the same records under the same ids.
func TestDedupeEvents(t *testing.T) {
	t.Parallel()
	for name, want := range dedupeCases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newDedupeHandler(t)
			b.check(t, name, want)
			if want.fault == nil {
				b.check(t, name, redelivered(want))
			}
			b = newDedupeHandler(t, "ONCEBOX_ACKS=on")
			b.check(t, name, want)
			if want.fault == nil {
				b.check(t, name, acknowledged(t, name))
			}
		})
	}
}

func TestDedupeEventsWithoutAggregates(t *testing.T) {
	t.Parallel()
	for name, want := range unaggregatedCases {
		newDedupeHandler(t, "ONCEBOX_SOURCE_AGGREGATION=off").check(t, name, want)
	}
}

// TestSnowplowEvents gives enriched events to the handler: an event, its copy from a tracker that sent it again, and
// another event under its id; an event without a fingerprint and its copy; a line of 130 columns; and an event that
// needs a new id, but whose derived contexts are broken.
func TestSnowplowEvents(t *testing.T) {
	t.Parallel()
	b := &dedupeBench{dir: t.TempDir()}
	isPath := func(setting string) bool { return strings.Contains(setting, "_PATH=") }
	b.open(t, append(slices.DeleteFunc(b.settings(), isPath), "ONCEBOX_FORMAT=snowplow"))
	event := readDedupeEvent(t, "snowplow")
	payloads := payloadsOf(t, event)
	renamed := strings.Split(payloads[2], "\t")
	original := renamed[6]
	renamed[6] = format.DerivedID(original, renamed[129])
	renamed[122] = strings.Replace(renamed[122], `"data":[`, `"data":[{"schema":"iglu:com.snowplowanalytics.snowplow/`+
		`duplicate/jsonschema/1-0-0","data":{"originalEventId":"`+original+`"}},`, 1)
	want := []string{payloads[0], strings.Join(renamed, "\t"), payloads[3]}
	first := dedupeCase{tally: dedupe.Tally{In: 7, Out: 3, New: 2, Natural: 2, Synthetic: 1, DeadLettered: 2}}
	again := redelivered(first)
	for i, c := range []dedupeCase{first, again} {
		answer, err := b.invoke(t, event)
		must(t, err)
		equal(t, "failed records", len(answer.BatchItemFailures), 0)
		equal(t, "tally", b.lastTally(t), c.tally)
		equal(t, "lines", strings.Join(b.lines(t)[3*i:], "\n"), strings.Join(want, "\n"))
		b.checkDeadLetters(t, "snowplow", []string{payloads[5], payloads[6]}, 2)
	}
}

// acknowledged returns the case of an event that acks skip when Lambda delivers it again. An
// aggregate that is done counts as one record.
func acknowledged(t *testing.T, name string) dedupeCase {
	t.Helper()
	var e events.KinesisEvent
	must(t, json.Unmarshal(readDedupeEvent(t, name), &e))
	n := int64(len(e.Records))
	return dedupeCase{tally: dedupe.Tally{In: n, Skipped: n}}
}

// redelivered returns the case of the same event when Lambda delivers it again and there are no
// acks.
func redelivered(first dedupeCase) dedupeCase {
	again := first
	again.tally.Retry = first.tally.New + first.tally.Synthetic
	again.tally.New, again.tally.Synthetic = 0, 0
	return again
}

// dedupeBench is the dedupe function, in this process or in the emulator, with an ndjson
// sink and a dead-letter store in a folder.
type dedupeBench struct {
	function *function // nil if the function runs in this process
	dir      string
	invoke   func(t *testing.T, event []byte) (events.KinesisEventResponse, error)
	log      func(t *testing.T) string
	ids      map[string]string // derived id by original id
}

func (b *dedupeBench) sink() string            { return filepath.Join(b.dir, "unique.ndjson") }
func (b *dedupeBench) deadLetterStore() string { return filepath.Join(b.dir, "dead-letters") }

// settings returns the variables of the function except for the ledger's. Acks are off, so that a repeated record
// shows its result, too.
func (b *dedupeBench) settings() []string {
	return []string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_FINGERPRINT_PATH=fp",
		"ONCEBOX_SINK=ndjson:" + b.sink(), "ONCEBOX_DEAD_LETTERS=dir:" + b.deadLetterStore(),
		"ONCEBOX_ACKS=off",
		"ONCEBOX_HORIZON=3650d", // the events are of 2026
	}
}

// newDedupeHandler makes the handler in this process. A variable in env overrides the settings.
func newDedupeHandler(t *testing.T, env ...string) *dedupeBench {
	t.Helper()
	b := &dedupeBench{dir: t.TempDir()}
	b.open(t, append(b.settings(), env...))
	return b
}

// open makes the handler with these settings.
func (b *dedupeBench) open(t *testing.T, settings []string) {
	t.Helper()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(b.dir, "ledger.db"))
	must(t, err)
	options, err := recordhandler.ParseOptions(settings)
	must(t, err)
	var log bytes.Buffer
	handler, err := recordhandler.Open(t.Context(), sdkconfig.Load, store, options, slog.New(slog.NewJSONHandler(&log, nil)))
	must(t, err)
	t.Cleanup(func() { must(t, errors.Join(handler.Close(), store.Close())) })
	b.log = func(*testing.T) string { return log.String() }
	b.invoke = func(t *testing.T, event []byte) (events.KinesisEventResponse, error) {
		return handler.Handle(t.Context(), event)
	}
}

// check gives an event to the function and compares everything that the function did.
func (b *dedupeBench) check(t *testing.T, name string, want dedupeCase) {
	t.Helper()
	event := readDedupeEvent(t, name)
	sent, deadLetters := len(b.lines(t)), len(b.deadLetters(t))
	answer, err := b.invoke(t, event)
	if !errors.Is(err, want.fault) {
		t.Fatalf("%s: want the error %v, got %v", name, want.fault, err)
	}
	lines := b.lines(t)[sent:]
	if want.fault != nil {
		equal(t, name+": lines sent", len(lines), 0)
		equal(t, name+": dead letters", len(b.deadLetters(t)), deadLetters)
		return
	}
	equal(t, name+": failed records", len(answer.BatchItemFailures), 0)
	want.tally.Out = int64(len(lines))
	equal(t, name+": tally", b.lastTally(t), want.tally)
	payloads := payloadsOf(t, event)
	b.checkLines(t, name, lines, strings.Fields(want.out), payloads)
	if want.tally.Skipped == 0 {
		b.checkDeadLetters(t, name, payloads, want.tally.DeadLettered)
	} else {
		equal(t, name+": dead letters", len(b.deadLetters(t)), deadLetters)
	}
}

// checkLines compares the ids of the delivered records. A record that keeps its id must keep every byte, except the line
// ends between its members.
func (b *dedupeBench) checkLines(t *testing.T, name string, lines, ids, payloads []string) {
	t.Helper()
	if len(lines) != len(ids) {
		t.Fatalf("%s: sent %q, want %v", name, lines, ids)
	}
	for i, line := range lines {
		var record struct {
			ID       any
			Contexts []struct {
				Data struct{ OriginalEventID string }
			}
		}
		decoder := json.NewDecoder(strings.NewReader(line))
		decoder.UseNumber()
		must(t, decoder.Decode(&record))
		id := strings.Trim(string(mustMarshal(t, record.ID)), `"`)
		if slices.ContainsFunc(payloads, func(payload string) bool { return line == strings.ReplaceAll(payload, "\n", "") }) {
			equal(t, name+": id", id, ids[i])
			continue
		}
		if len(record.Contexts) != 1 || record.Contexts[0].Data.OriginalEventID == "" || ids[i] != derived && ids[i] != id {
			t.Errorf("%s: sent %s, want id %s", name, line, ids[i])
		}
		b.sameID(t, record.Contexts[0].Data.OriginalEventID, id)
	}
}

// sameID checks that a record has the same derived id on every attempt.
func (b *dedupeBench) sameID(t *testing.T, original, id string) {
	t.Helper()
	if b.ids == nil {
		b.ids = map[string]string{}
	}
	if before, ok := b.ids[original]; ok {
		equal(t, "derived id of "+original, id, before)
	}
	b.ids[original] = id
}

// checkDeadLetters counts the payloads of the event that have a whole dead letter with a
// reason.
func (b *dedupeBench) checkDeadLetters(t *testing.T, name string, payloads []string, want int64) {
	t.Helper()
	found := map[string]bool{}
	for _, path := range b.deadLetters(t) {
		content, err := os.ReadFile(path)
		must(t, err)
		letter, err := deadletter.Decode(content)
		must(t, err)
		if slices.Contains(payloads, string(letter.Data)) && letter.Reason != "" {
			found[letter.Owner] = true
		}
	}
	equal(t, name+": payloads of dead letters", int64(len(found)), want)
}

// lines returns the lines of the sink.
func (b *dedupeBench) lines(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(b.sink())
	if !errors.Is(err, os.ErrNotExist) { // the function makes it when it starts
		must(t, err)
	}
	return strings.Split(strings.TrimSuffix("\n"+string(content), "\n"), "\n")[1:]
}

// deadLetters returns the files of the dead-letter store.
func (b *dedupeBench) deadLetters(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(b.deadLetterStore() + "/*.json")
	must(t, err)
	return paths
}

// lastTally returns the numbers in the last line of the log.
func (b *dedupeBench) lastTally(t *testing.T) (tally dedupe.Tally) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(b.log(t)), "\n")
	must(t, json.Unmarshal([]byte(lines[len(lines)-1]), &tally))
	return tally
}

// payloadsOf returns the payloads of an event: of its records, and of the user records in
// aggregates.
func payloadsOf(t *testing.T, raw []byte) (payloads []string) {
	t.Helper()
	var event events.KinesisEvent
	must(t, json.Unmarshal(raw, &event))
	var decoder kpl.Decoder
	for _, record := range event.Records {
		payloads = append(payloads, string(record.Kinesis.Data))
		users, _, _ := decoder.Decode(record.Kinesis.Data) // a broken aggregate becomes a dead letter as a whole
		for _, user := range users {
			payloads = append(payloads, string(user.Data))
		}
	}
	return payloads
}

func readDedupeEvent(t testing.TB, name string) []byte {
	t.Helper()
	event, err := os.ReadFile(filepath.Join(dedupeEvents, name+".json"))
	must(t, err)
	return event
}

func mustMarshal(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return text
}
