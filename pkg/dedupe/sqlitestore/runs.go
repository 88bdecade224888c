package sqlitestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrReplaced is dedupe.ErrReplaced: see Store.ReplaceRuns and Store.CloseRun.
var ErrReplaced = dedupe.ErrReplaced

const (
	// The first save gives the run its number.
	saveRun = `INSERT INTO run (scope, number, id, digest, finished, ended,
			input, lines, file, line, output, dead_letters, tally, about, output_id, beat, rests, closed)
		SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, max(?4, ?16) * (coalesce(max(number), 0) + 1),
			?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16
		FROM run WHERE scope = ?1
		ON CONFLICT (scope, id) DO UPDATE SET digest = ?3, finished = ?4,
			ended = max(?4, ?16) * (SELECT max(number) FROM run WHERE scope = ?1),
			input = ?5, lines = ?6, file = ?7, line = ?8, output = ?9, dead_letters = ?10, tally = ?11, about = ?12,
			output_id = ?13, beat = ?14, rests = ?15, closed = ?16`

	runColumns = `number, ended, replaced_by, digest, id, finished, input, lines, file, line, output, dead_letters,
		tally, about, output_id, beat, rests, closed`
	selectRun = `SELECT ` + runColumns + ` FROM run WHERE scope = ? AND digest = ? AND replaced_by = ''
		ORDER BY number DESC LIMIT 1`
	selectRunByID  = `SELECT ` + runColumns + ` FROM run WHERE scope = ? AND id = ? AND replaced_by = ''`
	selectOpenRuns = `SELECT ` + runColumns + ` FROM run WHERE scope = ? AND output_id <> '' AND finished = 0
		AND closed = 0 AND replaced_by = '' ORDER BY id`
	selectRuns = `SELECT ` + runColumns + ` FROM run WHERE scope = ? ORDER BY number`

	selectEnd = `SELECT replaced_by, closed FROM run WHERE scope = ? AND id = ?`
)

// PastRun is an offline run in the history of its scope.
type PastRun struct {
	dedupe.Run
	Number int64 // in the order in which the runs of the scope began, from 1
	// Ended is the highest number in the scope when the run finished or was closed. Before, it is 0.
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

// RunByID returns a run that was not replaced, or nil if there is none. The errors are as for ReadRun.
func (s *Store) RunByID(ctx context.Context, scope, id string) (run *dedupe.Run, err error) {
	err = s.db.Read(ctx, "read run", func(ctx context.Context, r *sqlite.Statements) error {
		run, err = runsIn{r}.RunByID(ctx, scope, id)
		return err
	})
	return run, err
}

// OpenRuns returns the runs over files that are neither finished nor closed nor replaced. The errors are as for
// ReadRun.
func (s *Store) OpenRuns(ctx context.Context, scope string) (open []dedupe.Run, err error) {
	err = s.db.Read(ctx, "read open runs", func(ctx context.Context, r *sqlite.Statements) error {
		runs, err := readRuns(ctx, r, selectOpenRuns, scope)
		open = nil
		for _, past := range runs {
			open = append(open, past.Run)
		}
		return err
	})
	return open, err
}

// CloseRun closes a run at the progress that r has, unless it was saved or closed since r was read. The errors are as
// for ReadRun.
func (s *Store) CloseRun(ctx context.Context, scope string, r dedupe.Run) (closed bool, err error) {
	err = s.db.Write(ctx, "close run", func(ctx context.Context, w *sqlite.Statements) error {
		now, err := runsIn{w}.RunByID(ctx, scope, r.ID)
		closed = err == nil && now != nil && !now.Closed && now.Beat == r.Beat
		if !closed {
			return err
		}
		r.Closed, r.Finished = true, false
		return putRun(ctx, w, scope, r)
	})
	return closed, err
}

// runsIn are the runs in a transaction.
type runsIn struct{ *sqlite.Statements }

// RunByID implements dedupe.RunTable.
func (in runsIn) RunByID(ctx context.Context, scope, id string) (*dedupe.Run, error) {
	runs, err := readRuns(ctx, in.Statements, selectRunByID, scope, id)
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return &runs[0].Run, nil
}

// CloseRun implements dedupe.RunTable. It ends the transaction: see Store.writeEntries.
func (runsIn) CloseRun(_ context.Context, scope string, r dedupe.Run) (bool, error) {
	return false, &notClosedError{scope, r}
}

// notClosedError says that a run has to be closed before the transaction. In the same transaction, an error could undo the
// closing after the RunWatch has read it.
type notClosedError struct {
	scope string
	run   dedupe.Run
}

func (e *notClosedError) Error() string { return "the run " + e.run.ID + " has to be closed" }

// writeEntries is a transaction that puts entries. It closes the stopped runs that it meets.
func (s *Store) writeEntries(
	ctx context.Context, doing string, fn func(ctx context.Context, w *sqlite.Statements) error,
) error {
	for {
		err := s.write(ctx, doing, fn)
		first, ok := errors.AsType[*notClosedError](err)
		if !ok {
			return err
		}
		if _, err := s.CloseRun(ctx, first.scope, first.run); err != nil {
			return err
		}
	}
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
		if err := scan(&r.Number, &r.Ended, &r.ReplacedBy, &r.Digest, &r.ID, &r.Finished, &r.Input, &r.Lines, &r.File,
			&r.Line, &r.Output, &r.DeadLetters, &tally, &r.About, &r.OutputID, &r.Beat, &r.Rests, &r.Closed); err != nil {
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
		if err := checkNotOver(ctx, w, scope, r.ID); err != nil {
			return err
		}
		stored, err := runsIn{w}.RunByID(ctx, scope, r.ID)
		if err != nil {
			return err
		}
		if stored != nil && !r.Follows(*stored) {
			return fmt.Errorf("%w: run %s", ErrReplaced, r.ID)
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
		scope, r.ID, r.Digest, r.Finished, r.Input, r.Lines, r.File, r.Line, r.Output, r.DeadLetters, string(tally), r.About,
		r.OutputID, r.Beat, r.Rests, r.Closed)
	return err
}

// checkNotOver returns ErrReplaced if a run was replaced or closed.
func checkNotOver(ctx context.Context, on *sqlite.Statements, scope, id string) error {
	var by string
	var closed bool
	found, err := on.One(ctx, selectEnd, sqlite.Args{scope, id}, &by, &closed)
	switch {
	case err != nil || !found:
		return err
	case by != "":
		return fmt.Errorf("%w: run %s, by run %s", ErrReplaced, id, by)
	case closed:
		return fmt.Errorf("%w: run %s", ErrReplaced, id)
	}
	return nil
}
