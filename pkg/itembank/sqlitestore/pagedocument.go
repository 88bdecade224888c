package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// PutPageDocument puts the page row of a campaign that exists and is not deleted.
func (s *Store) PutPageDocument(ctx context.Context, campaign string, document []byte) (put bool, err error) {
	err = s.db.Write(ctx, "write page", func(ctx context.Context, w *sqlite.Statements) error {
		n, err := w.Exec(ctx, `INSERT OR REPLACE INTO page (campaign, document)
			SELECT name, ? FROM campaign WHERE name = ? AND mode <> ?`, document, campaign, engine.Deleted)
		put = n == 1
		return err
	})
	return put, err
}

// deletePage deletes the page row.
func deletePage(ctx context.Context, w *sqlite.Statements, campaign string) error {
	_, err := w.Exec(ctx, `DELETE FROM page WHERE campaign = ?`, campaign)
	return err
}

// PageDocument reads the page row. All reads are consistent.
func (s *Store) PageDocument(ctx context.Context, campaign string, _ engine.Consistency) (document []byte, err error) {
	err = s.db.Read(ctx, "read page", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, `SELECT document FROM page WHERE campaign = ?`, sqlite.Args{campaign}, &document)
		return err
	})
	return document, err
}
