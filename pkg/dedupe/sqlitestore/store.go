package sqlitestore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

var (
	// ErrNotStore says that the file is not a SQLite database, belongs to another program, or has no tables for
	// deduplication. The text says which. Nothing was changed.
	ErrNotStore = sqlite.ErrNotStore

	// ErrLayout says that another version of oncebox made the store, with other tables. Use that version, or another
	// file.
	ErrLayout = sqlite.ErrLayout
)

// DefaultBusyTimeout is how long a call waits for other processes and programs, in total, before it returns
// dedupe.ErrTryAgain.
const DefaultBusyTimeout = sqlite.DefaultBusyTimeout

var _ dedupe.Store = (*Store)(nil)

// Store is a ledger, with acks, consumers and runs, in a SQLite file or in memory. It is safe for concurrent use.
// Several processes may use one file.
type Store struct {
	dedupe.Ledger // of the entries in the file, by dedupe.ByKey

	db    *sqlite.DB
	watch *dedupe.RunWatch
	levels
	// check runs first in a transaction that changes entries; nil: no check. See ForRun.
	check func(ctx context.Context, w *sqlite.Statements) error
}

// Option changes a Store from its defaults.
type Option = sqlite.Option

// WithBusyTimeout sets how long a call waits for other processes. 0 means one attempt. The default is
// DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return sqlite.WithBusyTimeout(d) }

// Open opens an existing store. Close it after use.
//
// Errors are fs.ErrNotExist for a missing file, ErrNotStore for a file without a store, ErrLayout for a store of another
// version of oncebox, and dedupe.ErrTryAgain for a file that other programs keep busy. After an error the file is
// unchanged.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Open(ctx, path, part, options))
}

// OpenToRead is Open for a program that only reads. It also opens a file to which this user may not write.
func OpenToRead(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.OpenToRead(ctx, path, part, options))
}

// Create makes a store and opens it. If the store exists, Create opens it. So it is safe to repeat, also by several
// processes at once. An empty file becomes a store, and so does a file of oncebox without tables for deduplication. The
// folder of the file must exist. The errors are as for Open.
func Create(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Create(ctx, path, part, options))
}

// OpenMemory makes an empty store in memory. It ends with Close or with the process. No other Store can use it.
func OpenMemory(ctx context.Context) (*Store, error) {
	return opened(sqlite.OpenMemory(ctx, part))
}

func opened(db *sqlite.DB, err error) (*Store, error) {
	if err != nil {
		return nil, err
	}
	s := &Store{db: db, watch: &dedupe.RunWatch{}, levels: fileLevels}
	s.Ledger = dedupe.ByKey(s)
	return s, nil
}

// Close waits for a write in progress, and closes all files. The Store cannot be used after it. A second Close does
// nothing.
func (s *Store) Close() error { return s.db.Close() }
