package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const (
	saveRun = `INSERT OR REPLACE INTO run (scope, digest, id, finished, input, lines, output, dead_letters, tally)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`

	selectRun = `SELECT digest, id, finished, input, lines, output, dead_letters, tally FROM run
		WHERE scope = ? AND digest = ?`
)

// ReadRun returns an offline run, or nil if there is none. Errors are dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) ReadRun(ctx context.Context, scope, digest string) (run *dedupe.Run, err error) {
	err = s.db.Read(ctx, "read run", func(ctx context.Context, r *sqlite.Statements) error {
		run, err = readRun(ctx, r, scope, digest)
		return err
	})
	return run, err
}

func readRun(ctx context.Context, on *sqlite.Statements, scope, digest string) (*dedupe.Run, error) {
	var r dedupe.Run
	var tally []byte
	found, err := on.One(ctx, selectRun, sqlite.Args{scope, digest},
		&r.Digest, &r.ID, &r.Finished, &r.Input, &r.Lines, &r.Output, &r.DeadLetters, &tally)
	if err != nil || !found {
		return nil, err
	}
	if err := json.Unmarshal(tally, &r.Tally); err != nil {
		return nil, fmt.Errorf("tally of run %s: %w", r.ID, err)
	}
	return &r, nil
}

// SaveRun stores an offline run, or replaces it. Errors are those of ReadRun.
func (s *Store) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	tally, err := json.Marshal(r.Tally)
	if err != nil {
		return err
	}
	return s.db.Write(ctx, "save run", func(ctx context.Context, w *sqlite.Statements) error {
		_, err := w.Exec(ctx, saveRun,
			scope, r.Digest, r.ID, r.Finished, r.Input, r.Lines, r.Output, r.DeadLetters, string(tally))
		return err
	})
}
