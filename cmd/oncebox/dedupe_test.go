package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/format"
)

// These are names that users type and find.
const (
	inMemory            = ":memory:"
	deadLettersOfStdout = "oncebox.dead.ndjson"
)

// orders is a file with a natural duplicate, a synthetic duplicate, an empty line, and a broken record at the end.
const orders = `{"id":"A","n":1}
{"n":1.0,"id":"A"}

{"id":"A","n":2}
{"id":"B","n":[1,2]}
{"id":`

// uniqueOrders are its survivors.
var uniqueOrders = `{"id":"A","n":1}
{"id":"` + format.DerivedID("A", twoFingerprint) + `","n":2,"contexts":[{"schema":"iglu:com.snowplowanalytics.snowplow/duplicate/jsonschema/1-0-0","data":{"originalEventId":"A"}}]}
{"id":"B","n":[1,2]}
`

// twoFingerprint is the computed fingerprint of {"n":2}, from its canonical form.
var twoFingerprint = fmt.Sprintf("%x", sha256.Sum256([]byte("{sn\x00\x01n2e0;}")))

func (s *shell) read(name string) string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil && !os.IsNotExist(err) {
		s.Fatal(err)
	}
	return string(text)
}

func (s *shell) absent(names ...string) {
	s.Helper()
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(s.dir, name)); err == nil {
			s.Errorf("%s exists", name)
		}
	}
}

// summary reads the JSON output of a run.
func (s *shell) summary(r result) (sum dedupeSummary) {
	s.Helper()
	first, _, _ := strings.Cut(r.stderr, "\n")
	if err := json.Unmarshal([]byte(first), &sum); err != nil {
		s.Fatalf("no summary: %v\n%s", err, r.stderr)
	}
	if sum.Run == "" || sum.In != sum.New+sum.Retry+sum.Natural+sum.Synthetic+sum.DeadLettered+sum.Skipped {
		s.Errorf("the summary does not add up: %+v", sum)
	}
	sum.Run = ""
	return sum
}

// TestDedupe: the output, the dead letters, and the result of a second run, on both engines.
func TestDedupe(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		s := newShell(t)
		s.run(exitDone, "init")
		lifeOfRecords(s)
	})
	t.Run("dynamodb", func(t *testing.T) {
		s, _, _ := onTables(t)
		s.run(exitDone, "init")
		lifeOfRecords(s)
	})
}

func lifeOfRecords(s *shell) {
	differences := []offline.Difference{{Members: []string{"n"}, Records: 1}}
	s.file("in", orders)
	first := s.run(exitLook, "dedupe", "in", "--id-path", "id", "--out", "out")
	first.saying(s.T, "in 6 = new 2 + retry 0 + natural 1 + synthetic 1 + dead_lettered 1 + skipped 1; out 3", "1 record could not be processed; see the dead letters in out.dead.ndjson",
		"1 record shares an id with another and differs from it only in n. If that is not part of the record, leave it out: --volatile n")
	if first.stdout != "" || s.read("out") != uniqueOrders {
		s.Errorf("unexpected output %s%s", first.stdout, s.read("out"))
	}
	if got, want := s.read("out.dead.ndjson"), `{"file":"in","line":6,"reason":"not valid JSON","data":"eyJpZCI6"}`+"\n"; got != want {
		s.Errorf("want dead letters %s, got %s", want, got)
	}
	s.absent("out.run", "out.lock")
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--out", "out").saying(s.T, "out is not empty", "nothing was changed")

	again := s.run(exitLook, "--output", "json", "dedupe", "in", "--id-path", "id")
	want := dedupeSummary{In: 6, Natural: 4, DeadLettered: 1, Skipped: 1, DifferOnlyIn: differences}
	if again.stdout != "" || !reflect.DeepEqual(s.summary(again), want) {
		s.Errorf("want all natural, got %+v\n%s", s.summary(again), again.stdout)
	}
	again.saying(s.T, "see the dead letters in "+deadLettersOfStdout)
	other := s.run(exitLook, "dedupe", "in", "--id-path", "id", "--scope", "other")
	if other.stdout != uniqueOrders {
		s.Errorf("another scope: unexpected output %s", other.stdout)
	}
	if deadLetters := s.read(deadLettersOfStdout); strings.Count(deadLetters, "\n") != 2 {
		s.Errorf("want both runs' records in %s, got %s", deadLettersOfStdout, deadLetters)
	}
}

