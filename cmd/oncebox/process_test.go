package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"

	_ "modernc.org/sqlite" // holds a write lock in the file of another process
)

// interruptedLines is a load of some seconds, which a test can interrupt.
const interruptedLines = 60_000

// TestInterruptedLoad checks that Ctrl-C ends a load with 130, and that the same command continues.
func TestInterruptedLoad(t *testing.T) {
	testengine.CheckOnly(t)
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	const n = interruptedLines
	codes := s.file("codes.txt", lines(n))
	load := s.command(context.Background(), nil, "load", "spring", codes)
	var stderr bytes.Buffer
	load.Stderr = &stderr
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	s.untilProgress()
	if err := load.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = load.Wait() // the exit code is checked next
	if code := load.ProcessState.ExitCode(); code != exitInterrupted {
		t.Fatalf("want exit %d, got %d: %s", exitInterrupted, code, stderr.String())
	}
	if got := s.loaded(); got == 0 || got == n {
		t.Fatalf("the load was not cut on its way: %d of %d loaded", got, n)
	}
	s.run(exitDone, "load", "spring", codes).saying(t, "went on after", fmt.Sprintf("added %d, known 0, repeated 0 of %d lines", n, n))
	if got := s.loaded(); got != n {
		t.Errorf("want %d loaded, got %d", n, got)
	}
}

// TestInterruptedStdin: Ctrl-C ends a wait for stdin, and no temporary file stays.
func TestInterruptedStdin(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	spool := t.TempDir()
	s.env = []string{"TMPDIR=" + spool}
	for _, args := range [][]string{
		{"load", "spring", "-"}, {"load", "spring", "-", "--dry-run"}, {"withdraw", "spring", "-"},
		{"reconcile", "spring", "--repair", "--items", "-"}, {"replay", "spring", "-"}, {"invoke", "claim", "-"},
	} {
		stdin, feed := io.Pipe()
		c := s.command(context.Background(), stdin, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// A pipe holds 64 KiB. More is read only by a process that has started and waits for input.
		if _, err := feed.Write(bytes.Repeat([]byte("A-1\n"), 64<<10)); err != nil {
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

// untilProgress waits until a load has recorded its first rows.
func (s *shell) untilProgress() {
	s.Helper()
	s.until("SELECT EXISTS (SELECT 1 FROM load WHERE rows > 0)")
}

// stocked makes a campaign with n items, from codes.txt. If settings give the items a life, it waits for its end: the
// commands have no clock that a test can set.
func (s *shell) stocked(n int, settings ...string) {
	s.Helper()
	s.run(exitDone, "init")
	s.run(exitDone, append([]string{"campaign", "create", "spring"}, settings...)...)
	s.run(exitDone, "load", "spring", s.file("codes.txt", lines(n)))
	s.until("SELECT NOT EXISTS (SELECT 1 FROM bank WHERE ends_at > unixepoch('subsec') * 1000)")
}

// until repeats a query on the file of another process until the answer is true.
func (s *shell) until(question string) {
	s.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "oncebox.db")+"?mode=ro")
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for {
		var yes bool
		if err := db.QueryRowContext(s.Context(), question).Scan(&yes); err != nil {
			s.Fatal(err)
		}
		if yes {
			return
		}
		time.Sleep(time.Millisecond) // before the next query
	}
}

func (s *shell) loaded() int {
	s.Helper()
	var counts struct{ Loaded int }
	s.json(&counts, "status", "spring")
	return counts.Loaded
}

// TestStoreStaysBusy: another program holds the file's write lock.
func TestStoreStaysBusy(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	base := s.serve()

	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "oncebox.db")+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	held, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	s.run(exitFailed, "claim", "spring", "ann").saying(t, "oncebox.db: take: still busy after 5s: another program is writing to the file\nTry again: it is safe to repeat the command.")
	busy := s.post(base+"/campaigns/spring/claims", `{"claimant":"ann"}`)
	after := busy.header.Get("Retry-After")
	if busy.status != http.StatusServiceUnavailable || after < "1" || after > "3" || !strings.Contains(busy.body, "#try-again") {
		t.Errorf("want 503 try-again, got %+v", busy)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.run(exitDone, "claim", "spring", "ann").saying(t, "A-1")
}

// TestWorkers checks that a worker prints and answers what a process of its own does: the other tests rely on it. Each
// command of a worker has its own folder, variables and stdin.
func TestWorkers(t *testing.T) {
	s := newShell(t)
	other := &shell{T: t, dir: t.TempDir(), env: []string{"ONCEBOX_OUTPUT=json"}}
	for _, at := range []*shell{s, other} {
		at.run(exitDone, "init")
		at.file("in", `{"id":"1"}`+"\n")
	}
	s.run(exitDone, "campaign", "create", "spring")
	for _, c := range []struct {
		at    *shell
		stdin string
		code  int
		args  []string
	}{
		{s, "", exitDone, []string{"campaign", "show", "spring"}},
		{other, "", exitNo, []string{"campaign", "show", "spring"}},
		{s, "", exitNo, []string{"claim", "spring", "ann"}},
		{s, "", exitUsage, []string{"laod"}},
		{s, "", exitUsage, []string{"load", "spring", "none.txt"}},
		{s, "", exitUsage, []string{"dedupe", "none", "--id-path", "id"}},
		{s, "\xff\x00\n", exitUsage, []string{"--quiet", "kpl", "decode"}},
		{s, `{"id":"1"}` + "\n", exitDone, []string{"--quiet", "dedupe", "in", "-", "--id-path", "id", "--ledger", inMemory}},
	} {
		worked, alone := c.at.runWith(c.stdin, c.args...), c.at.runAlone(c.stdin, c.args...)
		if worked != alone || alone.code != c.code {
			t.Errorf("%q: want exit %d, a worker has %+v, a process %+v", c.args, c.code, worked, alone)
		}
	}
}
