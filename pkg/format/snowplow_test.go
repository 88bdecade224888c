package format_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/format"
)

const eventID = readertest.EventID

var (
	enriched  = readertest.Enriched
	unprinted = readertest.Unprinted
	with      = readertest.With
)

func newSnowplow(t testing.TB, o format.SnowplowOptions) *format.Snowplow {
	t.Helper()
	f, err := format.NewSnowplow(o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustReadEvent(t testing.TB, f *format.Snowplow, event string) format.Fields {
	t.Helper()
	fields, err := f.Read(context.Background(), []byte(event))
	if err != nil {
		t.Fatalf("%v\n%q", err, event)
	}
	return fields
}

// reasonOf returns the reason of a *format.BadRecord, or "".
func reasonOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	badRecord, ok := errors.AsType[*format.BadRecord](err)
	if !ok {
		t.Fatalf("no BadRecord: %v", err)
	}
	return badRecord.Reason
}

func TestSnowplowRead(t *testing.T) {
	t.Parallel()
	f := newSnowplow(t, format.SnowplowOptions{TimeColumn: "collector_tstamp"})
	want := format.Fields{
		ID: eventID, Fingerprint: "3e2a9b1f5f0c4a7d8e6b1c2d3f4a5b6c", Version: "p1-28694fb7",
		Time: time.Date(2026, 11, 22, 9, 0, 1, 118e6, time.UTC),
	}
	for _, end := range []string{"", "\n", "\r\n"} {
		if got := mustReadEvent(t, f, enriched+end); got != want {
			t.Errorf("%q: want %+v, got %+v", end, want, got)
		}
	}
	if got := mustReadEvent(t, newSnowplow(t, format.SnowplowOptions{}), enriched); !got.Time.IsZero() || got.Owner != "" {
		t.Errorf("without TimeColumn: got %+v", got)
	}
	upper := mustReadEvent(t, f, with(enriched, "event_id", strings.ToUpper(eventID)))
	if format.KeyOf(upper.ID) != format.KeyOf(eventID) {
		t.Error("the case of the event_id matters")
	}
}

func TestSnowplowBadEvents(t *testing.T) {
	t.Parallel()
	const (
		notEvent = "not an enriched event of 131 columns with tabs between them"
		empty    = "the event_id is empty"
		noUUID   = "the event_id is not a UUID"
		noTime   = "the time is not of the form 2013-11-26 00:03:57.885"
	)
	f := newSnowplow(t, format.SnowplowOptions{TimeColumn: "collector_tstamp"})
	for _, test := range []struct{ event, reason string }{
		{"", notEvent},
		{"\n", notEvent},
		{`{"event_id":"` + eventID + `"}`, notEvent},
		{"\x1f\x8b\x08", notEvent},
		{strings.Repeat("\t", 129), notEvent},
		{strings.Repeat("\t", 130), empty},
		{strings.Repeat("\t", 131), notEvent},
		{enriched + "\t", notEvent},
		{strings.TrimSuffix(enriched, "\t"), notEvent},
		{enriched + "\n" + enriched, notEvent},
		{with(enriched, "page_title", "a\tb"), notEvent},
		{with(enriched, "event_id", ""), empty},
		{with(enriched, "event_id", "order-1"), noUUID},
		{with(enriched, "event_id", "1-1-1-1-1"), noUUID}, // java.util.UUID reads it, and Enrich refuses it
		{with(enriched, "event_id", " "+eventID), noUUID},
		{with(enriched, "event_id", "{"+eventID+"}"), noUUID},
		{with(enriched, "event_id", strings.ReplaceAll(eventID, "-", "")), noUUID},
		{with(enriched, "event_fingerprint", "\xff"), "the event_fingerprint is not Unicode"},
		{with(enriched, "event_fingerprint", strings.Repeat("x", 1001)), "the event_fingerprint is longer than 1000 bytes"},
		{with(enriched, "collector_tstamp", ""), noTime},
		{with(enriched, "collector_tstamp", "2026-11-22T09:00:01Z"), noTime},
		{with(enriched, "collector_tstamp", "2026-02-30 09:00:01.118"), noTime},

		{with(enriched, "event_fingerprint", strings.Repeat("x", 1000)), ""},
		{with(enriched, "event_fingerprint", `a\u00fc`), ""}, // no JSON: an escape is text
		{with(enriched, "collector_tstamp", "2026-11-22 09:00:01"), ""},
		{with(enriched, "page_title", "\xff", "derived_contexts", "no JSON"), ""}, // Rename refuses the contexts
	} {
		_, err := f.Read(context.Background(), []byte(test.event))
		if got := reasonOf(t, err); got != test.reason {
			t.Errorf("want %q, got %q\n%.200q", test.reason, got, test.event)
		}
	}
}

// TestSnowplowComputes: a computed fingerprint is the SHA-256 of the event with the columns empty that do not count.
// The test pins it, because ledgers store it.
func TestSnowplowComputes(t *testing.T) {
	t.Parallel()
	var counted []string
	for i, value := range strings.Split(unprinted, "\t") {
		switch i { // by Snowplow's table
		case 2, 3, 6, 10, 11, 13, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 52, 109, 110, 111, 113, 114, 115, 118,
			119, 122, 124:
			value = ""
		}
		counted = append(counted, value)
	}
	sum := sha256.Sum256([]byte(strings.Join(counted, "\t")))
	got := mustReadEvent(t, newSnowplow(t, format.SnowplowOptions{}), unprinted+"\n")
	want := format.Fields{ID: eventID, Fingerprint: hex.EncodeToString(sum[:]), Version: "c1-6fd77354"}
	if got != want {
		t.Errorf("want %+v, got %+v", want, got)
	}
}

// TestSnowplowCopies: differences that a tracker or Enrich makes in a copy do not count; all other differences do.
func TestSnowplowCopies(t *testing.T) {
	t.Parallel()
	f := newSnowplow(t, format.SnowplowOptions{})
	original := mustReadEvent(t, f, unprinted)
	for name, copied := range map[string]string{
		"sent again by a tracker from another network": with(unprinted,
			"collector_tstamp", "2026-11-23 00:00:00.000", "dvce_sent_tstamp", "2026-11-22 23:59:59.000",
			"derived_tstamp", "2026-11-22 09:00:02.000", "user_ipaddress", "198.51.100.9", "geo_country", "FR",
			"etl_tstamp", "2026-11-23 00:00:01.000"),
		"enriched again": with(unprinted, "etl_tstamp", "2026-11-22 11:00:00.000", "v_etl", "enrich-kinesis-6.11.0",
			"derived_contexts", ""),
		"another context": with(unprinted, "contexts", ""),
	} {
		if got := mustReadEvent(t, f, copied); got != original {
			t.Errorf("%s: want %+v, got %+v", name, original, got)
		}
	}
	for _, column := range []string{"app_id", "page_title", "unstruct_event", "useragent", "true_tstamp"} {
		got := mustReadEvent(t, f, with(unprinted, column, "2026-11-22 09:00:00.000"))
		if got.Fingerprint == original.Fingerprint {
			t.Errorf("%s does not count", column)
		}
		loose := newSnowplow(t, format.SnowplowOptions{Volatile: []string{column}})
		if mustReadEvent(t, loose, with(unprinted, column, "x")) != mustReadEvent(t, loose, unprinted) {
			t.Errorf("%s counts, and is volatile", column)
		}
	}
	// Values do not move from one column to the next.
	a, b := with(unprinted, "app_id", "x", "page_title", ""), with(unprinted, "app_id", "", "page_title", "x")
	if mustReadEvent(t, f, a).Fingerprint == mustReadEvent(t, f, b).Fingerprint {
		t.Error("two events have one fingerprint")
	}
}

func TestSnowplowOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		options format.SnowplowOptions
		want    string
	}{
		{format.SnowplowOptions{TimeColumn: "page_title"}, "TimeColumn: is not a column of times, such as collector_tstamp"},
		{format.SnowplowOptions{TimeColumn: "load_tstamp"}, "TimeColumn: is not a column of times, such as collector_tstamp"},
		{format.SnowplowOptions{Volatile: []string{"page_title", "title"}}, "Volatile: name 2 is not a column of enriched events"},
		{format.SnowplowOptions{Volatile: []string{""}}, "Volatile: name 1 is not a column of enriched events"},
		{
			format.SnowplowOptions{Volatile: []string{"event_fingerprint"}},
			"Volatile: names event_fingerprint, which decides wherever it is set",
		},
	} {
		_, err := format.NewSnowplow(test.options)
		if _, ok := errors.AsType[*format.OptionError](err); !ok || err.Error() != test.want {
			t.Errorf("want %s, got %v", test.want, err)
		}
	}
	version := func(volatile ...string) string {
		return mustReadEvent(t, newSnowplow(t, format.SnowplowOptions{Volatile: volatile}), unprinted).Version
	}
	if version() != version("etl_tstamp", "contexts") || version("app_id", "br_name") != version("br_name", "app_id") {
		t.Error("the same columns have two versions")
	}
	if version("app_id") == version("br_name") || version("app_id") == version() {
		t.Error("two settings have one version")
	}
}

