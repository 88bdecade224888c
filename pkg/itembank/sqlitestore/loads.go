package sqlitestore

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	selectLoads = `SELECT count(*), count(*) FILTER (WHERE NOT finished) FROM load WHERE campaign = ?`

	selectLatestLoad = `SELECT campaign, digest, number, finished, rows, added, known, repeated
		FROM load WHERE campaign = ? AND digest = ? ORDER BY number DESC LIMIT 1`

	insertLoad = `INSERT INTO load
		(campaign, digest, number, finished, rows, added, known, repeated)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	// A row with more progress stays as it is.
	updateLoad = `UPDATE load
		SET finished = max(finished, ?4), rows = ?5, added = ?6, known = ?7, repeated = ?8
		WHERE campaign = ?1 AND digest = ?2 AND number = ?3
			AND (rows < ?5 OR rows = ?5 AND finished < ?4)`

	selectIsStarted = `SELECT 1 FROM load WHERE campaign = ? AND digest = ? AND number = ?`

	// It inserts one row, or none if an item row or a bank row exists.
	insertItem = `INSERT INTO item (campaign, hash, load_id, row, ends_at, columns)
		SELECT ?1, ?2, ?3, ?4, ?5, ?7
		WHERE NOT EXISTS (SELECT 1 FROM bank WHERE campaign = ?1 AND shard = ?6 AND hash = ?2)
		ON CONFLICT DO NOTHING`

	insertFree = `INSERT INTO bank (campaign, shard, hash, item, ends_at) VALUES (?, ?, ?, ?, ?)`

	selectItem = `SELECT load_id, row, ends_at, coalesce(state, ''), returns, withdraw, columns FROM item
		WHERE campaign = ? AND hash = ?`
)

// Loads reports whether the campaign has load rows, and whether one of them is unfinished.
func (s *Store) Loads(ctx context.Context, campaign string) (some, unfinished bool, err error) {
	var all, open int
	err = s.db.Read(ctx, "find loads", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, selectLoads, sqlite.Args{campaign}, &all, &open)
		return err
	})
	return all > 0, open > 0, err
}

// LatestLoad reads the load row of the digest with the highest number.
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
		&l.Campaign, &l.Digest, &l.Number, &l.Finished, &t.Rows, &t.Added, &t.Known, &t.Repeated)
	if err != nil || !found {
		return nil, err
	}
	return &l, nil
}

// StartLoad puts a load row if it is absent.
func (s *Store) StartLoad(ctx context.Context, l engine.Load) (started bool, err error) {
	err = s.db.Write(ctx, "start load", func(ctx context.Context, w *sqlite.Statements) error {
		started, err = startLoad(ctx, w, l)
		return err
	})
	return started, err
}

func startLoad(ctx context.Context, w *sqlite.Statements, l engine.Load) (started bool, err error) {
	t := l.Tally
	n, err := w.Exec(ctx, insertLoad,
		l.Campaign, l.Digest, l.Number, l.Finished, t.Rows, t.Added, t.Known, t.Repeated)
	return n == 1, err
}

// StartFirstLoad puts a load row if it is absent and the campaign exists, and raises the version of the campaign. There
// is never a conflict.
func (s *Store) StartFirstLoad(ctx context.Context, l engine.Load) (started, conflict bool, err error) {
	err = s.db.Write(ctx, "start first load", func(ctx context.Context, w *sqlite.Statements) error {
		c, err := readCampaign(ctx, w, l.Campaign)
		if started = false; err != nil || c == nil || c.Mode == engine.Deleted {
			return err
		}
		if started, err = startLoad(ctx, w, l); err != nil || !started {
			return err
		}
		_, err = w.Exec(ctx, countUpVersion, l.Campaign)
		return err
	})
	return started, false, err
}

// AdvanceLoad writes progress. It changes nothing if the row has more rows, or the same rows and is finished. If the
// row does not exist, the error is engine.ErrInconsistent.
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

// checkStarted returns an error if the load row does not exist. It returns nil if the row has more progress.
func checkStarted(ctx context.Context, w *sqlite.Statements, l engine.Load) error {
	var one int
	found, err := w.One(ctx, selectIsStarted, sqlite.Args{l.Campaign, l.Digest, l.Number}, &one)
	if err == nil && !found {
		err = fmt.Errorf("%w: load %s does not exist", engine.ErrInconsistent, l.ID())
	}
	return err
}

// AddItems adds items in one transaction. It settles every request.
func (s *Store) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	results := make([]engine.AddResult, len(requests))
	err := s.db.Write(ctx, "add items", func(ctx context.Context, w *sqlite.Statements) (err error) {
		for i, r := range requests {
			if results[i], err = add(ctx, w, r); err != nil {
				return fmt.Errorf("row %d of the load: %w", r.Row, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

// add puts the item row and the bank row, or reports which of them existed.
func add(ctx context.Context, w *sqlite.Statements, r engine.AddRequest) (engine.AddResult, error) {
	shard, hash, ends := r.Item.Shard, r.Item.Hash[:], sqlite.Millis(r.Item.EndsAt)
	n, err := w.Exec(ctx, insertItem, shard.Campaign, hash, r.LoadID, r.Row, ends, shard.Number, string(r.Columns))
	if err != nil {
		return engine.AddResult{}, err
	}
	if n == 0 {
		return whyNotAdded(ctx, w, shard.Campaign, hash)
	}
	return engine.AddResult{Outcome: engine.AddDone}, putFree(ctx, w, r.Item)
}

// whyNotAdded reads why an item was not added: the item row existed or, if not, the bank row.
func whyNotAdded(ctx context.Context, w *sqlite.Statements, campaign string, hash []byte) (engine.AddResult, error) {
	row, err := readItemRow(ctx, w, campaign, hash)
	if err != nil || row == nil {
		return engine.AddResult{Outcome: engine.AddOrphan}, err
	}
	return engine.AddResult{Outcome: engine.AddKnown, Existing: *row}, nil
}

func readItemRow(ctx context.Context, on *sqlite.Statements, campaign string, hash []byte) (*engine.ItemRow, error) {
	var row engine.ItemRow
	found, err := on.One(ctx, selectItem, sqlite.Args{campaign, hash}, intoItemRow(&row)...)
	if err != nil || !found {
		return nil, err
	}
	return &row, nil
}

func intoItemRow(row *engine.ItemRow) []any {
	return []any{&row.LoadID, &row.Row, sqlite.IntoTime(&row.EndsAt), &row.State, &row.Returns, &row.Withdraw, &row.Columns}
}
