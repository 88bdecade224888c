package tests

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// The ids of records that are long.
const (
	change1 = "c4ca4238a0b923820dcc509a6f750001"
	change2 = "c4ca4238a0b923820dcc509a6f750002"
	change3 = "c4ca4238a0b923820dcc509a6f750003"
	logs    = "38480917865042697267627490045603633139480491071049695"
)

// sourceCases lists all events of sources other than Kinesis, and all that need ONCEBOX_SOURCE_RECORDS, by file name
// below events without .json. They hold with a ledger that knows no record of the event.
var sourceCases = map[string]struct {
	settings string // settings in addition to a dedupeBench's
	tally    dedupe.Tally
	out      string // ids, with spaces between
	fault    error
}{
	"sqs/standard":               {"", dedupe.Tally{In: 4, New: 2, Natural: 1, DeadLettered: 1}, "sqs-1 sqs-2", nil},
	"sqs/fifo":                   {"", dedupe.Tally{In: 3, New: 2, Natural: 1}, "fifo-1 fifo-2", nil},
	"sqs/dead-letter-queue":      {"", dedupe.Tally{In: 3, New: 2, Natural: 1}, "dead-1 dead-2", nil},
	"sqs/message-twice":          {"", dedupe.Tally{In: 3, New: 2, Skipped: 1}, "a b", nil},
	"sqs/missing-sent-timestamp": {fault: recordhandler.ErrNotKinesis},
	"sqs/missing-message-id":     {fault: recordhandler.ErrNotKinesis},
	"sqs/bad-arn":                {fault: recordhandler.ErrNotKinesis},
	"sqs/bad-origin":             {fault: recordhandler.ErrNotKinesis},
	"sqs/body-not-a-string":      {fault: recordhandler.ErrNotKinesis},
	"sqs/two-services":           {fault: recordhandler.ErrNotKinesis},
	"sqs/two-queues":             {fault: recordhandler.ErrManyShards},
	"sqs/shared-message-id":      {fault: dedupe.ErrSharedSequence},

	"dynamodb/changes":          {"ONCEBOX_ID_PATH=eventID", dedupe.Tally{In: 3, New: 3}, change1 + " " + change2 + " " + change3, nil},
	"dynamodb/missing-arrival":  {fault: recordhandler.ErrNotKinesis},
	"dynamodb/missing-event-id": {fault: recordhandler.ErrNotKinesis},
	"dynamodb/missing-sequence": {fault: recordhandler.ErrNotKinesis},
	"dynamodb/bad-arn":          {fault: recordhandler.ErrNotKinesis},
	"dynamodb/not-an-object":    {fault: recordhandler.ErrNotKinesis},
	"dynamodb/two-tables":       {fault: recordhandler.ErrManyShards},

	"logs/data-message":    {"", dedupe.Tally{In: 3, New: 2, Natural: 1}, logs + "001 " + logs + "002", nil},
	"logs/control-message": {"", dedupe.Tally{In: 1, Skipped: 1}, "", nil},
	"logs/broken-gzip":     {"", dedupe.Tally{In: 1, DeadLettered: 1}, "", nil},
	"logs/not-a-message":   {"", dedupe.Tally{In: 1, DeadLettered: 1}, "", nil},
	"logs/not-base64":      {fault: recordhandler.ErrNotKinesis},
	"logs/empty":           {fault: recordhandler.ErrNotKinesis},
	"logs/through-kinesis": {
		"ONCEBOX_SOURCE_RECORDS=logs", dedupe.Tally{In: 5, New: 3, Natural: 1, Skipped: 1},
		logs + "011 " + logs + "012 " + logs + "013", nil,
	},

	"framing/lines": {
		"ONCEBOX_SOURCE_RECORDS=lines", dedupe.Tally{In: 6, New: 4, Natural: 1, DeadLettered: 1}, "l-1 l-2 l-3 l-4", nil,
	},
	"framing/array": {
		"ONCEBOX_SOURCE_RECORDS=array", dedupe.Tally{In: 6, New: 3, Natural: 1, DeadLettered: 1, Skipped: 1}, "a-1 a-2 a-3", nil,
	},
	"framing/concatenated": {
		"ONCEBOX_SOURCE_RECORDS=concatenated", dedupe.Tally{In: 5, New: 3, Natural: 1, DeadLettered: 1}, "c-1 c-2 c-3", nil,
	},
}

// TestSourceEvents gives every event to the handler on SQLite, twice. The second time the records are retries.
func TestSourceEvents(t *testing.T) {
	t.Parallel()
	found := 0
	for _, folder := range []string{"sqs", "dynamodb", "logs", "framing"} {
		files, err := filepath.Glob("../events/" + folder + "/*")
		must(t, err)
		for _, file := range files {
			name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(file), "../events/"), ".json")
			want, ok := sourceCases[name]
			if !ok {
				t.Errorf("%s is not in the table of source_events_test.go", file)
				continue
			}
			found++
			event, err := os.ReadFile(file)
			must(t, err)
			b := newDedupeHandler(t, want.settings)
			tally := want.tally
			for attempt := range 2 {
				if attempt == 1 {
					tally.Retry, tally.New = tally.New, 0
				}
				sent := len(b.lines(t))
				answer, err := b.invoke(t, event)
				if !errors.Is(err, want.fault) {
					t.Errorf("%s: want the error %v, got %v", name, want.fault, err)
				}
				var ids []string
				for _, line := range b.lines(t)[sent:] {
					var sent struct{ ID, EventID string }
					must(t, json.Unmarshal([]byte(line), &sent))
					ids = append(ids, sent.ID+sent.EventID)
				}
				if tally.Out = int64(len(ids)); want.fault == nil {
					equal(t, name+": tally", b.lastTally(t), tally)
				}
				equal(t, name+": sent", strings.Join(ids, " "), want.out)
				equal(t, name+": failed", len(answer.BatchItemFailures), 0)
			}
			equal(t, name+": dead letters", int64(len(b.deadLetters(t))), tally.DeadLettered)
		}
	}
	equal(t, "events of the table", found, len(sourceCases))
}