func TestSnowplowRename(t *testing.T) {
	t.Parallel()
	const (
		newID  = "a78d0945-7855-5071-b185-8466c665a24d"
		schema = `"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-1"`
		wrong  = "the derived_contexts are not a contexts document of Snowplow"
	)
	dup := strings.Replace(duplicate, `"old"`, `"`+eventID+`"`, 1)
	f := newSnowplow(t, format.SnowplowOptions{})
	for _, test := range []struct{ name, before, after, reason string }{ // in after, DUP is the context
		{"empty", "", `{` + schema + `,"data":[DUP]}`, ""},
		{"one", `{` + schema + `,"data":[{"a":1}]}`, `{` + schema + `,"data":[DUP,{"a":1}]}`, ""},
		{"none", `{` + schema + `,"data":[]}`, `{` + schema + `,"data":[DUP]}`, ""},
		{"with space", ` { ` + schema + ` , "data" : [ {"a":[1]} ] } `, ` { ` + schema + ` , "data" : [DUP, {"a":[1]} ] } `, ""},
		{"another order", `{"data":[1],` + schema + `}`, `{"data":[DUP,1],` + schema + `}`, ""},
		{"1-0-0", `{"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-0","data":[]}`,
			`{"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-0","data":[DUP]}`, ""},
		{"escapes", `{"sch\u0065ma":"iglu:com.snowplowanalytics.snowplow\/contexts\/jsonschema\/1-0-1","data":[]}`,
			`{"sch\u0065ma":"iglu:com.snowplowanalytics.snowplow\/contexts\/jsonschema\/1-0-1","data":[DUP]}`, ""},
		{"no JSON", `{` + schema + `,"data":[}`, "", wrong},
		{"text", `contexts`, "", wrong},
		{"array", `[]`, "", wrong},
		{"space", ` `, "", wrong},
		{"no data", `{` + schema + `}`, "", wrong},
		{"null", `{` + schema + `,"data":null}`, "", wrong},
		{"object", `{` + schema + `,"data":{}}`, "", wrong},
		{"no schema", `{"data":[]}`, "", wrong},
		{"another schema", `{"schema":"iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0","data":[]}`, "", wrong},
		{"another model", `{"schema":"iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/2-0-0","data":[]}`, "", wrong},
	} {
		record := with(enriched, "derived_contexts", test.before) + "\n"
		renamed, err := f.Rename(context.Background(), []byte(record), eventID, newID)
		if got := reasonOf(t, err); got != test.reason {
			t.Errorf("%s: want %q, got %q", test.name, test.reason, got)
		}
		want := with(enriched, "event_id", newID, "derived_contexts", strings.Replace(test.after, "DUP", dup, 1)) + "\n"
		if err == nil && string(renamed) != want {
			t.Errorf("%s: want\n%s\ngot\n%s", test.name, want, renamed)
		}
	}
	for _, record := range []string{"", with(enriched, "event_id", "order-1")} {
		if _, err := f.Rename(context.Background(), []byte(record), eventID, newID); reasonOf(t, err) == "" {
			t.Errorf("%q was renamed", record)
		}
	}
	for _, id := range []string{"", "order-1", newID + "\t"} {
		if _, err := f.Rename(context.Background(), []byte(enriched), eventID, id); err == nil {
			t.Errorf("%q is an event_id", id)
		}
	}
}

