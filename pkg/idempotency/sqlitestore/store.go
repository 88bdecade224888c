// Package sqlitestore is the engine of package idempotency on SQLite. Several processes of one machine can use a file
// at once. It is for a single machine, for development and for tests. It needs no server and no cgo.
//
//	store, err := sqlitestore.Create(ctx, "oncebox.db") // or Open, if the file must exist
//	...
//	defer store.Close()
//	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
//
// The file can also have the tables of packages itembank/sqlitestore and dedupe/sqlitestore. The first of them describes
// durability, readers and writers, and the place of the file.
//
// # Time
//
// The time of the store is the clock of the machine. If it is set forward, leases and windows end early: the function
// may then run while another execution is still at work. Only one of them completes.
//
// # Growth
//
// SQLite has no TTL. Store.Purge deletes the rows of keys whose windows are over; call it once a day, for example. Until
// then the file grows with every new key.
package sqlitestore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

var (
	// ErrNotStore says that the file is not a SQLite database, belongs to another program, or has no tables for
	// idempotency. The text says which. Nothing was changed.
	ErrNotStore = sqlite.ErrNotStore

	// ErrLayout says that another version of oncebox made the store, with other tables. Use that version, or another
	// file. Nothing was changed.
	ErrLayout = sqlite.ErrLayout
)

// DefaultBusyTimeout is how long a call waits for other processes and programs, in total, before it returns
// engine.ErrTryAgain.
const DefaultBusyTimeout = sqlite.DefaultBusyTimeout

// maxResult is above what AWS Lambda answers at most, 6 MB. Other writers wait while a result is written.
const maxResult = 8 << 20

var _ engine.Transactor = (*Store)(nil)

// Store implements engine.Transactor in a SQLite file or in memory. It is safe for concurrent use. Several processes may use
// one file.
type Store struct {
	db  *sqlite.DB
	now func() time.Time // the wall clock of the machine
}

// Option changes a default of a Store.
type Option = sqlite.Option

// WithBusyTimeout sets how long a call waits for other processes. 0 means one attempt. The default is
// DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return sqlite.WithBusyTimeout(d) }

// Open opens an existing store. Close it after use.
//
// Errors: fs.ErrNotExist if the file is missing; ErrNotStore; ErrLayout; engine.ErrTryAgain if other programs keep the
// file busy. After an error the file is unchanged.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.Open(ctx, path, part, options))
}

// OpenToRead is Open for a program that only reads. It also opens a file to which this user may not write.
func OpenToRead(ctx context.Context, path string, options ...Option) (*Store, error) {
	return opened(sqlite.OpenToRead(ctx, path, part, options))
}

// Create makes a store and opens it. If the store exists, Create opens it. So it is safe to repeat, also by several
// processes at once. An empty file becomes a store, and so does a file of oncebox without tables for idempotency. The
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
	return &Store{db, func() time.Time { return time.Now().UTC().Round(0) }}, nil
}

// Close waits for a write in progress, and closes all files. The Store cannot be used after it. A second Close does
// nothing.
func (s *Store) Close() error { return s.db.Close() }

// MaxResult implements engine.Store.
func (*Store) MaxResult() int { return maxResult }
