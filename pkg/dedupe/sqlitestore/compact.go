package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
)

// ErrOpenRuns says that a scope has a run over files that is neither finished nor closed.
var ErrOpenRuns = errors.New("a run has not finished")

const (
	selectHorizon = `SELECT before FROM horizon WHERE scope = ?`

	raiseHorizon = `INSERT INTO horizon (scope, before) VALUES (?1, ?2)
		ON CONFLICT (scope) DO UPDATE SET before = max(before, ?2)`

	selectPurged = `SELECT 1 FROM entry WHERE scope = ?1 AND purge_at < ?2 LIMIT 1`
	countPurged  = `SELECT count(*) FROM entry WHERE scope = ?1 AND purge_at < ?2`

	selectLastRow = `SELECT coalesce(max(row), 0) FROM entry`

	deletePurged = `DELETE FROM entry WHERE row > ?3 AND row <= ?4 AND scope = ?1 AND purge_at < ?2`
)

// compactRows is how many rows one transaction of Compact reads. Other writers wait meanwhile.
const compactRows = 20_000

// Horizon returns the time before which entries of a scope were deleted, or the zero time. The errors are as for
// ReadRun.
func (s *Store) Horizon(ctx context.Context, scope string) (horizon time.Time, err error) {
	err = s.db.Read(ctx, "read horizon", func(ctx context.Context, r *sqlite.Statements) error {
		horizon, err = readHorizon(ctx, r, scope)
		return err
	})
	return horizon, err
}

func readHorizon(ctx context.Context, on *sqlite.Statements, scope string) (time.Time, error) {
	var before int64
	found, err := on.One(ctx, selectHorizon, sqlite.Args{scope}, &before)
	if err != nil || !found {
		return time.Time{}, err
	}
	return time.Unix(before, 0).UTC(), nil
}

// RaiseHorizon moves the horizon of a scope and deletes nothing, for a store that is read together with one that was
// compacted. The horizon never moves back. The errors are as for ReadRun.
func (s *Store) RaiseHorizon(ctx context.Context, scope string, to time.Time) error {
	return s.db.Write(ctx, "move horizon", func(ctx context.Context, w *sqlite.Statements) error {
		_, err := w.Exec(ctx, raiseHorizon, scope, to.Unix())
		return err
	})
}

// CountPurged returns how many entries Compact would delete. The errors are as for ReadRun.
func (s *Store) CountPurged(ctx context.Context, scope string, before time.Time) (entries int64, err error) {
	err = s.db.Read(ctx, "count entries", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, countPurged, sqlite.Args{scope, before.Unix()}, &entries)
		return err
	})
	return entries, err
}

// Compact deletes the entries of a scope whose purge time is before a time, in whole seconds. Entries that are kept for
// ever stay. From then on, a record that arrived before that time is Forgotten if the scope has no entry of its key that
// counts. All other records are decided as if nothing was deleted: an entry counts only for arrivals up to its purge
// time.
//
// First, one transaction moves the horizon of the scope, which never moves back. Then short transactions delete. So if
// Compact fails or the process ends, no entry is missing above the horizon; call it again for the rest. It returns the
// number of entries that it has deleted, also with an error. If there is nothing to delete, the horizon stays.
//
// The errors are as for ReadRun, and ErrOpenRuns: such a run may have entries that are not saved, and would not find
// them again.
func (s *Store) Compact(ctx context.Context, scope string, before time.Time) (deleted int64, err error) {
	var last int64
	err = s.db.Write(ctx, "move horizon", func(ctx context.Context, w *sqlite.Statements) error {
		open, err := readRuns(ctx, w, selectOpenRuns, scope)
		if err != nil {
			return err
		}
		if len(open) > 0 {
			return fmt.Errorf("%w: %s", ErrOpenRuns, open[0].ID)
		}
		var one int
		found, err := w.One(ctx, selectPurged, sqlite.Args{scope, before.Unix()}, &one)
		if err != nil || !found {
			return err
		}
		if _, err := w.Exec(ctx, raiseHorizon, scope, before.Unix()); err != nil {
			return err
		}
		_, err = w.One(ctx, selectLastRow, nil, &last)
		return err
	})
	for row := int64(0); row < last && err == nil; row += compactRows {
		var n int64
		err = s.db.Write(ctx, "delete entries", func(ctx context.Context, w *sqlite.Statements) error {
			n, err = w.Exec(ctx, deletePurged, scope, before.Unix(), row, row+compactRows)
			return err
		})
		if err == nil {
			deleted += n
		}
	}
	return deleted, err
}

// Erase gives the room of deleted entries back to the disk. It rewrites the file, which takes its size again meanwhile,
// and other writers wait. If another process reads the file for longer than the busy timeout, it returns
// dedupe.ErrTryAgain.
func (s *Store) Erase(ctx context.Context) error { return s.db.Erase(ctx) }
