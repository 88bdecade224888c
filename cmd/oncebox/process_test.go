package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // holds a write lock in the file of another process
)

// TestInterruptedLoad: Ctrl-C ends a load with 130, and the same command goes
// on from there.
func TestInterruptedLoad(t *testing.T) {
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
	_ = load.Wait() // the exit code is looked at next
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

// TestInterruptedStdin: Ctrl-C ends a wait for stdin, and leaves nothing behind.
func TestInterruptedStdin(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	spool := t.TempDir()
	s.env = []string{"TMPDIR=" + spool}
	for _, args := range [][]string{
		{"load", "spring", "-"}, {"load", "spring", "-", "--dry-run"}, {"withdraw", "spring", "-"},
		{"reconcile", "spring", "--repair", "--items", "-"}, {"invoke", "claim", "-"},
	} {
		stdin, feed := io.Pipe()
		c := s.command(context.Background(), stdin, args...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		// What was written is read only by a process that is up and waits for
		// more; a pipe takes 64 KiB by itself.
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

// untilProgress waits until a load has recorded some rows as done.
func (s *shell) untilProgress() {
	s.Helper()
	s.until("SELECT EXISTS (SELECT 1 FROM load WHERE rows > 0)")
}

// stocked makes a campaign with n items, in codes.txt. If settings give them a life,
// it waits until that is over: the commands have no clock that a test could move.
func (s *shell) stocked(n int, settings ...string) {
	s.Helper()
	s.run(exitDone, "init")
	s.run(exitDone, append([]string{"campaign", "create", "spring"}, settings...)...)
	s.run(exitDone, "load", "spring", s.file("codes.txt", lines(n)))
	s.until("SELECT NOT EXISTS (SELECT 1 FROM bank WHERE ends_at > unixepoch('subsec') * 1000)")
}

// until asks another process's file until the answer is yes.
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
		time.Sleep(time.Millisecond) // between looks
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
	s.run(exitFailed, "claim", "spring", "ann").saying(t, "try again", "oncebox.db")
	busy := s.post(base+"/campaigns/spring/claims", `{"claimant":"ann"}`)
	if busy.status != http.StatusServiceUnavailable || busy.header.Get("Retry-After") != "1" || !strings.Contains(busy.body, "#try-again") {
		t.Errorf("want 503 try-again, got %+v", busy)
	}
	if err := held.Rollback(); err != nil {
		t.Fatal(err)
	}
	s.run(exitDone, "claim", "spring", "ann").saying(t, "A-1")
}

// TestLocal: the HTTP API over a socket, ended by Ctrl-C.
func TestLocal(t *testing.T) {
	s := newShell(t)
	s.run(exitDone, "init")
	s.run(exitDone, "campaign", "create", "spring")
	s.run(exitDone, "load", "spring", s.file("codes.txt", "A-1\n"))
	base := s.serve()

	claims := base + "/campaigns/spring/claims"
	first := s.post(claims, `{"claimant":"ann/é ?"}`)
	if first.status != http.StatusCreated || !strings.Contains(first.body, `"item":"A-1"`) {
		t.Fatalf("want 201 with the item, got %+v", first)
	}
	location := first.header.Get("Location")
	if again := s.send(http.MethodGet, base+location, ""); again.status != http.StatusOK || !strings.Contains(again.body, `"A-1"`) {
		t.Errorf("GET %s: want the claim, got %+v", location, again)
	}
	for _, test := range []struct {
		name, body string
		status     int
	}{
		{"nothing left", `{"claimant":"bob"}`, http.StatusConflict},
		{"invalid UTF-8", "{\"claimant\":\"\xff\"}", http.StatusBadRequest},
		{"a large body", strings.Repeat("x", 1<<20), http.StatusRequestEntityTooLarge},
	} {
		if got := s.post(claims, test.body); got.status != test.status {
			t.Errorf("%s: want %d, got %+v", test.name, test.status, got)
		}
	}
}

var servingOn = regexp.MustCompile(`on (http://127\.0\.0\.1:\d+)`)

// serve starts `oncebox local` on a free port and returns its URL. At the end
// of the test it is interrupted and must end well.
func (s *shell) serve() string {
	s.Helper()
	local := s.command(context.Background(), nil, "local", "--addr", "127.0.0.1:0")
	stderr, err := local.StderrPipe()
	if err != nil {
		s.Fatal(err)
	}
	if err := local.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		_ = local.Process.Signal(os.Interrupt)
		if err := local.Wait(); err != nil {
			s.Errorf("local ended with %v", err)
		}
	})
	reader := bufio.NewReader(stderr)
	line, err := reader.ReadString('\n')
	match := servingOn.FindStringSubmatch(line)
	if match == nil {
		s.Fatalf("local said %q (%v)", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, reader) }() // its log lines
	return match[1]
}

type httpReply struct {
	status int
	header http.Header
	body   string
}

func (s *shell) post(url, body string) httpReply {
	s.Helper()
	return s.send(http.MethodPost, url, body)
}

func (s *shell) send(method, url, body string) httpReply {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, url, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.Fatal(err)
	}
	return httpReply{response.StatusCode, response.Header, string(text)}
}
