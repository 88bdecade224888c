package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotStore says that the file is not a SQLite database, belongs to another program, or has no tables of the
	// part yet. The file was not changed. The error names the case.
	ErrNotStore = errors.New("not a oncebox store")

	// ErrLayout says that another version of oncebox made the store, with other tables. Use that version, or another
	// file. The file was not changed.
	ErrLayout = errors.New("made by another version of oncebox")

	// ErrNoAccess says that the user of this process may not open the file, or may not write to it or its folder.
	ErrNoAccess = errors.New("no access")

	// ErrDiskFull says that the disk is full. The write was undone; it is safe to repeat.
	ErrDiskFull = errors.New("the disk is full")

	// ErrDamaged says that the content of the file is damaged.
	ErrDamaged = errors.New("the file is damaged")
)

// waitedError says that the busy timeout ended a wait.
type waitedError struct{ waitLimit time.Duration }

func (e *waitedError) Error() string { return fmt.Sprintf("still busy after %v", e.waitLimit) }

// plainError is an error in plain words. The original error stays in the chain for errors.Is and errors.As. Its text
// has codes of SQLite or calls of the system.
type plainError struct {
	text string
	kind error // one of the errors above, or nil
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

const (
	makeWritable = "make it and its folder readable and writable for this user"
	readOnly     = "the file or its folder is read-only; " + makeWritable
)

// faults are the result codes of SQLite that a user can act on.
var faults = map[int]plainError{
	sqlite3.SQLITE_BUSY:     {text: "another program is writing to the file"},
	sqlite3.SQLITE_LOCKED:   {text: "another program is writing to the file"},
	sqlite3.SQLITE_PROTOCOL: {text: "another program is writing to the file"},
	sqlite3.SQLITE_NOTADB:   {text: "not a oncebox store: it is not a SQLite database", kind: ErrNotStore},
	sqlite3.SQLITE_FULL:     {text: "the disk is full; make room and repeat the command", kind: ErrDiskFull},
	sqlite3.SQLITE_READONLY: {text: readOnly, kind: ErrNoAccess},
	sqlite3.SQLITE_CANTOPEN: {text: "the file cannot be opened; " + makeWritable, kind: ErrNoAccess},
	sqlite3.SQLITE_PERM:     {text: "the file cannot be opened; " + makeWritable, kind: ErrNoAccess},
	sqlite3.SQLITE_IOERR:    {text: "the disk failed to read or write the file"},
	sqlite3.SQLITE_CORRUPT:  {text: "the file is damaged; restore a backup", kind: ErrDamaged},
}

// plain puts an error of SQLite into plain words. It returns other errors unchanged.
func plain(err error) error {
	fault, known := faults[code(err)]
	switch {
	case known:
		fault.err = err
		return &fault
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return &plainError{err.Error() + "; make the store and its folder writable for this user", ErrNoAccess, err}
	}
	return err
}

// wrap is the only translator of errors. Errors that pass when other writers finish get the part's TryAgain. Other
// errors do not pass by themselves: a full or failing disk, missing permissions, a damaged or replaced file. The
// context's errors stay unchanged.
func (db *DB) wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case isTemporary(err):
		return fmt.Errorf("%w: %s: %s: %w", db.part.TryAgain, db.path, doing, plain(err))
	}
	return fmt.Errorf("%s: %s: %w", db.path, doing, plain(err))
}

// isTemporary reports whether the error passes by waiting.
func isTemporary(err error) bool {
	var waited *waitedError
	return errors.As(err, &waited) || isBusy(err)
}

// isBusy reports whether another connection caused the error. It holds a lock, or locks of the WAL changed hands too
// often for this connection to get one (PROTOCOL).
func isBusy(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// code returns SQLite's primary result code of an error, or 0 if it has none.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff // the higher bits are details
}

// endedBy returns the error of ctx if its end has ended a read. The driver then interrupts the running statement, and
// database/sql ends the transaction, so err may be their word for it.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil && (errors.Is(err, sql.ErrTxDone) || code(err) == sqlite3.SQLITE_INTERRUPT) {
		return ctx.Err()
	}
	return err
}

// ended returns the reason why a waiting context has ended: the busy timeout's *waitedError, or the error of the
// caller's context.
func ended(ctx context.Context) error {
	var waited *waitedError
	if errors.As(context.Cause(ctx), &waited) {
		return waited
	}
	return ctx.Err()
}
