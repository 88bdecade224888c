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
	Inputs    []string `json:"inputs,omitempty"`
	Output    string   `json:"output,omitempty"`    // empty for a stream
	Published string   `json:"published,omitempty"` // Job.Publish
}

// AboutRun returns the About of a run. It is empty for an import.
func AboutRun(r dedupe.Run) (a About) {
	_ = json.Unmarshal([]byte(r.About), &a) // cannot fail: only save writes the text
	return a
}

// about returns the About of this run, as text.
func (r *run) about() (string, error) {
	var a About
	for _, in := range r.Inputs {
		a.Inputs = append(a.Inputs, in.Name)
	}
	var err error
	if a.Output = r.Place; r.Upload == nil {
		a.Output, err = absolute(r.Out)
	}
	if err != nil {
		return "", err
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
