package sqlitestore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var (
	// ErrNotStore says that the file is not a SQLite database, belongs to another program, or has no tables for claims.
	// The text says which. Nothing was changed.
	ErrNotStore = sqlite.ErrNotStore

	// ErrLayout says that another version of oncebox made the store, with other tables. Use that
	// version, or another file. Nothing was changed.
	ErrLayout = sqlite.ErrLayout
)

// DefaultBusyTimeout is how long a call waits in total for other processes and programs before it returns
// engine.ErrTryAgain.
const DefaultBusyTimeout = sqlite.DefaultBusyTimeout

var _ engine.Store = (*Store)(nil)

// Store implements engine.Store in a SQLite file. It is safe for concurrent use, also by several processes. If other
// processes keep the file busy, its methods return errors of the family engine.ErrTryAgain. Every other error is a
// fault of the file or the disk.
type Store struct{ db *sqlite.DB }

// Option changes a default of a Store.
type Option = sqlite.Option

// WithBusyTimeout sets how long a call waits for other processes. With 0 a call tries once and does not wait. The
// default is DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return sqlite.WithBusyTimeout(d) }

// Open opens an existing store. Close it after use.
//
// Errors: fs.ErrNotExist if the file is missing; ErrNotStore; ErrLayout; engine.ErrTryAgain if other processes keep the
// file busy. After an error the file is unchanged.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Open(ctx, path, part, options))
}

// Create creates a store and opens it. If the store exists, Create opens it. So Create is safe to repeat, also by
// several processes at once. An empty file, or a file of oncebox without tables for claims, becomes a store. The
// folder of the file must exist. The errors are the same as for Open.
func Create(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Create(ctx, path, part, options))
}

func opened(db *sqlite.DB, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	return &Store{db}, nil
}

// Erase removes the content of deleted rows from the disk: from unused parts of the file, and from its -wal file. It
// rewrites the whole file, also the tables of other engines in it, and needs the size of the file again on the disk.
// Calls that write wait meanwhile. It does not reach copies of the file, and not what a disk keeps of overwritten blocks.
// It is safe to repeat.
//
// Errors: engine.ErrTryAgain if another process writes, or reads since before the call, for longer than the busy
// timeout. The text may then still be in the -wal file: repeat the call.
func (s *Store) Erase(ctx context.Context) error { return s.db.Erase(ctx) }

// ServerTime returns the zero time: a file has no clock of its own.
func (s *Store) ServerTime() time.Time { return time.Time{} }

// Close waits for a write in progress and closes all files. The Store cannot be used afterwards. A second Close does
// nothing.
func (s *Store) Close() error { return s.db.Close() }
