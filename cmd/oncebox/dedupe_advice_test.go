package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/records/offline"
)

// TestDedupeIDs: each policy renames what its help says, also from stdin with a ledger in memory.
func TestDedupeIDs(t *testing.T) {
	s := newShell(t)
	const input = `{"id":"order-1","fp":"fp1"}
{"id":"order-1","fp":"fp2"}
{"id":"order-2","fp":"fp1"}
{"id":"order-1","fp":"fp1"}
`
	s.file("in", input)
	const derived = `"id":"a78d0945-7855-5071-b185-8466c665a24d","fp":"fp1"` // of order-1 and fp1
	for policy, want := range map[string]struct {
		derived, kept, out int
	}{
		"first-keeps": {0, 2, 3}, "derived": {1, 0, 3}, "rename-all": {1, 1, 3},
	} {
		args := []string{"dedupe", "--id-path", "id", "--fingerprint-path", "fp", "--ids", policy, "--ledger", inMemory}
		fromFile := s.run(exitDone, append(args, "in")...)
		fromStdin := s.want(exitDone, s.runWith(input, args...))
		out := fromFile.stdout
		if fromStdin.stdout != out {
			t.Errorf("%s: from stdin came %s", policy, fromStdin.stdout)
		}
		kept := strings.Count(out, `"id":"order-`)
		if strings.Count(out, derived) != want.derived || kept != want.kept || strings.Count(out, "\n") != want.out {
			t.Errorf("%s: unexpected output %s", policy, out)
		}
		if strings.Count(out, "originalEventId") != want.out-want.kept {
			t.Errorf("%s: a context is missing: %s", policy, out)
		}
	}
}

// TestDedupeWrongInput: an input that is not NDJSON, or that has no such path, is refused with what to do. No file is
// made, not even the ledger.
func TestDedupeWrongInput(t *testing.T) {
	s := newShell(t)
	s.file("a.gz", "\x1f\x8b\x08\x00xx")
	s.file("a.bz2", "BZh91AY&SYxx")
	s.file("a.xz", "\xfd7zXZ\x00\x00")
	s.file("a.parquet", "PAR1\x15\x04")
	s.file("a.csv.gz", gzipped(t, "id,at\n1,2\n"))
	s.file("array.json", "[\n{\"id\":1},\n{\"id\":2}\n]\n")
	s.file("my table", "id,at\n1,2\n")
	s.file("path", strings.Repeat(`{"event_id":1,"at":"x"}`+"\n", 10))
	s.file("nested", strings.Repeat(`{"event":{"id":1,"n":2},"meta":{"at":"x"}}`+"\n", 10))
	s.file("text", strings.Repeat("hello\n", 100))
	for _, test := range []struct {
		args []string
		says []string
	}{
		{[]string{"a.gz"}, []string{"a.gz ends in the middle of its gzip data", "Get the whole file (nothing was changed)"}},
		{[]string{"a.bz2"}, []string{"the first line cannot be processed: not valid JSON. a.bz2 looks like bzip2 (nothing was changed)", "`bzip2 -dc a.bz2 | oncebox dedupe ...`"}},
		{[]string{"array.json"}, []string{"array.json looks like the beginning of a JSON array", "Say --records array."}},
		{[]string{"a.xz"}, []string{"a.xz looks like xz", "`xz -dc a.xz | oncebox dedupe ...`"}},
		{[]string{"a.parquet"}, []string{"a.parquet looks like a Parquet file", "docs/files.md#parquet", "ledger import --format parquet"}},
		{[]string{"my table"}, []string{"looks like CSV", "`mlr --infer-none --icsv --ojsonl cat 'my table' | oncebox dedupe ...`"}},
		{[]string{"a.csv.gz"}, []string{"looks like CSV", "`gzip -dc a.csv.gz | mlr --infer-none --icsv --ojsonl cat | oncebox dedupe ...`"}},
		{[]string{"my table", "--records", "array"}, []string{"my table cannot be read after record 0: it begins with 'i'", "Say --records auto"}},
		{[]string{"path", "--id-path", "event.id"}, []string{
			"10 of the first 10 lines cannot be processed: the id is missing, null or empty. The first one is in path (nothing was changed)",
			"--id-path is event.id, and the members of the first record are: event_id, at. Did you mean --id-path event_id?", "--poison-limit off",
		}},
		{[]string{"path", "--id-path", "event_id", "--time-path", "at"}, []string{"--time-path is at", "event_id, at."}},
		{[]string{"nested", "--id-path", "id"}, []string{"are: event, meta, event.id. Did you mean --id-path event.id?"}},
		{[]string{"nested", "--id-path", "order.id"}, []string{"Did you mean --id-path event.id?"}},
		{[]string{"text"}, []string{"100 of the first 100 lines", "text looks like plain text", "--poison-limit off"}},
		{[]string{"text", "--poison-limit", "50% of 20"}, []string{"20 of the first 20 lines"}},
	} {
		for _, ledger := range []string{inMemory, "new.db"} {
			args := append([]string{"dedupe", "--id-path", "id", "--ledger", ledger, "--out", "out"}, test.args...)
			s.run(exitUsage, args...).saying(t, test.says...)
		}
	}
	s.run(exitUsage, "dedupe", "text", "--format", "snowplow", "--records", "auto", "--ledger", "new.db").saying(t, "--records auto is for JSON, and --format is snowplow")
	s.want(exitUsage, s.runWith("[1]", "dedupe", "--id-path", "id", "--ledger", inMemory)).saying(t, "stdin looks like a JSON array", "Say --records array.")
	s.absent("out", "out.run", "out.lock", "out.dead.ndjson", "new.db", deadLettersOfStdout)
	s.run(exitLook, "dedupe", "text", "--id-path", "id", "--ledger", inMemory, "--poison-limit", "off").saying(t, "dead_lettered 100")
}

