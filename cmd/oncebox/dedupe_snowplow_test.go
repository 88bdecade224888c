package main

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/format"
)

// enrichedEvent is an enriched event with a fingerprint.
func enrichedEvent(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../bench/testdata/enriched-page-view.tsv")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\t")
}

// The columns that the tests change.
const (
	arrivalColumn     = 3 // collector_tstamp
	idColumn          = 6
	titleColumn       = 30
	derivedColumn     = 122 // derived_contexts
	fingerprintColumn = 129
)

// enrichedLines makes lines of an event with other columns: index, value, index, value ...
func enrichedLines(event []string, lines ...map[int]string) string {
	var out strings.Builder
	for _, changes := range lines {
		values := slices.Clone(event)
		for column, value := range changes {
			values[column] = value
		}
		out.WriteString(strings.Join(values, "\t") + "\n")
	}
	return out.String()
}

// renamedEvent returns the changed columns of a renamed member of a synthetic group.
func renamedEvent(event []string, fingerprint string) map[int]string {
	context := `"data":[{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":"` +
		event[idColumn] + `"}},`
	return map[int]string{
		idColumn: format.DerivedID(event[idColumn], fingerprint), fingerprintColumn: fingerprint,
		derivedColumn: strings.Replace(event[derivedColumn], `"data":[`, context, 1),
	}
}

// TestDedupeSnowplow: enriched events with each policy of ids. rename-all renames every member of a synthetic group, as
// Snowplow's batch job does; the rest of the file stays byte for byte.
func TestDedupeSnowplow(t *testing.T) {
	s := newShell(t)
	event := enrichedEvent(t)
	const other = "0f6dd1f5-7b3f-4a38-9c0e-5d6f1a2b3c4d"
	s.file("in", enrichedLines(event,
		nil, map[int]string{arrivalColumn: "2026-11-22 10:00:00.000"}, map[int]string{fingerprintColumn: "fp2"},
		map[int]string{idColumn: other, fingerprintColumn: ""},
		map[int]string{idColumn: strings.ToUpper(other), fingerprintColumn: "", arrivalColumn: "2026-11-22 10:00:00.000"},
	)+"no event\n")
	alone := map[int]string{idColumn: other, fingerprintColumn: ""}
	for policy, want := range map[string]struct{ says, out string }{
		"first-keeps": {"new 2 + retry 0 + natural 2 + synthetic 1", enrichedLines(event, nil, renamedEvent(event, "fp2"), alone)},
		"rename-all": {
			"new 2 + retry 0 + natural 2 + synthetic 1",
			enrichedLines(event, renamedEvent(event, event[fingerprintColumn]), renamedEvent(event, "fp2"), alone),
		},
	} {
		r := s.run(exitLook, "dedupe", "in", "--format", "snowplow", "--ids", policy, "--ledger", policy+".db", "--out", policy)
		r.saying(t, "in 6 = "+want.says+" + dead_lettered 1 + skipped 0; out 3")
		if got := s.read(policy); got != want.out {
			t.Errorf("%s: want\n%s\ngot\n%s", policy, want.out, got)
		}
		if dead := s.read(policy + ".dead.ndjson"); !strings.Contains(dead, `"reason":"not an enriched event of 131 columns with tabs between them"`) {
			t.Errorf("%s: dead letters %s", policy, dead)
		}
		s.run(exitLook, "dedupe", "in", "--format", "snowplow", "--ids", policy, "--ledger", policy+".db").
			saying(t, "natural 5 ", "out 0")
	}
	s.run(exitLook, "dedupe", "in", "--format", "snowplow", "--ledger", inMemory, "--publish", "lake").
		saying(t, "published lake.2", ".tsv in lake.json", ".tsv.dead")
}

// TestDedupeSnowplowFlags tests the flags that have a meaning for events.
func TestDedupeSnowplowFlags(t *testing.T) {
	s := newShell(t)
	event := enrichedEvent(t)
	event[fingerprintColumn] = ""
	s.file("in", enrichedLines(event, nil, map[int]string{titleColumn: "Boots"}, map[int]string{arrivalColumn: "2026-11-24 10:00:00.000"}))
	base := []string{"--output", "json", "dedupe", "in", "--format", "snowplow", "--ledger", inMemory}
	title := []offline.Difference{{Members: []string{"page_title"}, Records: 1}}
	for name, test := range map[string]struct {
		args []string
		want dedupeSummary
	}{
		"none":     {nil, dedupeSummary{In: 3, New: 1, Natural: 1, Synthetic: 1, Out: 2, DifferOnlyIn: title}},
		"volatile": {[]string{"--volatile", "page_title"}, dedupeSummary{In: 3, New: 1, Natural: 2, Out: 1}},
		"window":   {[]string{"--window", "24h", "--time-path", "collector_tstamp"}, dedupeSummary{In: 3, New: 2, Synthetic: 1, Out: 3, DifferOnlyIn: title}},
	} {
		if got := s.summary(s.run(exitDone, append(base, test.args...)...)); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: want %+v, got %+v", name, test.want, got)
		}
	}
}

// TestDedupeSnowplowRefused checks that the error names the problem, and that nothing was changed.
func TestDedupeSnowplowRefused(t *testing.T) {
	s := newShell(t)
	s.file("events", enrichedLines(enrichedEvent(t), nil))
	s.file("rows", strings.Repeat("a\tb\n", 100))
	s.file("orders", strings.Repeat(`{"id":1}`+"\n", 100))
	s.run(exitDone, "init")
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"events", "--format", "tsv"}, "--format"},
		{[]string{"events"}, "--id-path is missing"},
		{[]string{"events", "--format", "snowplow", "--id-path", "id"}, "--id-path is a path in JSON, and --format is snowplow"},
		{[]string{"events", "--format", "snowplow", "--fingerprint-path", "x"}, "--fingerprint-path is a path in JSON"},
		{[]string{"events", "--format", "snowplow", "--owner-path", "x"}, "--owner-path is a path in JSON"},
		{[]string{"events", "--format", "snowplow", "--contexts-path", "x"}, "--contexts-path is a path in JSON"},
		{[]string{"events", "--format", "snowplow", "--volatile", "title"}, "--volatile: name 1 is not a column of enriched events"},
		{[]string{"events", "--format", "snowplow", "--time-path", "at"}, "--time-path: is not a column of times, such as collector_tstamp"},
		{[]string{"events", "--id-path", "id"}, "The input has enriched events of Snowplow: say --format snowplow, without --id-path."},
		{[]string{"orders", "--format", "snowplow"}, "The command reads JSON without --format snowplow."},
		{[]string{"rows", "--format", "snowplow"}, "The command needs one enriched event a line, of 131 columns"},
	} {
		s.run(exitUsage, append([]string{"dedupe"}, test.args...)...).saying(t, test.says)
	}
	s.absent(deadLettersOfStdout)
}
