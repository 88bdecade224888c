package offline

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// History is what Job.Replaces and Job.Publish need of an engine, besides Store. The SQLite engine says what the methods
// do.
type History interface {
	ForRun(scope, id string) dedupe.Ledger
	Runs(ctx context.Context, scope string) ([]sqlitestore.PastRun, error)
	HoldRuns(ctx context.Context, scope string, do func([]sqlitestore.PastRun) error) error
	ReplaceRuns(
		ctx context.Context, scope string, by dedupe.Run, choose func([]sqlitestore.PastRun) (from int64, err error),
	) error
}

// About is what the history of a ledger holds of a run, besides its progress. Paths are absolute.
type About struct {
	Inputs    []string `json:"inputs,omitempty"`
	Output    string   `json:"output,omitempty"`    // empty for a stream
	Published string   `json:"published,omitempty"` // Job.Publish
}

// AboutRun reads what a run says of itself. An import says nothing.
func AboutRun(r dedupe.Run) (a About) {
	_ = json.Unmarshal([]byte(r.About), &a) // only save writes it
	return a
}

// about is the About of this run, as text.
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

// absolute is filepath.Abs, which would make the working directory of an empty path.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}