// TestDedupeFlags: each flag changes the result as its help says.
func TestDedupeFlags(t *testing.T) {
	s := newShell(t)
	s.file("in", `{"id":"A","fp":"x","o":"1","v":1,"w":1,"t":1000}
{"id":"A","fp":"x","o":"2","v":2,"w":2,"t":1100}
{"id":"A","fp":"y","o":"2","v":3,"w":3,"t":1101}
{"id":"A","fp":"x","o":"1","v":4,"w":4,"t":1000}
`)
	base := dedupeSummary{In: 4, New: 1}
	for name, test := range map[string]struct {
		args []string
		want dedupeSummary
	}{
		"computed":        {nil, dedupeSummary{Synthetic: 3, Out: 4}},
		"fingerprint":     {[]string{"--fingerprint-path", "fp"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 2}},
		"volatile":        {[]string{"--volatile", "v", "--volatile", "w", "--volatile", "t", "--volatile", "o"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 2}},
		"volatile list":   {[]string{"--volatile", "v,w,t,o"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 2}},
		"owner":           {[]string{"--fingerprint-path", "fp", "--owner-path", "o"}, dedupeSummary{Retry: 1, Natural: 1, Synthetic: 1, Out: 3}},
		"no natural":      {[]string{"--fingerprint-path", "fp", "--no-natural"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 4}},
		"no synthetic":    {[]string{"--fingerprint-path", "fp", "--no-synthetic"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 2}},
		"window":          {[]string{"--fingerprint-path", "fp", "--window", "100s"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 2}},
		"window and time": {[]string{"--fingerprint-path", "fp", "--window", "100s", "--time-path", "t"}, dedupeSummary{New: 1, Natural: 1, Synthetic: 1, Out: 3}},
		"contexts":        {[]string{"--fingerprint-path", "fp", "--contexts-path", "meta.c"}, dedupeSummary{Natural: 2, Synthetic: 1, Out: 2}},
		"contexts in use": {[]string{"--fingerprint-path", "fp", "--contexts-path", "v"}, dedupeSummary{Natural: 2, DeadLettered: 1, Out: 1}},
	} {
		test.want.In, test.want.New = base.In, test.want.New+base.New
		code := exitDone
		if test.want.DeadLettered > 0 {
			code = exitLook
		}
		r := s.run(code, append([]string{"--output", "json", "dedupe", "in", "--id-path", "id", "--ledger", inMemory, "--dead-letters", name}, test.args...)...)
		got := s.summary(r)
		got.DifferOnlyIn = nil // TestDedupeDifferences has it
		if !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: want %+v, got %+v", name, test.want, got)
		}
		if got := int64(strings.Count(r.stdout, "\n")); got != test.want.Out {
			t.Errorf("%s: %d lines for %d", name, got, test.want.Out)
		}
		if name == "contexts" && !strings.Contains(r.stdout, `"meta":{"c":[{"schema"`) {
			t.Errorf("no context where it should be: %s", r.stdout)
		}
		if name == "contexts in use" && !strings.Contains(s.read(name), "the contexts are not an array") {
			t.Errorf("not dead letters: %s", s.read(name))
		}
	}
}

