package format_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/oncebox/oncebox/pkg/format"
)

const otherID = "a78d0945-7855-5071-b185-8466c665a24d"

// checkEventRenamed: a renamed event differs from the event in two columns. The added context can be removed again.
// Read finds the new id and no other difference. A copy can be renamed again.
func checkEventRenamed(t rapid.TB, f *format.Snowplow, record []byte, fields format.Fields) {
	t.Helper()
	renamed, err := f.Rename(context.Background(), record, fields.ID, otherID)
	if err != nil {
		return // no place for the context
	}
	before, after := strings.Split(string(record), "\t"), strings.Split(string(renamed), "\t")
	if len(after) != len(before) || after[6] != otherID {
		t.Fatalf("Rename wrote %q", renamed)
	}
	added := strings.Replace(duplicate, `"old"`, `"`+fields.ID+`"`, 1)
	after[6] = before[6]
	after[122] = withoutAdded(after[122], added, before[122])
	if strings.Join(after, "\t") != string(record) {
		t.Fatalf("more has changed than was added:\n%q\n%q", record, renamed)
	}
	fields.ID = otherID
	got, err := f.Read(context.Background(), renamed)
	if err != nil || got != fields {
		t.Fatalf("want %+v, got %+v, %v\n%q", fields, got, err, renamed)
	}
	again, err := f.Rename(context.Background(), renamed, otherID, eventID)
	if err != nil {
		t.Fatalf("the copy cannot be renamed: %v\n%q", err, renamed)
	}
	column := strings.Split(string(again), "\t")[122]
	if !json.Valid([]byte(column)) || strings.Count(column, added) != strings.Count(before[122], added)+1 ||
		strings.Count(column, otherID) != strings.Count(before[122], otherID)+1 {
		t.Fatalf("after two times: %q", column)
	}
}

// withoutAdded removes the added context from derived contexts.
func withoutAdded(contexts, added, before string) string {
	if before == "" && contexts == `{"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1","data":[`+added+`]}` {
		return ""
	}
	if out := strings.Replace(contexts, added+",", "", 1); out == before {
		return out
	}
	return strings.Replace(contexts, added, "", 1)
}

// TestSnowplowRenameChangesNothingElse is the property of checkEventRenamed, for random columns.
func TestSnowplowRenameChangesNothingElse(t *testing.T) {
	t.Parallel()
	f := newSnowplow(t, format.SnowplowOptions{Volatile: []string{"page_title"}})
	value := rapid.StringMatching(`[^\t]{0,5}`)
	contexts := rapid.SampledFrom([]string{
		"", `{"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1","data":[]}`,
		"{ \"data\" : [ 1, {\"data\":[]} ] ,\r\n\"x\":\"\\u00e9\", \"schema\":\"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-0\"}",
	})
	renamed := 0
	rapid.Check(t, func(t *rapid.T) {
		values := make([]string, 131)
		for i := range values {
			values[i] = value.Draw(t, "value")
		}
		values[6] = rapid.SampledFrom([]string{eventID, strings.ToUpper(eventID)}).Draw(t, "id")
		values[122] = contexts.Draw(t, "contexts")
		record := []byte(strings.Join(values, "\t") + rapid.SampledFrom([]string{"", "\n", "\r\n"}).Draw(t, "end"))
		fields, err := f.Read(context.Background(), record)
		if err != nil {
			t.Fatalf("%v: %q", err, record)
		}
		renamed++
		checkEventRenamed(t, f, record, fields)
	})
	if renamed == 0 {
		t.Error("nothing was renamed: the test shows nothing")
	}
}

// TestSnowplowFingerprintIsWhatCounts: two events have one computed fingerprint if and only if all columns that count
// are equal.
func TestSnowplowFingerprintIsWhatCounts(t *testing.T) {
	t.Parallel()
	f := newSnowplow(t, format.SnowplowOptions{})
	volatile := map[int]bool{}
	for i := range 131 { // what Read leaves out, column by column
		if i == 6 || i == 129 {
			continue
		}
		values := strings.Split(unprinted, "\t")
		values[i] += "x"
		volatile[i] = mustReadEvent(t, f, strings.Join(values, "\t")).Fingerprint == mustReadEvent(t, f, unprinted).Fingerprint
	}
	small := rapid.SampledFrom([]string{"", "", "a", "b", "ab"})
	rapid.Check(t, func(t *rapid.T) {
		var pair [2][]string
		same := true
		for i := range 131 {
			a := small.Draw(t, "a")
			b := a
			if rapid.IntRange(0, 60).Draw(t, "changed") == 0 {
				b = small.Draw(t, "b")
			}
			switch i {
			case 6:
				a, b = eventID, otherID
			case 129:
				a, b = "", ""
			default:
				same = same && (a == b || volatile[i])
			}
			pair[0], pair[1] = append(pair[0], a), append(pair[1], b)
		}
		x, err := f.Read(context.Background(), []byte(strings.Join(pair[0], "\t")))
		if err != nil {
			t.Fatal(err)
		}
		y, err := f.Read(context.Background(), []byte(strings.Join(pair[1], "\t")))
		if err != nil {
			t.Fatal(err)
		}
		if same != (x.Fingerprint == y.Fingerprint) {
			t.Fatalf("the same columns count: %v\n%q\n%q", same, pair[0], pair[1])
		}
	})
}
