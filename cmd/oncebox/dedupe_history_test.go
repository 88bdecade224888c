package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/records/offline"
)

// runs lists the runs of the ledger seen.db.
func (s *shell) runs() (list []runJSON) {
	s.Helper()
	out := s.run(exitDone, "--output", "json", "ledger", "runs", "--ledger", "seen.db").stdout
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		s.Fatal(err)
	}
	return list
}

// publishedIn is the content of all outputs in the list NAME.json.
func (s *shell) publishedIn(name string) string {
	s.Helper()
	var m offline.Manifest
	if err := json.Unmarshal([]byte(s.read(name+".json")), &m); err != nil {
		s.Fatal(err)
	}
	var all strings.Builder
	for _, o := range m.Outputs {
		all.WriteString(s.read(filepath.Join(filepath.Dir(name), o.File)))
	}
	return all.String()
}

// TestReplaceRun plays the steps of a user who finds out that an input was wrong.
func TestReplaceRun(t *testing.T) {
	s := newShell(t)
	s.file("mon", `{"id":"A","n":1}`+"\n")
	s.file("tue", `{"id":"B","n":0}`+"\n"+"broken\n")
	s.file("wed", `{"id":"B","n":2}`+"\n"+`{"id":"C","n":1}`+"\n")
	s.file("corrected", `{"id":"A","n":1}`+"\n"+`{"id":"B","n":2}`+"\n")
	dedupe := func(exit int, args ...string) result {
		return s.run(exit, append([]string{"dedupe", "--id-path", "id", "--ledger", "seen.db", "--publish", "lake/orders"}, args...)...)
	}
	if err := os.Mkdir(filepath.Join(s.dir, "lake"), 0o700); err != nil {
		t.Fatal(err)
	}
	dedupe(exitDone, "mon").saying(t, "published lake/orders.2", ".ndjson in lake/orders.json")
	dedupe(exitLook, "tue").saying(t, "1 record could not be processed; see the dead letters in lake/orders.2", ".ndjson.dead")
	dedupe(exitDone, "wed")
	if all, err := filepath.Glob(filepath.Join(s.dir, "lake/orders.*.ndjson")); err != nil || len(all) != 3 {
		t.Errorf("a reader of all outputs of 3 runs finds %q, %v", all, err)
	}
	runs := s.runs()
	if len(runs) != 3 || runs[1].State != "finished" || runs[1].Inputs[0] != "tue" || runs[1].DeadLettered != 1 || runs[1].Out != 1 ||
		runs[1].Published != filepath.Join(s.dir, "lake/orders") {
		t.Fatalf("unexpected %+v", runs)
	}
	s.run(exitDone, "ledger", "runs", "--ledger", "seen.db").saying(t, "NUMBER  RUN", "finished  2   1", runs[1].Run, "tue")

	fixed := dedupe(exitDone, "corrected", "wed", "--replace-run", runs[1].Run)
	for _, r := range runs[1:] {
		fixed.saying(t, "run "+r.Run+" was undone: its output "+r.Output+" does not count any more")
	}
	want := `{"id":"A","n":1}` + "\n" + `{"id":"B","n":2}` + "\n" + `{"id":"C","n":1}` + "\n"
	if got := s.publishedIn("lake/orders"); got != want {
		t.Errorf("published is\n%s, want\n%s", got, want)
	}
	runs = s.runs()
	if runs[2].State != "replaced" || runs[2].ReplacedBy != runs[3].Run || runs[0].State != "finished" {
		t.Errorf("unexpected %+v", runs)
	}

	again := s.run(exitDone, "--output", "json", "dedupe", "--id-path", "id", "--ledger", "seen.db", "--publish", "lake/orders", "wed",
		"--replace-run", runs[3].Run)
	if sum := s.summary(again); len(sum.Replaced) != 1 || sum.Replaced[0].ID != runs[3].Run {
		t.Errorf("unexpected %+v", sum)
	}
}

