package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
)

// OpenMemory opens a store without a file.
func OpenMemory(ctx context.Context) (*Store, error) {
	return opened(sqlite.OpenMemory(ctx, part))
}

// Exec executes any statement, without the rules of the store.
func (s *Store) Exec(ctx context.Context, query string, args ...any) error {
	return s.db.Write(ctx, "test", func(ctx context.Context, w *sqlite.Statements) error {
		_, err := w.Exec(ctx, query, args...)
		return err
	})
}
