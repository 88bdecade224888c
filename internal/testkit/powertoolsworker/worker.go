// Package powertoolsworker runs functions with Powertools for AWS Lambda, in Python and in TypeScript.
package powertoolsworker

import (
	"bufio"
	_ "embed" // the programs
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
)

// Formats are the formats that have a worker.
var Formats = []powertools.Format{powertools.Python, powertools.TypeScript}

var (
	//go:embed worker.py
	python string
	//go:embed worker.mjs
	typeScript string
)

// Worker is a program that calls functions with Powertools. A function that runs says so, and ends when it is told.
type Worker struct {
	in  io.Writer
	out *bufio.Reader
}

// Request is what a worker is asked.
type Request struct {
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
	Keys         []string          `json:"keys,omitempty"`
}

// Answer is what a worker says.
type Answer struct {
	Running bool            `json:"running"`
	Ran     bool            `json:"ran"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
	Text    string          `json:"text"`
	Cause   string          `json:"cause"`
	Hashes  []Hash          `json:"hashes"`
	// Of calls.
	Runs int           `json:"runs"`
	Took time.Duration `json:"took"`
	Used time.Duration `json:"used"` // of the processor
}

// Hash is a key of theirs, or the name of an error.
type Hash struct {
	Key   string `json:"key"`
	Error string `json:"error"`
}

// Start starts a worker. It ends with the test.
func Start(t testing.TB, format powertools.Format) *Worker {
	t.Helper()
	interpreter := testengine.Tool(t, "../powertools/bin/python")
	tool := filepath.Dir(filepath.Dir(interpreter))
	command := exec.CommandContext(t.Context(), interpreter, "-c", python)
	if format == powertools.TypeScript {
		node := testengine.Command(t, "node")
		command = exec.CommandContext(t.Context(), node, "--input-type=module", "--eval", typeScript)
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
	return &Worker{in, bufio.NewReader(out)}
}

// Ask asks a worker something, and waits for its answer.
func (w *Worker) Ask(t testing.TB, r any) (a Answer) {
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