// TestDedupeInputs: several files, stdin, pipes, a new ledger, and a ledger in memory.
func TestDedupeInputs(t *testing.T) {
	s := newShell(t)
	a, b, c := `{"id":"1"}`+"\n", `{"id":"2"}`, `{"id":"1"}`+"\n"+`{"id":"3"}`+"\n"
	s.file("a", a)
	s.file("b", b)
	all := a + b + "\n" + `{"id":"3"}` + "\n"
	for _, args := range [][]string{{"a", "b", "-"}, {"a", "b", "/dev/stdin"}} {
		args = append([]string{"dedupe", "--id-path", "id", "--ledger", inMemory}, args...)
		if got := s.want(exitDone, s.runWith(c, args...)); got.stdout != all {
			t.Errorf("%v: unexpected output %s", args, got.stdout)
		}
	}
	spool := t.TempDir()
	s.env = []string{"TMPDIR=" + spool}
	r := s.want(exitDone, s.runWith(c, "dedupe", "--id-path", "id", "--ledger", "seen.db", "--out", "-"))
	r.saying(t, "made the ledger seen.db", "in 2 = new 2")
	s.run(exitDone, "--quiet", "dedupe", "a", "b", "--id-path", "id", "--ledger", "seen.db")
	r = s.want(exitDone, s.runWith(a+b, "--quiet", "dedupe", "-", "--id-path", "id", "--ledger", "seen.db"))
	if r.stdout != "" || r.stderr != "" {
		t.Errorf("unexpected %+v", r)
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) != 0 {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
	s.absent(deadLettersOfStdout)
}

// TestDedupeNewLedger: a refusal says that nothing was changed, so it does not come after a ledger that was made. Only a
// reading of the whole input finds that it is cut off.
func TestDedupeNewLedger(t *testing.T) {
	s := newShell(t)
	whole := gzipped(t, manyRecords(2000))
	s.file("in.gz", whole[:len(whole)-20])
	args := []string{"dedupe", "in.gz", "--id-path", "id", "--ledger", "seen.db", "--out", "out"}
	r := s.run(exitUsage, args...)
	r.saying(t, "the ledger seen.db is new and empty", "Get the whole file (nothing was changed)")
	if strings.Contains(r.stderr, "made the ledger") {
		t.Errorf("got %s", r.stderr)
	}
	s.file("in.gz", whole)
	if r := s.run(exitDone, args...); strings.Contains(r.stderr, "made the ledger") {
		t.Errorf("the ledger was there: %s", r.stderr)
	}
}

// TestDedupeBatchSize: the batch size changes nothing.
func TestDedupeBatchSize(t *testing.T) {
	s := newShell(t)
	s.file("in", manyRecords(700))
	var want string
	for _, size := range []string{"1", "7", "1000", "1000000"} {
		r := s.run(exitDone, "dedupe", "in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", inMemory, "--batch-size", size)
		if want == "" {
			want = r.stdout
		}
		if r.stdout != want || strings.Count(want, "\n") != 490 {
			t.Errorf("batch size %s: another result", size)
		}
	}
}

// manyRecords makes n records. Of ten records three are copies and two are synthetic duplicates.
func manyRecords(n int) string {
	var text strings.Builder
	for i := range n {
		id, fp := i, "x"
		switch i % 10 {
		case 3, 5, 7:
			id = i - 3
		case 6, 9:
			id, fp = i-5, "y"
		}
		fmt.Fprintf(&text, `{"id":"%08d","fp":%q,"n":%d}`+"\n", id, fp, id)
	}
	return text.String()
}

// TestDedupeBadInput checks that the error names the problem, and that nothing was changed.
func TestDedupeBadInput(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.file("in", orders)
	s.file("empty", "")
	s.file("mine", "mine\n")
	s.file("in.run", orders)
	s.file("in.lock", "")
	s.file("text.db", "this is no database")
	unreadable := s.file("unreadable", orders)
	if err := os.Chmod(unreadable, 0); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		args []string
		says []string
	}{
		{"no id path", []string{"in"}, []string{"--id-path"}},
		{"bad id path", []string{"in", "--id-path", "a.#.b"}, []string{"--id-path", "#"}},
		{"paths in each other", []string{"in", "--id-path", "a", "--fingerprint-path", "a"}, []string{"--fingerprint-path", "--id-path"}},
		{"bad volatile", []string{"in", "--id-path", "a", "--volatile", "b", "--volatile", "c..d"}, []string{"--volatile", "empty part"}},
		{"no such file", []string{"in", "none", "--id-path", "id"}, []string{"none"}},
		{"a directory", []string{"in", ".", "--id-path", "id"}, []string{"oncebox.dead.ndjson is --dead-letters", "a later run would find it among the inputs ."}},
		{"stdin twice", []string{"-", "in", "-", "--id-path", "id"}, []string{"named twice"}},
		{"derived ids", []string{"in", "--id-path", "id", "--ids", "derived", "--no-synthetic"}, []string{"--ids derived and --no-synthetic exclude each other"}},
		{"derived copies", []string{"in", "--id-path", "id", "--ids", "derived", "--no-natural"}, []string{"--ids derived and --no-natural exclude each other"}},
		{"rename-all", []string{"in", "--id-path", "id", "--ids", "rename-all", "--synthetic=off"}, []string{"--ids rename-all and --no-synthetic exclude each other"}},
		{"poison limit", []string{"in", "--id-path", "id", "--poison-limit", "90"}, []string{`--poison-limit: "90" is not a share of a number of records; use for example 90% of 100, or off`}},
		{"ids of no kind", []string{"in", "--id-path", "id", "--ids", "x"}, []string{"--ids", "first-keeps"}},
		{"window", []string{"in", "--id-path", "id", "--window", "10ms"}, []string{"--window", "1s"}},
		{"long window", []string{"in", "--id-path", "id", "--window", "2000000h"}, []string{"--window 2000000h0m0s: must be from 1s to 36500d; without the flag it is forever"}},
		{"window of no form", []string{"in", "--id-path", "id", "--window", "two days"}, []string{`--window: "two days" is not a duration`}},
		{"batch size", []string{"in", "--id-path", "id", "--batch-size", "0"}, []string{"--batch-size"}},
		{"natural", []string{"in", "--id-path", "id", "--natural=maybe"}, []string{`--natural: "maybe" is neither on nor off`}},
		{"the function's dead-letter store", []string{"in", "--id-path", "id", "--dead-letters", "s3://bucket/x"}, []string{"--dead-letters s3://bucket/x: this is a dead-letter store of the Lambda function", "Name a file"}},
		{"scope", []string{"in", "--id-path", "id", "--scope", "No!"}, []string{`--scope "No!": must be the scope of`}},
		{"out is in", []string{"in", "empty", "--id-path", "id", "--out", "empty"}, []string{"empty is --out as well as an input"}},
		{"out is dead letters", []string{"in", "--id-path", "id", "--out", "x", "--dead-letters", "./x"}, []string{"x is --dead-letters as well as --out"}},
		{"the mark is in", []string{"in.run", "--id-path", "id", "--out", "in"}, []string{"in.run is the mark of --out as well as an input"}},
		{"the lock is in", []string{"in.lock", "--id-path", "id", "--out", "in"}, []string{"in.lock is the lock of --out as well as an input"}},
		{"the mark is dead letters", []string{"in", "--id-path", "id", "--out", "x", "--dead-letters", "x.run"}, []string{"x.run is --dead-letters as well as the mark"}},
		{"the mark of dead letters is out", []string{"in", "--id-path", "id", "--out", "x.run", "--dead-letters", "x"}, []string{"x.run is --out as well as the mark of --dead-letters"}},
		{"the lock of dead letters is out", []string{"in", "--id-path", "id", "--out", "x.lock", "--dead-letters", "x"}, []string{"x.lock is --out as well as the lock of --dead-letters"}},
		{"the mark is somebody's", []string{"empty", "--id-path", "id", "--out", "in"}, []string{"the run needs", "in.run for itself"}},
		{"dead letters is in", []string{"in", "--id-path", "id", "--dead-letters", "in"}, []string{"--dead-letters as well as an input"}},
		{"dead letters is the ledger", []string{"in", "--id-path", "id", "--dead-letters", "oncebox.db"}, []string{"--dead-letters as well as the ledger"}},
		{"ledger is in", []string{"empty", "--id-path", "id", "--ledger", "empty"}, []string{"the ledger as well as an input"}},
		{"out of somebody", []string{"in", "--id-path", "id", "--out", "mine"}, []string{"mine is not empty"}},
		{"dead letters of somebody", []string{"in", "--id-path", "id", "--out", "x", "--dead-letters", "mine"}, []string{"mine is not empty"}},
		{"out of somebody, ledger not made", []string{"in", "--id-path", "id", "--out", "mine", "--ledger", "new.db"}, []string{"mine is not empty"}},
		{"out is a directory", []string{"in", "--id-path", "id", "--out", "."}, []string{"not a regular file"}},
		{"out in no folder", []string{"in", "--id-path", "id", "--out", "none/x", "--ledger", "new.db"}, []string{"none/x"}},
		{"dead letters in no folder", []string{"in", "--id-path", "id", "--out", "x", "--dead-letters", "none/x", "--ledger", "new.db"}, []string{"none/x"}},
		{"dead letters of stdout in no folder", []string{"in", "--id-path", "id", "--dead-letters", "none/x", "--ledger", "new.db"}, []string{"none/x"}},
		{"dead letters in a file", []string{"in", "--id-path", "id", "--dead-letters", "in/x", "--ledger", "new.db"}, []string{"in is a file"}},
		{"broken ledger", []string{"in", "--id-path", "id", "--ledger", "text.db"}, []string{"text.db", "not a oncebox store"}},
		{"ledger is a directory", []string{"in", "--id-path", "id", "--ledger", "."}, []string{"not a regular file"}},
		{"ledger in no folder", []string{"in", "--id-path", "id", "--ledger", "none/l.db"}, []string{"none"}},
		{"store not made", []string{"--store", "sqlite:none.db", "in", "--id-path", "id"}, []string{"--store sqlite:none.db: there is no such file", "`oncebox --store sqlite:none.db init` makes the store."}},
	} {
		s.run(exitUsage, append([]string{"dedupe"}, test.args...)...).saying(t, test.says...)
	}
	if os.Geteuid() != 0 { // root reads everything
		s.run(exitUsage, "dedupe", "in", "unreadable", "--id-path", "id").saying(t, "unreadable", "permission")
	}
	s.absent("x", "x.run", "x.lock", "none.db", "new.db", deadLettersOfStdout)
	if s.read("mine") != "mine\n" || s.read("in") != orders || s.read("empty") != "" {
		t.Error("a file was changed")
	}
	s.run(exitLook, "dedupe", "in", "--id-path", "id").saying(t, "new 2 ")
}

