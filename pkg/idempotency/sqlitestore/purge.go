package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
)

const (
	// Each min and max is a query of its own, so that SQLite reads one row for it.
	selectRows   = `SELECT coalesce((SELECT min(rowid) FROM once), 1) - 1, coalesce((SELECT max(rowid) FROM once), 0)`
	deletePurged = `DELETE FROM once WHERE rowid > ?1 AND rowid <= ?2 AND purge_at <= ?3`
)

// purgeRows is how many rows one transaction of Purge reads. Other writers wait meanwhile.
const purgeRows = 5_000

// Purge deletes the rows of keys that have ended at least 15 minutes ago, by the clock of the machine. It deletes in
// short transactions, so it can run while functions run, and is safe to repeat. It returns the number of rows that it
// has deleted, also with an error: engine.ErrTryAgain, or a fault of the file.
func (s *Store) Purge(ctx context.Context) (deleted int64, err error) {
	var row, last int64
	err = s.db.Read(ctx, "find rows", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, selectRows, nil, &row, &last)
		return err
	})
	for ; row < last && err == nil; row += purgeRows {
		var n int64
		err = s.db.Write(ctx, "delete rows", func(ctx context.Context, w *sqlite.Statements) error {
			n, err = w.Exec(ctx, deletePurged, row, row+purgeRows, s.now().Unix())
			return err
		})
		if err == nil {
			deleted += n
		}
	}
	return deleted, err
}
