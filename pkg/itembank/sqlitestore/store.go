package sqlitestore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var (
	// ErrNotStore says that the file is no SQLite database, another program's, or has
	// no tables for claims yet. Nothing was changed. The error says which.
	ErrNotStore = sqlite.ErrNotStore

	// ErrNewer says that a later version of oncebox made the store. Use that one.
	ErrNewer = sqlite.ErrNewer
)

// DefaultBusyTimeout is how long a call waits, all in all, for other processes
// and programs before it gives up with engine.ErrTryAgain.
const DefaultBusyTimeout = sqlite.DefaultBusyTimeout

var _ engine.Store = (*Store)(nil)

// Store is an engine.Store in a SQLite file. It is safe for concurrent use,
// by several processes too.
type Store struct{ db *sqlite.DB }

// Option changes a Store from its defaults.
type Option = sqlite.Option

// WithBusyTimeout sets how long a call waits for other processes; 0 is one try.
// The default is DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return sqlite.WithBusyTimeout(d) }

// Open opens an existing store. Close it after use.
//
// Errors: a missing file is fs.ErrNotExist; a file without a store is
// ErrNotStore; one of a later version of oncebox is ErrNewer; one that others
// keep busy is engine.ErrTryAgain. None of them changes the file.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Open(ctx, path, part, options))
}

// Create makes a store and opens it. Where there is one already it opens that,
// so it is safe to repeat, and for several processes at once. An empty file, and
// a oncebox file without tables for claims, becomes a store. The errors are
// those of Open; the folder of the file must exist.
func Create(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Create(ctx, path, part, options))
}

func opened(db *sqlite.DB, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Close waits for a write under way and closes all files. A Store cannot be
// used after it; closing again does nothing.
func (s *Store) Close() error { return s.db.Close() }
