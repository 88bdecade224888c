// Package sqlite holds the code that the SQLite engines share. All engines use one file, in which each has its part.
// The package opens connections with the right settings, gives writers turns, runs transactions, and translates
// SQLite's errors.
//
// A file may be open several times, in engines of one process and in other processes. The documentation of the
// engines says what this requires of the file's place, and explains the lock file beside it.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"time"
)

// DefaultBusyTimeout is how long a call waits in total for other writers before it returns the part's TryAgain.
const DefaultBusyTimeout = 5 * time.Second

// DB is one open part of a store. It is safe for concurrent use.
type DB struct {
	path        string      // absolute and without symbolic links; or memory; or the name in errors
	file        fs.FileInfo // the file at path when it was opened; nil for a store with a single connection
	part        Part
	busyTimeout time.Duration
	turns       *turnstile

	writerDB   *sql.DB
	writerConn *sql.Conn   // the only connection of writerDB
	writer     *Statements // statements on writerConn, for the writer that has the turn
	readerDB   *sql.DB
	reader     *Statements // statements on a pool of read-only connections; nil for a store with a single connection
	still      fs.FileInfo // the file of OpenToRead, if it must not change while it is open; otherwise nil
}

// Option changes an option of a DB from its default.
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

// OpenToRead is Open for a program that only reads. It also opens a file to which this user may not write. Then Write
// returns ErrNoAccess, and reads return the part's TryAgain if another program has written to the file since.
func OpenToRead(ctx context.Context, path string, part Part, options []Option) (*DB, error) {
	located, err := locate(path, false)
	if err != nil {
		return nil, err
	}
	if mayWrite(located) {
		db, err := Open(ctx, path, part, options)
		if !errors.Is(err, ErrNoAccess) {
			return db, err
		}
	}
	db := &DB{path: located, part: part, busyTimeout: DefaultBusyTimeout}
	return db.opened(db.connectReaders(ctx))
}

// Create makes a store with the part and opens it. It keeps the existing content of the file. So it is safe to
// repeat, and safe for several processes at once. An empty file becomes a store. The folder of the file must exist.
// It returns the same errors as Open.
func Create(ctx context.Context, path string, part Part, options []Option) (*DB, error) {
	return openFile(ctx, path, true, part, options)
}

// OpenMemory makes a store in memory. It belongs to this DB alone and ends with Close. It has one connection, so
// readers also take turns.
func OpenMemory(ctx context.Context, part Part) (*DB, error) {
	db := &DB{path: memory, part: part, busyTimeout: DefaultBusyTimeout}
	return db.opened(db.connectAlone(ctx, memory))
}

// OpenTemporary is OpenMemory for much data. Data beyond the cache of some megabytes is in a file in the folder for
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
	// Close the readers first: the last connection to close copies the WAL into the database and removes it, and a
	// read-only connection may not do that.
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

// Read runs fn on connections that cannot write. fn makes one query, which sees the data that was committed before it
// began, and does not wait. For several queries use ReadSnapshot. In a store with one connection it takes turns with
// the writers, and fn must not call Read, ReadSnapshot or Write. doing names the work in errors. Errors that pass when
// other writers finish get the part's TryAgain.
func (db *DB) Read(ctx context.Context, doing string, fn func(ctx context.Context, r *Statements) error) error {
	if db.reader == nil { // in this case another connection would be another store
		return db.Write(ctx, doing, fn)
	}
	return db.wrap(doing, cmp.Or(endedBy(ctx, fn(ctx, db.reader)), db.checkStill()))
}

// ReadSnapshot is Read for several queries. All of them see the data at one moment: that of the first query. It takes
// some 50 microseconds longer than Read.
func (db *DB) ReadSnapshot(ctx context.Context, doing string, fn func(ctx context.Context, r *Statements) error) error {
	if db.reader == nil {
		return db.Write(ctx, doing, fn)
	}
	return db.wrap(doing, cmp.Or(db.inSnapshot(ctx, fn), db.checkStill()))
}

// inSnapshot runs fn in a transaction that only reads. The end of the transaction closes its statements.
func (db *DB) inSnapshot(ctx context.Context, fn func(ctx context.Context, r *Statements) error) error {
	tx, err := db.readerDB.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	return endedBy(ctx, fn(ctx, &Statements{on: tx}))
}

// Write runs fn in a transaction, when its turn has come. If fn or the commit fails, nothing is kept. ctx and the
// busy timeout limit the wait. A transaction that has begun runs to its end even if ctx ends: it takes milliseconds,
// and stopping it would only make its result unknown. Write returns the same errors as Read.
func (db *DB) Write(ctx context.Context, doing string, fn func(ctx context.Context, w *Statements) error) error {
	return db.wrap(doing, db.inTurn(ctx, fn))
}

// change is the body of a transaction.
type change func(ctx context.Context, w *Statements) error

func (db *DB) inTurn(ctx context.Context, fn change) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if db.turns == nil {
		return &plainError{text: "the file was opened to be read; " + makeWritable, kind: ErrNoAccess, err: fs.ErrPermission}
	}
	waiting, cancel := db.waitLimit(ctx)
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

// waitLimit limits a wait by the busy timeout.
func (db *DB) waitLimit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, db.busyTimeout, &waitedError{db.busyTimeout})
}

// begin begins a transaction. It waits for other programs, because they take no turns.
func (db *DB) begin(waiting context.Context) error {
	return pollFree(waiting, func() error {
		_, err := db.writer.Exec(context.WithoutCancel(waiting), `BEGIN IMMEDIATE`)
		return err
	})
}

// finish runs fn and ends the transaction. It commits, or rolls back if fn fails.
func (db *DB) finish(ctx context.Context, fn change) (err error) {
	committed := false
	defer func() {
		if !committed { // even if fn panics, or ends its goroutine
			// ROLLBACK fails if SQLite has already rolled back, which does no harm.
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

// checkPlace checks that other processes find the same file under this name. Two files would hand out items twice.
func (db *DB) checkPlace() error {
	if db.file == nil { // only this connection has the store
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
