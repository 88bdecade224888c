package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrReplaced says that an offline run was undone, and that another run took its place: see Store.ReplaceRuns. The run
// cannot continue.
var ErrReplaced = errors.New("another run has replaced this one")

const (
	// The first save gives the run its number.
	saveRun = `INSERT INTO run
			(scope, number, id, digest, finished, ended, input, lines, output, dead_letters, tally, about)
		SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?4 * (coalesce(max(number), 0) + 1), ?5, ?6, ?7, ?8, ?9, ?10
		FROM run WHERE scope = ?1
		ON CONFLICT (scope, id) DO UPDATE SET digest = ?3, finished = ?4,
			ended = ?4 * (SELECT max(number) FROM run WHERE scope = ?1),
			input = ?5, lines = ?6, output = ?7, dead_letters = ?8, tally = ?9, about = ?10`

	runColumns = `number, ended, replaced_by, digest, id, finished, input, lines, output, dead_letters, tally, about`
	selectRun  = `SELECT ` + runColumns + ` FROM run WHERE scope = ? AND digest = ? AND replaced_by = ''
		ORDER BY number DESC LIMIT 1`
	selectRuns = `SELECT ` + runColumns + ` FROM run WHERE scope = ? ORDER BY number`

	selectReplacedBy = `SELECT replaced_by FROM run WHERE scope = ? AND id = ?`
)

// PastRun is an offline run in the history of its scope.
type PastRun struct {
	dedupe.Run
	Number int64 // in the order in which the runs of the scope began, from 1
	// Ended is the highest number in the scope when the run finished. It is 0 for a run that has not finished.
	Ended      int64
	ReplacedBy string // the id of the run that replaced this one; empty if none did
}

// ReadRun returns the latest offline run with a digest that was not replaced, or nil if there is none. Errors are
// dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) ReadRun(ctx context.Context, scope, digest string) (run *dedupe.Run, err error) {
	err = s.db.Read(ctx, "read run", func(ctx context.Context, r *sqlite.Statements) error {
		runs, err := readRuns(ctx, r, selectRun, scope, digest)
		if err == nil && len(runs) > 0 {
			run = &runs[0].Run
		}
		return err
	})
	return run, err
}

// Runs returns the offline runs of a scope in the order in which they began. The errors are as for ReadRun.
func (s *Store) Runs(ctx context.Context, scope string) (runs []PastRun, err error) {
	err = s.db.Read(ctx, "read runs", func(ctx context.Context, r *sqlite.Statements) error {
		runs, err = readRuns(ctx, r, selectRuns, scope)
		return err
	})
	return runs, err
}

func readRuns(ctx context.Context, on *sqlite.Statements, query string, args ...any) (runs []PastRun, err error) {
	err = on.Each(ctx, query, args, func(scan func(into ...any) error) error {
		var r PastRun
		var tally []byte
		if err := scan(&r.Number, &r.Ended, &r.ReplacedBy, &r.Digest, &r.ID, &r.Finished, &r.Input, &r.Lines, &r.Output,
			&r.DeadLetters, &tally, &r.About); err != nil {
			return err
		}
		if err := json.Unmarshal(tally, &r.Tally); err != nil {
			return fmt.Errorf("tally of run %s: %w", r.ID, err)
		}
		runs = append(runs, r)
		return nil
	})
	return runs, err
}

// SaveRun stores an offline run, or replaces the stored one. The errors are as for ReadRun, and ErrReplaced.
func (s *Store) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	return s.db.Write(ctx, "save run", func(ctx context.Context, w *sqlite.Statements) error {
		if err := checkNotReplaced(ctx, w, scope, r.ID); err != nil {
			return err
		}
		return putRun(ctx, w, scope, r)
	})
}

func putRun(ctx context.Context, w *sqlite.Statements, scope string, r dedupe.Run) error {
	tally, err := json.Marshal(r.Tally)
	if err != nil {
		return err
	}
	_, err = w.Exec(ctx, saveRun,
		scope, r.ID, r.Digest, r.Finished, r.Input, r.Lines, r.Output, r.DeadLetters, string(tally), r.About)
	return err
}

func checkNotReplaced(ctx context.Context, on *sqlite.Statements, scope, id string) error {
	var by string
	if _, err := on.One(ctx, selectReplacedBy, sqlite.Args{scope, id}, &by); err != nil || by == "" {
		return err
	}
	return fmt.Errorf("%w: run %s, by run %s", ErrReplaced, id, by)
}
