// Package sqlite is the code that the SQLite engines share. All engines use one file, in which each has its part. The
// package opens connections with the right settings, gives writers turns, runs transactions, and translates SQLite's
// errors.
//
// A file may be open several times, in engines of one process and in other processes. The documentation of the engines
// tells users what that requires of the file's place, and what the lock file beside it is.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"
)

// DefaultBusyTimeout is how long a call waits in total for other writers before it returns the part's TryAgain.
const DefaultBusyTimeout = 5 * time.Second

// DB is one part of a store, open. It is safe for concurrent use.
type DB struct {
	path        string      // absolute and without symbolic links; or memory; or what a temporary one is called in errors
	file        fs.FileInfo // the file at path when it was opened; nil for one of a single connection
	part        Part
	busyTimeout time.Duration
	turns       *turnstile

	writerDB   *sql.DB
	writerConn *sql.Conn   // the only one of writerDB
	writer     *Statements // on writerConn; used by the writer that has the turn
	readerDB   *sql.DB
	reader     *Statements // on a pool of read-only connections; nil for one of a single connection
}

// Option changes a DB from its defaults.
type Option func(*DB)

// WithBusyTimeout sets how long a call waits for other writers; 0 means one attempt. The default is
// DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return func(db *DB) { db.busyTimeout = d } }

// Open opens an existing store that has the part. Close it after use.
//
// Errors, none of which changes the file:
//   - fs.ErrNotExist: the file is missing
//   - ErrNotStore: the file is not a store, or has no tables of the part
//   - ErrLayout: another version of oncebox made the store, with other tables
//   - ErrNoAccess, ErrDamaged
//   - the part's TryAgain: other programs keep the file busy
func Open(ctx context.Context, path string, part Part, options []Option) (*DB, error) {
	return openFile(ctx, path, false, part, options)
}

// Create makes a store with the part and opens it. It keeps what the file already holds, so it is safe to repeat and
// safe for several processes at once. An empty file becomes a store. The folder of the file must exist. The errors are
// those of Open.
func Create(ctx context.Context, path string, part Part, options []Option) (*DB, error) {
	return openFile(ctx, path, true, part, options)
}

// OpenMemory makes a store in memory. It belongs to this DB alone and ends with Close. It has one connection, so readers
// take turns too.
func OpenMemory(ctx context.Context, part Part) (*DB, error) {
	db := &DB{path: memory, part: part, busyTimeout: DefaultBusyTimeout}
	return db.opened(db.connectAlone(ctx, memory))
}

// OpenTemporary is OpenMemory for much data: what exceeds the cache of some megabytes is in a file in the folder for
// temporary files.
func OpenTemporary(ctx context.Context, part Part) (*DB, error) {
	db := &DB{path: "temporary file of SQLite", part: part, busyTimeout: DefaultBusyTimeout}
	return db.opened(db.connectAlone(ctx, temporary))
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

// Close waits for a running write and closes all files. The DB cannot be used afterwards. Closing it again does
// nothing.
func (db *DB) Close() error {
	if db.turns != nil {
		db.turns.line <- struct{}{}
		defer func() { <-db.turns.line }()
	}
	var errs []error
	// Readers first: the last connection to close copies the WAL into the database and removes it, which a read-only
	// connection may not do.
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
	if db.turns != nil {
		errs = append(errs, db.turns.close())
	}
	return db.wrap("close", errors.Join(errs...))
}

// Read runs fn on a connection that cannot write. Each of its queries sees what was committed before it began, and does
// not wait. In a store of one connection it takes turns with the writers, and fn must not call Read or Write. doing
// names the work in errors. Errors that pass when other writers finish get the part's TryAgain.
func (db *DB) Read(ctx context.Context, doing string, fn func(ctx context.Context, r *Statements) error) error {
	if db.reader == nil { // another connection would be another store
		return db.Write(ctx, doing, fn)
	}
	return db.wrap(doing, fn(ctx, db.reader))
}

// Write runs fn in a transaction, when its turn has come. All of it is kept, or nothing if there is an error. ctx and
// the busy timeout bound the wait. Once begun, the transaction runs to its end even if ctx ends: it takes milliseconds,
// and stopping it would only leave its outcome unknown. The errors are those of Read.
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

// begin begins a transaction. It waits for other programs, which take no turns.
func (db *DB) begin(waiting context.Context) error {
	return pollFree(waiting, func() error {
		_, err := db.writer.Exec(context.WithoutCancel(waiting), `BEGIN IMMEDIATE`)
		return err
	})
}

// finish runs fn and ends the transaction, with all of fn or nothing.
func (db *DB) finish(ctx context.Context, fn change) (err error) {
	committed := false
	defer func() {
		if !committed { // also if fn panics, or ends its goroutine
			// It fails if SQLite has rolled back already, which does no harm.
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
	committed = err == nil
	return err
}

// checkPlace makes sure that other processes find the same file under this name. Two files would hand out items twice.
func (db *DB) checkPlace() error {
	if db.file == nil { // only this connection has it
		return nil
	}
	now, err := os.Stat(db.path)
	if err != nil {
		return &plainError{text: "the file was deleted or moved since it was opened", err: err}
	}
	if !os.SameFile(db.file, now) {
		return errors.New("the file was replaced since it was opened; restart the program")
	}
	return nil
}