// TestReplaceRunAfterImport: a run after an import can be undone. Copies of imported records are still known.
func TestReplaceRunAfterImport(t *testing.T) {
	s := newShell(t)
	s.file("past", `{"id":"A"}`+"\n")
	s.file("mon", `{"id":"A"}`+"\n"+`{"id":"B"}`+"\n")
	dedupe := []string{"dedupe", "mon", "--id-path", "id", "--ledger", "seen.db", "--out"}
	s.run(exitDone, "ledger", "import", "past", "--id-path", "id", "--ledger", "seen.db")
	s.run(exitDone, append(dedupe, "wrong")...).saying(t, "new 1 ", "natural 1 ")
	s.run(exitDone, append(dedupe, "right", "--replace-run", s.runs()[1].Run)...).saying(t, "new 1 ", "natural 1 ")
	s.file("more", `{"id":"C"}`+"\n")
	s.run(exitDone, "ledger", "import", "more", "--id-path", "id", "--ledger", "seen.db")
	s.run(exitUsage, append(dedupe, "again", "--replace-run", s.runs()[2].Run)...).
		saying(t, "is an import: imports cannot be undone, and runs before it neither. Replace a later run")
}

func TestReplaceRunIsRefused(t *testing.T) {
	s := newShell(t)
	s.file("in", `{"id":"A"}`+"\n")
	args := []string{"dedupe", "in", "--id-path", "id", "--replace-run", "x"}
	for says, more := range map[string][]string{
		"needs a SQLite ledger":                      {"--ledger", inMemory},
		"--replace-run and --window exclude":         {"--ledger", "seen.db", "--window", "1h"},
		"there is no such file":                      {"--ledger", "seen.db"},
		"only that has a history of runs":            {"--store", "dynamodb:"},
		"--dry-run changes nothing":                  {"--ledger", "seen.db", "--dry-run"},
		"--publish and --out exclude each other":     {"--publish", "p", "--out", "o"},
		"--publish and --dead-letters exclude":       {"--publish", "p", "--dead-letters", "d"},
		"--publish does not work with a ledger in D": {"--publish", "p", "--store", "dynamodb:"},
	} {
		s.run(exitUsage, append(args, more...)...).saying(t, says)
	}
	s.file("p.json", "")
	s.run(exitUsage, "dedupe", "p.json", "--id-path", "id", "--ledger", "seen.db", "--publish", "p").
		saying(t, "p.json is the list of --publish as well as an input")
	s.absent("seen.db")
	s.run(exitDone, "dedupe", "in", "--id-path", "id", "--ledger", "seen.db", "--scope", "other", "--publish", "list")
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", "sene.db", "--publish", "list").
		saying(t, "list.json lists outputs of the scope other, and this run has the scope default. Publish under another name")
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", "sene.db", "--publish", "list", "--scope", "other").
		saying(t, "of the ledger "+filepath.Join(s.dir, "seen.db")+", and the ledger "+filepath.Join(s.dir, "sene.db")+" does not have that run")
	s.absent("sene.db")
	s.run(exitUsage, append(args, "--ledger", "seen.db")...).saying(t, "scope default has no run x. `oncebox ledger runs` lists the runs", "nothing was changed")
	s.env = []string{"ONCEBOX_REPLACE_RUN=x"}
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", "seen.db").saying(t, "--replace-run is not taken from the environment")
	s.env = nil
	s.run(exitUsage, "ledger", "runs", "--ledger", "none.db").saying(t, "there is no such file")
	s.run(exitUsage, "ledger", "runs", "--store", "dynamodb:").saying(t, "has no history of runs")
}

// brokenPipe runs oncebox with a stdout whose reader is gone.
func (s *shell) brokenPipe(args ...string) {
	s.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		s.Fatal(err)
	}
	_ = r.Close()
	defer func() { _ = w.Close() }()
	c := s.command(s.Context(), nil, args...)
	if c.Stdout = w; c.Run() == nil {
		s.Fatal("want an error of stdout")
	}
}

// TestRefusedAfterClosing: a command closes a stopped run, and is refused after that. It does not say that nothing was
// changed, and names the closed run, also in JSON.
func TestRefusedAfterClosing(t *testing.T) {
	for format, want := range map[string]string{
		"text": "closed the stopped run ", "json": `{"remark":"closed the stopped run `,
	} {
		t.Run(format, func(t *testing.T) {
			s := newShell(t)
			s.file("in", `{"id":"A"}`+"\n")
			s.file("next", `{"id":"B"}`+"\n")
			args := []string{"dedupe", "--id-path", "id", "--ledger", "seen.db"}
			s.run(exitDone, append(args, "in", "--publish", "lake")...)
			s.brokenPipe(append(args, "next")...)
			runs := s.runs()
			s.run(exitUsage, append(args, "in", "--out", "out", "--output", format, "--replace-run", runs[0].Run)...).saying(t,
				want+runs[1].Run+" at line 0 of stdout",
				"Publish this run under the same name (nothing was changed but the stopped runs, which are closed)")
		})
	}
}