// TestDedupeStdoutIsInput: the output may not be redirected into an input.
func TestDedupeStdoutIsInput(t *testing.T) {
	s := newShell(t)
	path := s.file("in", orders)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var stderr bytes.Buffer
	c := s.command(t.Context(), nil, "dedupe", "in", "--id-path", "id", "--ledger", inMemory)
	c.Stdout, c.Stderr = file, &stderr
	if err := c.Run(); err == nil || c.ProcessState.ExitCode() != exitUsage || !strings.Contains(stderr.String(), "in is stdout as well as an input") {
		t.Errorf("got %v: %s", err, stderr.String())
	}
}

// TestDedupeTwice: only one process at a time writes to an output.
func TestDedupeTwice(t *testing.T) {
	s := newShell(t)
	s.file("in", orders)
	lock := flock.New(filepath.Join(s.dir, "out.lock"))
	if locked, err := lock.TryLock(); err != nil || !locked {
		t.Fatal(locked, err)
	}
	args := []string{"dedupe", "in", "--id-path", "id", "--ledger", "l.db", "--out", "out"}
	s.run(exitUsage, args...).saying(t, "another process is writing to out")
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	s.run(exitLook, args...)
}

// TestDedupeResumed checks that an interrupted or killed run continues where it stopped.
func TestDedupeResumed(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	const n = 20_000
	s.file("in", manyRecords(n)+"broken\n")
	whole := s.run(exitLook, "dedupe", "in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", inMemory, "--dead-letters", "p")
	args := []string{"--output", "json", "dedupe", "in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", "l.db", "--out", "out", "--batch-size", "20"}
	for i, signal := range []os.Signal{os.Interrupt, os.Kill, os.Interrupt} {
		c := s.command(context.Background(), nil, args...)
		var stderr bytes.Buffer
		c.Stderr = &stderr
		before := len(s.read("out"))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for len(s.read("out")) <= before {
			time.Sleep(time.Millisecond) // before the next look at the other process's file
		}
		if err := c.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // the exit code is checked next
		if code := c.ProcessState.ExitCode(); signal == os.Interrupt && code != exitInterrupted {
			t.Fatalf("%d: want exit %d, got %d: %s", i, exitInterrupted, code, stderr.String())
		}
		if got := s.read("out"); len(got) >= len(whole.stdout) {
			t.Fatalf("%d: the run was not cut on its way", i)
		}
		if signal == os.Interrupt && !strings.Contains(stderr.String(), "continue from there") {
			t.Errorf("unexpected %s", stderr.String())
		}
		if s.read("out.run") == "" {
			t.Error("nothing says that the run is unfinished")
		}
	}
	s.run(exitUsage, "dedupe", "in", "--id-path", "id", "--ledger", "l.db", "--out", "out").saying(t, "of the stopped run", "other inputs or options")
	r := s.run(exitLook, args...)
	remark, summary, _ := strings.Cut(r.stderr, "\n")
	r.stderr = summary
	sum := s.summary(r)
	if !strings.Contains(remark, "went on after") || sum.Resumed == 0 || sum.In != n+1 || sum.Out != int64(strings.Count(whole.stdout, "\n")) {
		t.Errorf("unexpected %s%+v", remark, sum)
	}
	if s.read("out") != whole.stdout {
		t.Error("the output is not that of an uninterrupted run")
	}
	if strings.Count(s.read("out.dead.ndjson"), "\n") != 1 {
		t.Errorf("unexpected dead-letter file: %s", s.read("out.dead.ndjson"))
	}
	s.absent("out.run", "out.lock")
}

