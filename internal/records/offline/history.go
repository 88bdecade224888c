package offline

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// History holds the methods that Job.Replaces and Job.Publish need from an engine in addition to Store. The SQLite
// engine documents them.
type History interface {
	ForRun(scope, id string) dedupe.Ledger
	Runs(ctx context.Context, scope string) ([]sqlitestore.PastRun, error)
	HoldRuns(ctx context.Context, scope string, do func([]sqlitestore.PastRun) error) error
	ReplaceRuns(
		ctx context.Context, scope string, by dedupe.Run, choose func([]sqlitestore.PastRun) (from int64, err error),
	) error
}

// About is what the history of a ledger says about a run, in addition to its progress. Paths are absolute.
type About struct {
	Inputs    []string `json:"inputs,omitempty"`    // only in a History
	Output    string   `json:"output,omitempty"`    // empty for a stream
	Published string   `json:"published,omitempty"` // Job.Publish
	// File is the file that the run writes to, and Host and Machine the name and the id of the host that has it.
	File    string `json:"file,omitempty"`
	Host    string `json:"host,omitempty"`
	Machine string `json:"machine,omitempty"`
}

// AboutRun returns the About of a run. It is empty for an import.
func AboutRun(r dedupe.Run) (a About) {
	_ = json.Unmarshal([]byte(r.About), &a) // cannot fail: only save writes the text
	return a
}

// about returns the About of this run, as text.
func (r *run) about() (string, error) {
	a := About{Host: r.host, Machine: r.machine}
	for _, in := range r.Inputs {
		if r.history != nil { // other engines pay for each byte, once a second
			a.Inputs = append(a.Inputs, in.Name)
		}
	}
	var err error
	if a.File, err = absolute(targetOf(r.Out)); err != nil {
		return "", err
	}
	if a.Output = r.Place; r.Upload == nil {
		a.Output = a.File
	}
	if a.Published, err = absolute(r.Publish); err != nil {
		return "", err
	}
	text, err := json.Marshal(a)
	return string(text), err
}

// absolute is filepath.Abs, but it returns "" for an empty path and not the working directory.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}