// TestSnowplowDigest: DiffersOnlyIn returns the columns in which two events differ.
func TestSnowplowDigest(t *testing.T) {
	t.Parallel()
	f := newSnowplow(t, format.SnowplowOptions{})
	digest := func(event string) format.Digest { return f.Digest([]byte(event)) }
	other := with(unprinted, "page_title", "Boots", "etl_tstamp", "", "useragent", "curl")
	if got := digest(unprinted).DiffersOnlyIn(digest(other)); !slices.Equal(got, []string{"page_title", "useragent"}) {
		t.Errorf("got %q", got)
	}
	more := with(other, "app_id", "blog")
	for _, event := range []string{unprinted, more, enriched, "", with(unprinted, "event_fingerprint", "\xff")} {
		if got := digest(unprinted).DiffersOnlyIn(digest(event)); got != nil {
			t.Errorf("got %q for %.100q", got, event)
		}
	}
}

func BenchmarkSnowplowReadByColumn(b *testing.B) { benchmarkSnowplow(b, enriched) }

func BenchmarkSnowplowReadComputed(b *testing.B) { benchmarkSnowplow(b, unprinted) }

func benchmarkSnowplow(b *testing.B, event string) {
	f := newSnowplow(b, format.SnowplowOptions{})
	record := []byte(event)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Read(context.Background(), record); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSnowplowRename(b *testing.B) {
	f := newSnowplow(b, format.SnowplowOptions{})
	record := []byte(enriched)
	b.SetBytes(int64(len(record)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Rename(context.Background(), record, eventID, "a78d0945-7855-5071-b185-8466c665a24d"); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzSnowplow: Read and Rename never panic, and do not change their input. Rename changes only two columns, and Read of
// the copy finds the other id and no other difference.
func FuzzSnowplow(f *testing.F) {
	for _, seed := range readertest.Events {
		f.Add([]byte(seed))
	}
	read := newSnowplow(f, format.SnowplowOptions{})
	f.Fuzz(func(t *testing.T, record []byte) {
		original := slices.Clone(record)
		fields, err := read.Read(context.Background(), record)
		if reasonOf(t, err) == "" {
			checkEventRenamed(t, read, record, fields)
		}
		if !bytes.Equal(record, original) {
			t.Fatal("the record was changed")
		}
	})
}