// TestDedupeClosesStoppedRun kills a process. The next command has one more input and another output. Together the
// outputs have each record once.
func TestDedupeClosesStoppedRun(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	s.file("1.in", manyRecords(20_000))
	args := []string{"dedupe", "*.in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", "l.db", "--batch-size", "20"}
	c := s.command(context.Background(), nil, append(args, "--out", "monday")...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for len(s.read("monday")) == 0 {
		time.Sleep(time.Millisecond) // before the next look at the other process's file
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	s.file("2.in", `{"id":"one more","fp":"x"}`+"\n")
	s.run(exitDone, append(args, "--out", "tuesday")...).saying(t,
		"closed the stopped run ", "monday; its later records are decided again")
	whole := s.run(exitDone, "dedupe", "*.in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", inMemory).stdout
	got, want := strings.SplitAfter(s.read("monday")+s.read("tuesday"), "\n"), strings.SplitAfter(whole, "\n")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d records in the outputs, not %d", len(got), len(want))
	}
	s.absent("monday.run", "monday.lock", "tuesday.run")
	s.run(exitDone, "ledger", "runs", "--ledger", "l.db").saying(t, "closed", "finished")
}

// TestDedupeStdoutFails: a full disk or a closed pipe is an error, and the next run prints everything.
func TestDedupeStdoutFails(t *testing.T) {
	s := newShell(t)
	s.file("in", manyRecords(5000))
	args := []string{"dedupe", "in", "--id-path", "id", "--fingerprint-path", "fp", "--ledger", "l.db"}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	stdouts := map[string]*os.File{"broken pipe": w}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil {
		stdouts["no space"] = full
	}
	for says, stdout := range stdouts {
		var stderr bytes.Buffer
		c := s.command(t.Context(), nil, args...)
		c.Stdout, c.Stderr = stdout, &stderr
		if err := c.Run(); err == nil || c.ProcessState.ExitCode() != exitFailed || !strings.Contains(stderr.String(), says) || !strings.Contains(stderr.String(), "prints everything again") {
			t.Errorf("got %v: %s", err, stderr.String())
		}
		_ = stdout.Close()
	}
	again := s.run(exitDone, args...)
	again.saying(t, "closed the stopped run ", " at line 0 of stdout; its later records are decided again")
	if strings.Count(again.stdout, "\n") != 3500 {
		t.Errorf("%d lines", strings.Count(again.stdout, "\n"))
	}
}

// TestDedupeInterruptedStdin: Ctrl-C ends a wait for stdin.
func TestDedupeInterruptedStdin(t *testing.T) {
	s := newShell(t)
	spool := t.TempDir()
	s.env = []string{"TMPDIR=" + spool}
	for _, args := range [][]string{
		{"dedupe", "--id-path", "id", "--ledger", inMemory}, {"dedupe", "--id-path", "id", "--ledger", "l.db"}, {"kpl", "decode"},
	} {
		stdin, feed := io.Pipe()
		c := s.command(context.Background(), stdin, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// A pipe holds 64 KiB. More is read only by a process that has started and waits for input.
		if _, err := feed.Write(bytes.Repeat([]byte(`{"id":"1","data":"YQ=="}`+"\n"), 12<<10)); err != nil {
			t.Fatal(err)
		}
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		state, err := c.Process.Wait()
		if err != nil || state.ExitCode() != exitInterrupted {
			t.Errorf("%v: want exit %d, got %v, %v", args, exitInterrupted, state, err)
		}
		_ = feed.Close()
	}
	if left, err := os.ReadDir(spool); err != nil || len(left) != 0 {
		t.Errorf("files are left behind: %v, %v", left, err)
	}
}

// TestDedupeLedgerDown: a store that cannot be reached.
func TestDedupeLedgerDown(t *testing.T) {
	s := newShell(t)
	s.env = localEngine("http://127.0.0.1:1")
	s.file("in", orders)
	s.run(exitFailed, "dedupe", "in", "--id-path", "id", "--out", "out").saying(t, "127.0.0.1:1")
	s.absent("out", "out.run", "out.lock")
}

// TestDedupeSink: the address of a file is --out. Each other sink of the function is refused with what to use instead.
func TestDedupeSink(t *testing.T) {
	s := newShell(t)
	s.file("orders.ndjson", orders)
	run := func(exit int, more ...string) result {
		return s.run(exit, append([]string{"dedupe", "orders.ndjson", "--id-path", "id", "--ledger", "seen.db"}, more...)...)
	}
	for sink, want := range map[string]string{
		"kinesis:unique":  "Use --out FILE, and send its lines",
		"firehose:unique": "Use --out FILE, and send its lines",
		"sqs:https://sqs.eu-west-1.amazonaws.com/123456789012/unique": "cannot be taken back",
		"dynamodb:items?key=id":            "to a function with this sink",
		"s3://lake/unique":                 "Use --out s3://BUCKET/KEY",
		"ndjson:unique.ndjson.gz":          "For a compressed file use --out unique.ndjson.gz",
		"ndjson:unique.ndjson?format=json": "--sink: option format is not a known setting (allowed: no options)",
		"kinesis:unique?aggregate=kpl":     "--sink: option aggregate is not a known setting, did you mean aggregation?",
		"unique.ndjson":                    "--sink is not a known sink (allowed: dynamodb:, firehose:, ",
	} {
		run(exitUsage, "--sink", sink).saying(t, want)
	}
	run(exitUsage, "--sink", "ndjson:a", "--out", "b").saying(t, "--sink excludes --out")
	run(exitUsage, "--sink", "ndjson:a", "--publish", "b").saying(t, "--sink excludes --out and --publish")
	run(exitUsage, "--ledger", "log?lanes=16").saying(t, "log is a ledger of the function, which stores no runs over files")
	s.absent("seen.db", "unique.ndjson", "unique.ndjson.gz", "a", "b")
	run(exitLook, "--sink", "ndjson:unique.ndjson").saying(t, "see the dead letters in unique.ndjson.dead.ndjson")
	if got := s.read("unique.ndjson"); got != uniqueOrders {
		t.Errorf("got %s", got)
	}
	run(exitUsage, "--sink", "ndjson:unique.ndjson", "--scope", "other").saying(t, "unique.ndjson is not empty")
}
