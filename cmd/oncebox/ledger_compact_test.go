package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// TestLedgerCompact: after a compaction, a record that may be a copy of a forgotten one is never new: not in a run, in
// the dry run before it, or in an import.
func TestLedgerCompact(t *testing.T) {
	s := newShell(t)
	day := func(n, at string) string { return `{"id":"` + n + `","at":"2026-03-0` + at + `T00:00:00Z"}` + "\n" }
	s.file("one", day("A", "1")+day("B", "3"))
	s.file("two", day("A", "1")+day("B", "3")+day("C", "1")+day("D", "4"))
	run := func(exit int, in, out string, more ...string) result {
		return s.run(exit, append([]string{"dedupe", in, "--id-path", "id", "--time-path", "at", "--window", "12h", "--ledger", "seen.db",
			"--out", out}, more...)...)
	}
	run(exitDone, "one", "one.out")
	compact := []string{"ledger", "compact", "--ledger", "seen.db", "--before", "2026-03-02"}
	s.run(exitDone, append(compact, "--dry-run")...).saying(t, "would delete 1 entry that ended before 2026-03-02T00:00:00Z")
	var done compactedJSON
	out := s.run(exitDone, append(compact, "--output", "json")...).stdout
	if err := json.Unmarshal([]byte(out), &done); err != nil || done.Entries != 1 || done.Bytes == 0 || done.Scope != "default" {
		t.Errorf("%s, %v", out, err)
	}
	s.run(exitDone, compact...).saying(t, "deleted 0 entries")
	const want = "out 1"
	run(exitLook, "two", "two.out", "--dry-run").saying(t, want)
	run(exitLook, "two", "two.out").saying(t, want, "2 records could not be processed")
	if got := s.read("two.out"); got != day("D", "4") {
		t.Errorf("%s", got)
	}
	letters := s.read("two.out.dead.ndjson")
	if strings.Count(letters, "older than the horizon of the ledger") != 2 || strings.Contains(letters, `"entered":true`) {
		t.Errorf("%s", letters)
	}
	s.run(exitDone, "dedupe", "two.out.dead.ndjson", "--records", "dead-letters", "--id-path", "id", "--window", "12h", "--ledger",
		"seen.db", "--out", "rest.out", "--dry-run").saying(t, "out 2")
	s.run(exitLook, "ledger", "import", "two", "--id-path", "id", "--time-path", "at", "--window", "12h", "--ledger", "seen.db").
		saying(t, "late 2 + too_old 0 + bad 2", "two:1: it is older than the horizon")
	s.file("A", day("A", "1"))
	s.run(exitNo, "ledger", "explain", "--record", "A", "--id-path", "id", "--time-path", "at", "--ledger", "seen.db").
		saying(t, "too old: entries of its time were deleted")
}

func TestLedgerCompactRefuses(t *testing.T) {
	s := newShell(t)
	future := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	s.run(exitUsage, "ledger", "compact", "--ledger", "none.db", "--before", future).saying(t, future+" is in the future")
	s.run(exitUsage, "ledger", "compact", "--ledger", "none.db", "--before", "2026-03-02").saying(t, "there is no such file")
	s.run(exitUsage, "ledger", "compact", "--store", "dynamodb:", "--before", "2026-03-02").saying(t, "deletes its entries itself")
}
