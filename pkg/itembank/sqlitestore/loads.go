package sqlitestore

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	selectLatestLoad = `SELECT campaign, digest, number, generation, finished, rows, added, known, repeated
		FROM load WHERE campaign = ? AND digest = ? ORDER BY number DESC LIMIT 1`

	selectLoaded = `SELECT 1 FROM load WHERE campaign = ? LIMIT 1`

	insertLoad = `INSERT INTO load
		(campaign, digest, number, generation, finished, rows, added, known, repeated)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	// A row that is further stays as it is.
	updateLoad = `UPDATE load
		SET finished = max(finished, ?4), rows = ?5, added = ?6, known = ?7, repeated = ?8
		WHERE campaign = ?1 AND digest = ?2 AND number = ?3
			AND (rows < ?5 OR rows = ?5 AND finished < ?4)`

	selectIsStarted = `SELECT 1 FROM load WHERE campaign = ? AND digest = ? AND number = ?`

	// The answer is 1, or 0 because of an item row or of a bank row.
	insertItem = `INSERT INTO item (campaign, hash, load_id, row, generation, ends_at)
		SELECT ?1, ?2, ?3, ?4, ?5, ?6
		WHERE NOT EXISTS (SELECT 1 FROM bank WHERE campaign = ?1 AND generation = ?5 AND shard = ?7 AND hash = ?2)
		ON CONFLICT DO NOTHING`

	insertFree = `INSERT INTO bank (campaign, generation, shard, hash, item, ends_at) VALUES (?, ?, ?, ?, ?, ?)`

	selectItem = `SELECT load_id, row, generation, ends_at, coalesce(state, ''), returns FROM item
		WHERE campaign = ? AND hash = ?`
)

// LatestLoad returns the load of the digest with the highest number; nil if
// there is none. Errors: engine.ErrTryAgain, or a fault of the file.
func (s *Store) LatestLoad(ctx context.Context, campaign, digest string) (latest *engine.Load, err error) {
	err = s.db.Read(ctx, "read load", func(ctx context.Context, r *sqlite.Statements) error {
		latest, err = readLatestLoad(ctx, r, campaign, digest)
		return err
	})
	return latest, err
}

func readLatestLoad(ctx context.Context, r *sqlite.Statements, campaign, digest string) (*engine.Load, error) {
	var l engine.Load
	t := &l.Tally
	found, err := r.One(ctx, selectLatestLoad, sqlite.Args{campaign, digest},
		&l.Campaign, &l.Digest, &l.Number, &l.Generation, &l.Finished, &t.Rows, &t.Added, &t.Known, &t.Repeated)
	if err != nil || !found {
		return nil, err
	}
	return &l, nil
}

// Loaded reports whether the campaign has a load. Errors: as LatestLoad.
func (s *Store) Loaded(ctx context.Context, campaign string) (loaded bool, err error) {
	err = s.db.Read(ctx, "find loads", func(ctx context.Context, r *sqlite.Statements) (err error) {
		loaded, err = r.One(ctx, selectLoaded, sqlite.Args{campaign}, new(int))
		return err
	})
	return loaded, err
}

// StartLoad puts a load's row if its number is free. Repeated, it finds its own
// row and answers false. Errors: as LatestLoad.
func (s *Store) StartLoad(ctx context.Context, l engine.Load) (started bool, err error) {
	err = s.db.Write(ctx, "start load", func(ctx context.Context, w *sqlite.Statements) error {
		t := l.Tally
		n, err := w.Exec(ctx, insertLoad,
			l.Campaign, l.Digest, l.Number, l.Generation, l.Finished, t.Rows, t.Added, t.Known, t.Repeated)
		started = n == 1
		return err
	})
	return started, err
}

// AdvanceLoad writes progress, forward only: with fewer rows than the row has it
// changes nothing, with as many it can only finish the load, and a finished load
// stays finished. Safe to repeat. Errors: as LatestLoad, and
// engine.ErrInconsistent for a load that was never started.
func (s *Store) AdvanceLoad(ctx context.Context, l engine.Load) error {
	return s.db.Write(ctx, "advance load", func(ctx context.Context, w *sqlite.Statements) error {
		t := l.Tally
		n, err := w.Exec(ctx, updateLoad,
			l.Campaign, l.Digest, l.Number, l.Finished, t.Rows, t.Added, t.Known, t.Repeated)
		if err != nil || n == 1 {
			return err
		}
		return checkStarted(ctx, w, l)
	})
}

// checkStarted tells a load that is further from one that is not there.
func checkStarted(ctx context.Context, w *sqlite.Statements, l engine.Load) error {
	var one int
	found, err := w.One(ctx, selectIsStarted, sqlite.Args{l.Campaign, l.Digest, l.Number}, &one)
	if err == nil && !found {
		err = fmt.Errorf("%w: load %s was never started", engine.ErrInconsistent, l.ID())
	}
	return err
}

// AddItems adds items in one transaction and answers every one: none is left
// engine.AddUnsettled. Safe to repeat. Errors: as LatestLoad.
func (s *Store) AddItems(ctx context.Context, additions []engine.AddRequest) ([]engine.AddResult, error) {
	answers := make([]engine.AddResult, len(additions))
	err := s.db.Write(ctx, "add items", func(ctx context.Context, w *sqlite.Statements) (err error) {
		for i, a := range additions {
			if answers[i], err = add(ctx, w, a); err != nil {
				return fmt.Errorf("row %d of the load: %w", a.Row, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// add puts the item row and the bank row, or says which of them was there.
func add(ctx context.Context, w *sqlite.Statements, a engine.AddRequest) (engine.AddResult, error) {
	shard, hash, ends := a.Item.Shard, a.Item.Hash[:], sqlite.Millis(a.Item.EndsAt)
	n, err := w.Exec(ctx, insertItem, shard.Campaign, hash, a.LoadID, a.Row, shard.Generation, ends, shard.Number)
	if err != nil {
		return engine.AddResult{}, err
	}
	if n == 0 {
		return whatStood(ctx, w, shard.Campaign, hash)
	}
	_, err = w.Exec(ctx, insertFree, shard.Campaign, shard.Generation, shard.Number, hash, a.Item.Value, ends)
	return engine.AddResult{Outcome: engine.AddDone}, err
}

// whatStood reads why an item was not added. The item row counts first; without
// one it was the bank row.
func whatStood(ctx context.Context, w *sqlite.Statements, campaign string, hash []byte) (engine.AddResult, error) {
	row, err := readItemRow(ctx, w, campaign, hash)
	if err != nil || row == nil {
		return engine.AddResult{Outcome: engine.AddOrphan}, err
	}
	return engine.AddResult{Outcome: engine.AddKnown, Existing: *row}, nil
}

func readItemRow(ctx context.Context, on *sqlite.Statements, campaign string, hash []byte) (*engine.ItemRow, error) {
	var row engine.ItemRow
	found, err := on.One(ctx, selectItem, sqlite.Args{campaign, hash},
		&row.LoadID, &row.Row, &row.Generation, sqlite.IntoTime(&row.EndsAt), &row.State, &row.Returns)
	if err != nil || !found {
		return nil, err
	}
	return &row, nil
}
