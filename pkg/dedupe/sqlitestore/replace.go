package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// ErrInexact says that a scope has entries that belong neither to its offline runs nor to its imports, or that have a
// purge time, or were deleted by Store.Compact. Then deleting the entries of some runs would not restore the earlier state.
var ErrInexact = errors.New("the runs of this scope cannot be undone")

const (
	// The id of a run, from the owner of its records: run/ID/FILE/LINE.
	runOfEntry = `CASE WHEN record GLOB 'run/*/*' THEN substr(record, 5, instr(substr(record, 5), '/') - 1) ELSE '' END`

	// The owner of an imported record is made of the record, and does not name the import: see package history.
	isImported = `record GLOB 'import/*' AND EXISTS (SELECT 1 FROM run WHERE scope = ?1 AND about = '')`

	selectInexact = `SELECT record, purge_at IS NOT NULL FROM entry WHERE scope = ?1 AND
		(purge_at IS NOT NULL OR ` + runOfEntry + ` NOT IN (SELECT id FROM run WHERE scope = ?1)
			AND NOT (` + isImported + `)) LIMIT 1`

	selectAnyConsumer = `SELECT stream FROM consumer WHERE scope = ? LIMIT 1`

	markReplaced = `UPDATE run SET replaced_by = ?3 WHERE scope = ?1 AND number >= ?2`

	deleteEntries = `DELETE FROM entry WHERE scope = ?1 AND ` + runOfEntry + ` IN
		(SELECT id FROM run WHERE scope = ?1 AND number >= ?2)`
)

// ForRun returns the ledger for an offline run. It answers as the store does, with one difference: as soon as another run
// has replaced or closed this one, it puts no entry and returns ErrReplaced. It ends with the Store.
func (s *Store) ForRun(scope, id string) dedupe.Ledger {
	run := *s
	run.check = func(ctx context.Context, w *sqlite.Statements) error { return checkNotOver(ctx, w, scope, id) }
	return dedupe.ByKey(&run)
}

// write is a transaction that changes entries.
func (s *Store) write(
	ctx context.Context, doing string, fn func(ctx context.Context, w *sqlite.Statements) error,
) error {
	return s.db.Write(ctx, doing, func(ctx context.Context, w *sqlite.Statements) error {
		if s.check != nil {
			if err := s.check(ctx, w); err != nil {
				return err
			}
		}
		return fn(ctx, w)
	})
}

// HoldRuns calls do with the offline runs of a scope. Until do returns, no run begins, ends or is replaced. do must
// not call the store. HoldRuns returns the error of do, and has the errors of ReadRun.
func (s *Store) HoldRuns(ctx context.Context, scope string, do func(runs []PastRun) error) error {
	return s.db.Write(ctx, "hold runs", func(ctx context.Context, w *sqlite.Statements) error {
		runs, err := readRuns(ctx, w, selectRuns, scope)
		if err != nil {
			return err
		}
		return do(runs)
	})
}

// ReplaceRuns undoes the runs of a scope from some number on, and begins the run by in their place, completely or not
// at all. It deletes the entries of the undone runs. If one of these runs is still working, it fails with
// ErrReplaced.
//
// choose gets the runs of the scope, as in HoldRuns, and returns the number. The undone runs leave no trace in the
// ledger if all runs and imports with lower numbers had finished before the first of them began, and if no import has a
// higher number: choose must make sure of that.
//
// It has the errors of choose and ReadRun, and ErrInexact. The call takes about as long as reading all entries,
// and other writers wait for it.
func (s *Store) ReplaceRuns(
	ctx context.Context, scope string, by dedupe.Run, choose func(runs []PastRun) (from int64, err error),
) error {
	return s.db.Write(ctx, "replace runs", func(ctx context.Context, w *sqlite.Statements) error {
		if err := checkExact(ctx, w, scope); err != nil {
			return err
		}
		runs, err := readRuns(ctx, w, selectRuns, scope)
		if err != nil {
			return err
		}
		from, err := choose(runs)
		if err != nil {
			return err
		}
		if _, err := w.Exec(ctx, deleteEntries, scope, from); err != nil {
			return err
		}
		if _, err := w.Exec(ctx, markReplaced, scope, from, by.ID); err != nil {
			return err
		}
		return putRun(ctx, w, scope, by)
	})
}

// checkExact returns an error if not all entries of a scope belong to its offline runs and imports, or if some have a
// purge time.
func checkExact(ctx context.Context, w *sqlite.Statements, scope string) error {
	var record, stream string
	var ends bool
	found, err := w.One(ctx, selectInexact, sqlite.Args{scope}, &record, &ends)
	switch {
	case err != nil:
		return err
	case ends:
		return fmt.Errorf("%w: the entry of %s ends, because its run had a window", ErrInexact, record)
	case found:
		return fmt.Errorf("%w: the entry of %s does not belong to a run in the history of the scope", ErrInexact, record)
	}
	horizon, err := readHorizon(ctx, w, scope)
	if err != nil {
		return err
	}
	if !horizon.IsZero() {
		return fmt.Errorf("%w: its entries before %s were deleted by ledger compact", ErrInexact, horizon.Format(time.RFC3339))
	}
	found, err = w.One(ctx, selectAnyConsumer, sqlite.Args{scope}, &stream)
	if err == nil && found {
		err = fmt.Errorf("%w: a function reads the stream %s in it", ErrInexact, stream)
	}
	return err
}
