package main

import (
	"encoding/csv"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

// outcomesOf counts the lines of a listing by their outcomes.
func (s *shell) outcomesOf(listing string) map[string]int64 {
	s.Helper()
	rows, err := csv.NewReader(strings.NewReader(s.read(listing))).ReadAll()
	must(s.T, err)
	outcomes := map[string]int64{}
	for _, row := range rows[1:] {
		outcomes[row[3]]++
	}
	return outcomes
}

// TestDedupeReport checks that a report has the numbers of the summary, and that a dry run has the numbers of the
// run. A dry run leaves only the report.
func TestDedupeReport(t *testing.T) {
	s := newShell(t)
	const evil = `</td><script>alert("x")</script>`
	s.file("earlier", `{"id":"A","n":1}`+"\n")
	s.file("in", orders+"\n"+`{"id":"A","n":3}`+"\n"+fmt.Sprintf(`{"id":%q,"n":1}`+"\n"+`{"id":%[1]q,"n":1}`, evil))
	s.run(exitDone, "dedupe", "earlier", "--id-path", "id", "--ledger", "l.db", "--out", "first")
	args := []string{"--output", "json", "dedupe", "in", "--id-path", "id", "--ledger", "l.db", "--out", "out"}
	before := s.read("l.db")
	planned := s.summary(s.run(exitLook, append(args, "--dry-run", "--report", "plan")...))
	if s.read("l.db") != before {
		t.Error("the dry run has changed the ledger")
	}
	s.absent("l.db-wal", "out", "out.run", "out.lock", "out.dead.ndjson")
	got := s.summary(s.run(exitLook, append(args, "--report", "report")...))
	if fmt.Sprint(planned) != fmt.Sprint(got) {
		t.Errorf("planned %+v, done %+v", planned, got)
	}
	if s.read("plan/records.csv") != s.read("report/records.csv") {
		t.Errorf("planned %s, done %s", s.read("plan/records.csv"), s.read("report/records.csv"))
	}
	listed := s.outcomesOf("report/records.csv")
	if listed["natural"] != got.Natural || listed["synthetic"] != got.Synthetic || listed["dead_lettered"] != got.DeadLettered {
		t.Errorf("%v are listed, and the summary is %+v", listed, got)
	}
	for _, page := range []string{"plan/report.html", "report/report.html"} {
		text := s.read(page)
		if strings.Contains(text, "<script") || !strings.Contains(text, "&lt;script") {
			t.Errorf("%s: an id is not escaped", page)
		}
		for name, n := range map[string]int64{
			"new": got.New, "retry": got.Retry, "natural": got.Natural, "synthetic": got.Synthetic,
			"dead_lettered": got.DeadLettered, "skipped": got.Skipped,
		} {
			if want := fmt.Sprintf(`<td>%s</td><td class="n">%d</td>`, name, n); !strings.Contains(text, want) {
				t.Errorf("%s: want %s", page, want)
			}
		}
		wellFormed(t, text)
	}
	if !strings.Contains(s.read("plan/report.html"), "Nothing was written") || !strings.Contains(s.read("report/report.html"), "Run <code>20") {
		t.Error("a page does not say of what it is")
	}
}

// wellFormed reads a page to its end.
func wellFormed(t *testing.T, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
	}
}

// TestDedupeReportRefused checks that a report does not overwrite other files, and that a refused run leaves no
// folder.
func TestDedupeReportRefused(t *testing.T) {
	s := newShell(t)
	s.tree(map[string]string{"in": orders, "mine/records.csv": "a,b\n1,2\n", "page/report.html": "mine", "text": strings.Repeat("x\n", 50)})
	args := []string{"dedupe", "--id-path", "id", "--ledger", "l.db", "--dry-run", "--report"}
	s.run(exitUsage, append(args, "mine", "in")...).saying(t, "mine/records.csv is not a listing")
	s.run(exitUsage, append(args, "page", "in")...).saying(t, "not of a report")
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", inMemory, "--out", "out", "--report", "mine").saying(t, "mine/records.csv is not a listing")
	s.absent("out", "out.run", "out.lock")
	s.run(exitUsage, append(args, "new", "text")...)
	s.run(exitUsage, append(args, "none/new", "in")...).saying(t, "none/new")
	s.tree(map[string]string{"days/1": orders})
	s.run(exitUsage, append(args, "days", "days")...).saying(t, "a later run would find it")
	s.absent("new", "l.db", "none")
	if s.read("mine/records.csv") != "a,b\n1,2\n" || s.read("page/report.html") != "mine" {
		t.Error("a file was changed")
	}
	for range 2 { // a report of ours is made again
		s.run(exitLook, append(args, "new", "in")...).saying(t, "see the dead letters in new/records.csv")
	}
	s.run(exitLook, "dedupe", "in", "--id-path", "id", "--ledger", inMemory, "--dry-run").saying(t, "dry run", "--report DIR", "natural 1 ")
	s.env = []string{"ONCEBOX_DRY_RUN=true"}
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", inMemory).saying(t, "--dry-run is not taken from the environment")
	s.absent("l.db", deadLettersOfStdout)
}