// TestDedupeRecords: an array has the same output as its records in lines, with each value as it is written. An import
// reads it, too.
func TestDedupeRecords(t *testing.T) {
	s := newShell(t)
	const a, b = `{"id":9007199254740993,"n":1.50}`, `{"id":9007199254740992,"n":1.5}`
	s.file("array.json.gz", gzipped(t, "["+a+",\n "+b+",\n{\n\"id\":9007199254740993,\"n\":1.5}]"))
	args := []string{"array.json.gz", "--id-path", "id", "--ledger"}
	for _, form := range []string{"array", "auto"} {
		got := s.run(exitDone, append([]string{"dedupe", "--records", form}, append(args, inMemory)...)...)
		if got.saying(t, "new 2 ", "natural 1 "); got.stdout != a+"\n"+b+"\n" {
			t.Errorf("%s: got %s", form, got.stdout)
		}
	}
	s.run(exitDone, append([]string{"ledger", "import"}, append(args, "seen.db")...)...).saying(t, "entered 2 ", "known 1 ")
	s.file("more", a+b)
	s.run(exitDone, "dedupe", "more", "--records", "concatenated", "--id-path", "id", "--ledger", "seen.db").saying(t, "natural 2 ")
}

// TestDedupeDifferences: members in which the records of one id differ are named once, at the end.
func TestDedupeDifferences(t *testing.T) {
	s := newShell(t)
	var input strings.Builder
	for i := range 2 * 10_001 {
		fmt.Fprintf(&input, `{"id":%d,"@t,":%d}`+"\n", i%10_001, i)
	}
	s.file("in", input.String())
	text := s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ledger", inMemory)
	const says = `10,000 records share an id with another and differ from it only in \@t\,. If that is not part of the record, ` +
		`leave it out: --volatile '\@t\,'` + "\nonly the records of the first 10,000 ids were compared\n"
	if strings.Count(text.stderr, says) != 1 {
		t.Errorf("want %s, got %s", says, text.stderr)
	}
	asJSON := s.summary(s.run(exitDone, "--output", "json", "dedupe", "in", "--id-path", "id", "--ledger", inMemory))
	if want := []offline.Difference{{Members: []string{`\@t\,`}, Records: 10_000}}; !reflect.DeepEqual(asJSON.DifferOnlyIn, want) || asJSON.ComparedIDs != 10_000 {
		t.Errorf("want %v, got %+v", want, asJSON)
	}
	s.file("two", `{"id":1,"a":1,"b":1}`+"\n"+strings.Repeat(`{"id":1,"a":2,"b":2}`+"\n", 9))
	args := []string{"dedupe", "two", "--id-path", "id", "--ledger", inMemory}
	if few := s.run(exitDone, args...); strings.Contains(few.stderr, "differ") {
		t.Errorf("want no advice about a few records that differ in two members, got %s", few.stderr)
	}
	s.file("two", s.read("two")+`{"id":1,"a":2,"b":2}`+"\n")
	s.run(exitDone, args...).saying(t, "10 records share an id with another and differ from it only in a and b. If these are not part of the record, leave them out: --volatile a --volatile b")
	advised := s.run(exitDone, "dedupe", "in", "--id-path", "id", "--volatile", `\@t\,`, "--ledger", inMemory)
	if strings.Contains(advised.stderr, "differ") || !strings.Contains(advised.stderr, "natural 10001 ") {
		t.Errorf("the advice does not work: %s", advised.stderr)
	}
	inFile := []string{"dedupe", "two", "--id-path", "id", "--ledger", "seen.db", "--out"}
	finished := s.run(exitDone, append(inFile, "wrong")...).stderr
	_, advice, _ := strings.Cut(finished, "leave them out: ")
	advice, later, _ := strings.Cut(advice, ", with ")
	if !strings.HasPrefix(later, "the same inputs and the inputs of all later runs\n") {
		t.Errorf("the advice does not name the inputs: %s", finished)
	}
	if again := s.run(exitDone, append(append(inFile, "right"), strings.Fields(advice)...)...); !strings.Contains(again.stderr, "natural 10 ") {
		t.Errorf("the advice %q does not work: %s", advice, again.stderr)
	}
	s.run(exitDone, append(inFile[:4:4], "--ledger", "window.db", "--window", "1h")...).
		saying(t, "leave them out: --volatile a --volatile b, in another --scope\n")
}
