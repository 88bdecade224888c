// Package sqlite is what the SQLite engines share: one file for all of them, in
// which each keeps its part; connections with the right settings, turns for
// writers, transactions, and the one reading of SQLite's errors.
//
// A file may be open several times, by engines of one process and by other
// processes. What that needs of the file's place and of the lock files beside
// it is told to users in the documentation of the engines.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// DefaultBusyTimeout is how long a call waits, all in all, for other writers
// before it gives up with the part's TryAgain.
const DefaultBusyTimeout = 5 * time.Second

// DB is one part of a store, open. It is safe for concurrent use.
type DB struct {
	path        string      // absolute and without symbolic links; or memory
	file        fs.FileInfo // the file at path when it was opened; nil in memory
	part        Part
	busyTimeout time.Duration
	turns       *turnstile

	writerDB   *sql.DB
	writerConn *sql.Conn   // the only one of writerDB
	writer     *Statements // on writerConn; used by whose turn it is
	readerDB   *sql.DB
	reader     *Statements // on a pool of read-only connections; nil in memory
}

// Option changes a DB from its defaults.
type Option func(*DB)

// WithBusyTimeout sets how long a call waits for other writers; 0 is one try.
// The default is DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return func(db *DB) { db.busyTimeout = d } }

// Open opens an existing store that has the part. Close it after use.
//
// Errors: a missing file is fs.ErrNotExist; a file without a store, or without
// the part, is ErrNotStore; one of a later version of oncebox is ErrNewer; one
// that others keep busy is the part's TryAgain. None of them changes the file.
func Open(ctx context.Context, path string, part Part, options []Option) (*DB, error) {
	return openFile(ctx, path, false, part, options)
}

// Create makes a store with the part and opens it. What is there already stays,
// so it is safe to repeat, and for several processes at once. An empty file
// becomes a store. The errors are those of Open; the folder of the file must exist.
func Create(ctx context.Context, path string, part Part, options []Option) (*DB, error) {
	return openFile(ctx, path, true, part, options)
}

// OpenMemory makes a store in memory, of this process and this DB alone, that
// ends with Close. It has one connection, so that readers take turns as well.
func OpenMemory(ctx context.Context, part Part) (*DB, error) {
	db := &DB{path: memory, part: part, busyTimeout: DefaultBusyTimeout}
	return db.opened(db.connectMemory(ctx))
}

func openFile(ctx context.Context, path string, create bool, part Part, options []Option) (*DB, error) {
	located, err := locate(path, create)
	if err != nil {
		return nil, err
	}
	db := &DB{path: located, part: part, busyTimeout: DefaultBusyTimeout}
	for _, o := range options {
		o(db)
	}
	return db.opened(db.connect(ctx, create))
}

func (db *DB) opened(err error) (*DB, error) {
	if err != nil {
		return nil, errors.Join(db.wrap("open", err), db.Close())
	}
	return db, nil
}

// Close waits for a write under way and closes all files. A DB cannot be used
// after it; closing again does nothing.
func (db *DB) Close() error {
	if db.turns != nil {
		db.turns.line <- struct{}{}
		defer func() { <-db.turns.line }()
	}
	var errs []error
	// Readers first: the last one to close copies the WAL into the database and
	// removes it, which a read-only connection may not.
	if db.readerDB != nil {
		errs = append(errs, db.readerDB.Close())
	}
	if db.writerConn != nil {
		errs = append(errs, db.writer.close(), db.writerConn.Close())
		db.writerConn = nil
	}
	if db.writerDB != nil {
		errs = append(errs, db.writerDB.Close())
	}
	return db.wrap("close", errors.Join(errs...))
}

// Read runs fn on a connection that cannot write. Each of its queries sees what
// was committed before it began, and waits for nobody; in memory it takes turns
// with the writers, and fn must not call Read or Write. doing names the work in
// errors; those that pass when others finish get the part's TryAgain.
func (db *DB) Read(ctx context.Context, doing string, fn func(ctx context.Context, r *Statements) error) error {
	if db.reader == nil { // in memory, where another connection would be another store
		return db.Write(ctx, doing, fn)
	}
	return db.wrap(doing, fn(ctx, db.reader))
}

// Write runs fn in a transaction, when its turn has come: all of it is kept, or
// nothing if there is an error. Waiting is bounded by ctx and the busy timeout.
// From then on it runs to its end, whatever becomes of ctx: it takes
// milliseconds, and cutting it would only leave its end unknown. The errors are
// as of Read.
func (db *DB) Write(ctx context.Context, doing string, fn func(ctx context.Context, w *Statements) error) error {
	return db.wrap(doing, db.inTurn(ctx, fn))
}

// change is the body of a transaction.
type change func(ctx context.Context, w *Statements) error

func (db *DB) inTurn(ctx context.Context, fn change) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	waiting, cancel := db.patience(ctx)
	defer cancel()
	if err := db.turns.enter(waiting); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.turns.leave()) }()
	if err := db.begin(waiting); err != nil {
		return err
	}
	return db.finish(context.WithoutCancel(ctx), fn)
}

// patience bounds a wait by the busy timeout.
func (db *DB) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, db.busyTimeout, &waitedError{db.busyTimeout})
}

// begin waits for foreign programs, which take no turns.
func (db *DB) begin(waiting context.Context) error {
	return pollFree(waiting, func() error {
		_, err := db.writer.Exec(context.WithoutCancel(waiting), `BEGIN IMMEDIATE`)
		return err
	})
}

// finish ends the transaction that was begun, with all of fn or nothing.
func (db *DB) finish(ctx context.Context, fn change) (err error) {
	defer func() {
		if err != nil {
			// Some failures have rolled back already, then this one's says so.
			_, _ = db.writer.Exec(ctx, `ROLLBACK`)
		}
	}()
	if err := db.checkPlace(); err != nil {
		return err
	}
	if err := fn(ctx, db.writer); err != nil {
		return err
	}
	_, err = db.writer.Exec(ctx, `COMMIT`)
	return err
}

// checkPlace makes sure that the file written to is the one that other
// processes find under its name: two files would give items twice.
func (db *DB) checkPlace() error {
	if db.file == nil { // in memory
		return nil
	}
	now, err := os.Stat(db.path)
	if err != nil {
		return fmt.Errorf("the file is gone from its place: %w", err)
	}
	if !os.SameFile(db.file, now) {
		return errors.New("the file was replaced since it was opened: open it again")
	}
	return nil
}
