package reference

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/snowplow/snowplow-golang-analytics-sdk/analytics"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/format"
)

func newSnowplow(t testing.TB, volatile ...string) *format.Snowplow {
	t.Helper()
	f, err := format.NewSnowplow(format.SnowplowOptions{Volatile: volatile})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func read(t *testing.T, f *format.Snowplow, values []string) format.Fields {
	t.Helper()
	fields, err := f.Read(t.Context(), []byte(strings.Join(values, "\t")))
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// TestSnowplowColumns: a column has the name that Snowplow's own SDK has for it. In an event with one other value, the SDK
// says which column that is, and with this column as a volatile one both events have the same fingerprint. Contexts and
// self-describing events have no name of their own there.
func TestSnowplowColumns(t *testing.T) {
	t.Parallel()
	values := slices.Repeat([]string{"0"}, 131)
	for _, i := range []int{2, 3, 4, 119, 121, 124, 130} {
		values[i] = "2026-11-22 09:00:00.000"
	}
	for _, i := range []int{52, 58, 122, 129} {
		values[i] = ""
	}
	values[6] = readertest.EventID
	named := mustParse(t, values)
	for i, value := range values {
		if value == "" || i == 6 {
			continue
		}
		changed := slices.Clone(values)
		changed[i] = strings.Replace("1"+value[1:], "1026", "2025", 1)
		var name string
		for key, other := range mustParse(t, changed) {
			if other != named[key] {
				name = key
			}
		}
		f := newSnowplow(t, name)
		if read(t, f, changed) != read(t, f, values) {
			t.Errorf("column %d is not %s", i, name)
		}
		if at, known := readertest.Columns[name]; known && at != i {
			t.Errorf("the tests take column %d for %s", at, name)
		}
	}
	if got, err := analytics.ParsedEvent(values).GetValue("event_id"); got != readertest.EventID {
		t.Errorf("the SDK finds the id %v, %v", got, err)
	}
}

// bySDK returns the columns of an event by the names that the SDK has for them.
func bySDK(event string) (map[string]any, error) {
	parsed, err := analytics.ParseEvent(event)
	if err != nil {
		return nil, err
	}
	return parsed.ToMap()
}

func mustParse(t *testing.T, values []string) map[string]any {
	t.Helper()
	named, err := bySDK(strings.Join(values, "\t"))
	if err != nil {
		t.Fatal(err)
	}
	return named
}

// FuzzSnowplow: Read accepts an event that Snowplow's SDK takes apart, if it has an id and a fingerprint that can be
// kept. The SDK finds the other id and the old one in the copy that Rename makes, and no other difference.
func FuzzSnowplow(f *testing.F) {
	for _, seed := range readertest.Events {
		f.Add([]byte(seed))
	}
	snowplow := newSnowplow(f)
	f.Fuzz(func(t *testing.T, record []byte) {
		fields, err := snowplow.Read(t.Context(), record)
		text := strings.TrimSuffix(strings.TrimSuffix(string(record), "\n"), "\r")
		badRecord, bad := errors.AsType[*format.BadRecord](err)
		noEvent := bad && strings.HasPrefix(badRecord.Reason, "not an enriched event")
		if _, err := analytics.ParseEvent(text); (err != nil) != noEvent {
			t.Fatalf("the SDK says %v, Read says %v", err, badRecord)
		}
		if err == nil {
			compareRenamed(t, snowplow, text, fields.ID)
		}
	})
}

// compareRenamed compares a renamed event with the event, if it has a place for the old id and if the SDK takes it.
func compareRenamed(t *testing.T, f *format.Snowplow, event, id string) {
	const newID = "a78d0945-7855-5071-b185-8466c665a24d"
	renamed, err := f.Rename(t.Context(), []byte(event), id, newID)
	if err != nil {
		return
	}
	want, err := bySDK(event)
	if err != nil {
		return
	}
	got, err := bySDK(string(renamed))
	if err != nil {
		t.Fatalf("%v: %q", err, renamed)
	}
	const added = "contexts_com_snowplowanalytics_snowplow_duplicate_1"
	contexts, _ := got[added].([]any)
	if len(contexts) == 0 || !reflect.DeepEqual(contexts[0], map[string]any{"originalEventId": id}) {
		t.Fatalf("the SDK finds the contexts %v", contexts)
	}
	if got["event_id"] != newID {
		t.Fatalf("the SDK finds the id %v", got["event_id"])
	}
	for _, values := range []map[string]any{want, got} {
		delete(values, added)
		delete(values, "event_id")
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("the SDK finds more differences:\n%v\n%v", want, got)
	}
}
