package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// asOncebox is the variable that makes the test binary run as the command, so that no test has to build the command.
const asOncebox = "TESTING_AS_ONCEBOX"

// The values of asOncebox.
const (
	runsCommand   = "command"
	worksForTests = "worker"
)

// These are the exit codes, as scripts know them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNo          = 3
	exitLook        = 4
	exitInterrupted = 130
)

// fewCollections is for processes that live for milliseconds, which would spend a third of them on garbage collection.
const fewCollections = "GOGC=1000"

func TestMain(m *testing.M) {
	switch os.Getenv(asOncebox) {
	case runsCommand:
		main()
	case worksForTests:
		if err := work(); err != nil {
			panic(err)
		}
	}
	if err := os.Setenv("TZ", "UTC"); err != nil { // of the commands, which print local times, too
		panic(err)
	}
	code := testengine.Main(m)
	endWorkers()
	os.Exit(code)
}

// shell runs oncebox in a folder of its own.
type shell struct {
	*testing.T
	dir string
	env []string
}

func newShell(t *testing.T) *shell {
	t.Parallel()
	return &shell{T: t, dir: t.TempDir()}
}

// result holds the output of a run and its exit code.
type result struct {
	stdout, stderr string
	code           int
}

// command is a process of its own. Tests need one to signal it, to speak with it, or to give it a terminal.
func (s *shell) command(ctx context.Context, stdin io.Reader, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, os.Args[0], args...)
	c.Dir, c.Stdin, c.Env = s.dir, stdin, append(s.environ(), asOncebox+"="+runsCommand, fewCollections)
	return c
}

// environ returns the environment of the commands: the one of the tests without settings of oncebox and AWS, and s.env.
func (s *shell) environ() (environ []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "ONCEBOX_") && !strings.HasPrefix(v, "AWS_") {
			environ = append(environ, v)
		}
	}
	return append(environ, s.env...)
}

// runWith runs oncebox in a worker, or in a process of its own if it needs one.
func (s *shell) runWith(stdin string, args ...string) result {
	s.Helper()
	if needsProcess(args) {
		return s.runAlone(stdin, args...)
	}
	a, err := send(request{s.dir, s.environ(), stdin, args})
	if err != nil {
		s.Fatalf("oncebox %s: the worker: %v", strings.Join(args, " "), err)
	}
	return result{a.Stdout, a.Stderr, a.Code}
}

// runAlone runs oncebox in a process of its own.
func (s *shell) runAlone(stdin string, args ...string) result {
	s.Helper()
	var stdout, stderr bytes.Buffer
	c := s.command(s.Context(), strings.NewReader(stdin), args...)
	c.Stdout, c.Stderr = &stdout, &stderr
	if err := c.Run(); err != nil && c.ProcessState == nil {
		s.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// run runs oncebox and checks the exit code.
func (s *shell) run(code int, args ...string) result {
	s.Helper()
	return s.want(code, s.runWith("", args...), args...)
}

func (s *shell) want(code int, r result, args ...string) result {
	s.Helper()
	if r.code != code {
		s.Fatalf("oncebox %s: want exit %d, got %d\nstdout: %s\nstderr: %s", strings.Join(args, " "), code, r.code, r.stdout, r.stderr)
	}
	if code != exitDone && strings.TrimSpace(r.stderr) == "" {
		s.Errorf("oncebox %s: exit %d without a word", strings.Join(args, " "), code)
	}
	return r
}

// json runs oncebox with JSON output and reads it.
func (s *shell) json(into any, args ...string) {
	s.Helper()
	r := s.run(exitDone, append([]string{"--output", "json"}, args...)...)
	if err := json.Unmarshal([]byte(r.stdout), into); err != nil {
		s.Fatalf("oncebox %s: output is not JSON: %v\n%s", strings.Join(args, " "), err, r.stdout)
	}
}

func (s *shell) file(name, content string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

func (r result) saying(t *testing.T, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(r.stdout+r.stderr, w) {
			t.Errorf("want output saying %q, got\nstdout: %s\nstderr: %s", w, r.stdout, r.stderr)
		}
	}
}
