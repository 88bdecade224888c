package sqlitestore

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	selectSomeLoad = `SELECT 1 FROM load WHERE campaign = ? LIMIT 1`

	loadColumns = `campaign, digest, number, finished, rows, added, known, repeated, given_up, started_at`

	selectUnfinished = `SELECT ` + loadColumns + ` FROM load WHERE campaign = ? AND NOT finished`

	selectLatestLoad = `SELECT ` + loadColumns + `
		FROM load WHERE campaign = ? AND digest = ? ORDER BY number DESC LIMIT 1`

	insertLoad = `INSERT INTO load (` + loadColumns + `)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	// A row with more progress stays as it is.
	updateLoad = `UPDATE load
		SET finished = max(finished, ?4), rows = ?5, added = ?6, known = ?7, repeated = ?8
		WHERE campaign = ?1 AND digest = ?2 AND number = ?3 AND NOT given_up
			AND (rows < ?5 OR rows = ?5 AND finished < ?4)`

	updateGivenUp = `UPDATE load SET given_up = 1, finished = ?4
		WHERE campaign = ?1 AND digest = ?2 AND number = ?3 AND NOT finished`

	selectGivenUp = `SELECT given_up FROM load WHERE campaign = ? AND digest = ? AND number = ?`

	// It inserts one row, or none if an item row or a bank row exists.
	insertItem = `INSERT INTO item (campaign, hash, load_id, row, ends_at, columns)
		SELECT ?1, ?2, ?3, ?4, ?5, ?7
		WHERE NOT EXISTS (SELECT 1 FROM bank WHERE campaign = ?1 AND shard = ?6 AND hash = ?2)
		ON CONFLICT DO NOTHING`

	insertFree = `INSERT INTO bank (campaign, shard, hash, item, ends_at) VALUES (?, ?, ?, ?, ?)`

	selectItem = `SELECT load_id, row, ends_at, coalesce(state, ''), returns, withdraw, columns FROM item
		WHERE campaign = ? AND hash = ?`
)

// Loads reports whether the campaign has load rows, and lists the unfinished ones.
func (s *Store) Loads(ctx context.Context, campaign string) (some bool, unfinished []engine.Load, err error) {
	err = s.db.ReadSnapshot(ctx, "find loads", func(ctx context.Context, r *sqlite.Statements) error {
		var one int
		unfinished = nil
		if some, err = r.One(ctx, selectSomeLoad, sqlite.Args{campaign}, &one); err != nil || !some {
			return err
		}
		return r.Each(ctx, selectUnfinished, sqlite.Args{campaign}, func(scan func(...any) error) error {
			var l engine.Load
			err := scan(intoLoad(&l)...)
			unfinished = append(unfinished, l)
			return err
		})
	})
	return some, unfinished, err
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
	found, err := r.One(ctx, selectLatestLoad, sqlite.Args{campaign, digest}, intoLoad(&l)...)
	if err != nil || !found {
		return nil, err
	}
	return &l, nil
}

func intoLoad(l *engine.Load) []any {
	t := &l.Tally
	return []any{
		&l.Campaign, &l.Digest, &l.Number, &l.Finished, &t.Rows, &t.Added, &t.Known, &t.Repeated,
		&l.GivenUp, sqlite.IntoTime(&l.StartedAt),
	}
}

// StartLoad puts a load row if it is absent. With first, the campaign must exist, and its version is raised. There is
// never a conflict.
func (s *Store) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	start := startLoad
	if first {
		start = startFirstLoad
	}
	err = s.db.Write(ctx, "start load", func(ctx context.Context, w *sqlite.Statements) error {
		started, err = start(ctx, w, l)
		return err
	})
	return started, false, err
}

func startLoad(ctx context.Context, w *sqlite.Statements, l engine.Load) (started bool, err error) {
	t := l.Tally
	n, err := w.Exec(ctx, insertLoad, l.Campaign, l.Digest, l.Number, l.Finished,
		t.Rows, t.Added, t.Known, t.Repeated, l.GivenUp, sqlite.Millis(l.StartedAt))
	return n == 1, err
}

func startFirstLoad(ctx context.Context, w *sqlite.Statements, l engine.Load) (started bool, err error) {
	c, err := readCampaign(ctx, w, l.Campaign)
	if err != nil || c == nil || c.Mode == engine.Deleted {
		return false, err
	}
	if started, err = startLoad(ctx, w, l); err != nil || !started {
		return false, err
	}
	_, err = w.Exec(ctx, countUpVersion, l.Campaign)
	return err == nil, err
}

// UpdateLoad writes progress, or gives the load up.
func (s *Store) UpdateLoad(ctx context.Context, l engine.Load) (refused bool, err error) {
	if l.GivenUp {
		return s.giveUpLoad(ctx, l)
	}
	return s.advanceLoad(ctx, l)
}

// advanceLoad changes nothing if the row has more rows, or the same rows and is finished, or is given up. If the row
// does not exist, the error is engine.ErrInconsistent.
func (s *Store) advanceLoad(ctx context.Context, l engine.Load) (givenUp bool, err error) {
	err = s.db.Write(ctx, "advance load", func(ctx context.Context, w *sqlite.Statements) error {
		t := l.Tally
		n, err := w.Exec(ctx, updateLoad,
			l.Campaign, l.Digest, l.Number, l.Finished, t.Rows, t.Added, t.Known, t.Repeated)
		if givenUp = false; err != nil || n == 1 {
			return err
		}
		givenUp, err = isGivenUp(ctx, w, l)
		return err
	})
	return givenUp, err
}

// isGivenUp returns an error if the load row does not exist.
func isGivenUp(ctx context.Context, w *sqlite.Statements, l engine.Load) (givenUp bool, err error) {
	found, err := w.One(ctx, selectGivenUp, sqlite.Args{l.Campaign, l.Digest, l.Number}, &givenUp)
	if err == nil && !found {
		err = fmt.Errorf("%w: load %s does not exist", engine.ErrInconsistent, l.ID())
	}
	return givenUp, err
}

// giveUpLoad marks a load row that is not finished as given up, and ends it if l is finished.
func (s *Store) giveUpLoad(ctx context.Context, l engine.Load) (over bool, err error) {
	err = s.db.Write(ctx, "give up load", func(ctx context.Context, w *sqlite.Statements) error {
		n, err := w.Exec(ctx, updateGivenUp, l.Campaign, l.Digest, l.Number, l.Finished)
		over = n == 0
		return err
	})
	return over && err == nil, err
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
	n, err := w.Exec(ctx, insertItem, shard.Campaign, hash, r.LoadID, r.Row, ends, shard.Number, r.Columns)
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
