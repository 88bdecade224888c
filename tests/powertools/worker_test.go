// Package powertools_test compares the records of package dynamostore with those of Powertools for AWS Lambda, in
// Python and in TypeScript.
package powertools_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

var formats = []powertools.Format{powertools.Python, powertools.TypeScript}

// worker is a program that calls functions with Powertools. A function that runs says so, and ends when it is told.
type worker struct {
	in  io.Writer
	out *bufio.Reader
}

// request is what a worker is asked.
type request struct {
	Do           string            `json:"do"`
	Texts        []string          `json:"texts,omitempty"`
	Endpoint     string            `json:"endpoint,omitempty"`
	Table        string            `json:"table,omitempty"`
	Names        map[string]string `json:"names"`
	Prefix       string            `json:"prefix,omitempty"`
	Event        any               `json:"event,omitempty"`
	Validation   bool              `json:"validation,omitempty"`
	Remaining    *int              `json:"remaining,omitempty"` // milliseconds; absent: the worker does not know them
	ExpiresAfter int               `json:"expires_after,omitempty"`
	Result       any               `json:"result,omitempty"`
}

// answer is what a worker says.
type answer struct {
	Running bool            `json:"running"`
	Ran     bool            `json:"ran"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Text    string          `json:"text"`
	Cause   string          `json:"cause"`
	Hashes  []struct{ Key, Error string }
}

// start starts a worker. It ends with the test.
func start(t *testing.T, format powertools.Format) *worker {
	t.Helper()
	python := testengine.Tool(t, "../powertools/bin/python")
	tool := filepath.Dir(filepath.Dir(python))
	var command *exec.Cmd
	if format == powertools.Python {
		command = exec.CommandContext(t.Context(), python, "worker.py")
	} else {
		command = exec.CommandContext(t.Context(), testengine.Command(t, "node"), "worker.mjs")
	}
	command.Env = append(os.Environ(), "POWERTOOLS="+tool)
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = command.Wait()
	})
	return &worker{in, bufio.NewReader(out)}
}

func (w *worker) ask(t *testing.T, r any) (a answer) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.in.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		t.Fatalf("the worker has ended: %v", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return a
}
