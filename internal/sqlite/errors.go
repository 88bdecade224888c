package sqlite

import (
	"context"
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
	// part yet. Nothing was changed. The error says which.
	ErrNotStore = errors.New("not a oncebox store")

	// ErrLayout says that another version of oncebox made the store, with other tables. Use that version, or another
	// file. Nothing was changed.
	ErrLayout = errors.New("made by another version of oncebox")

	// ErrNoAccess says that the user of this process may not open the file, or may not write to it or its folder.
	ErrNoAccess = errors.New("no access")

	// ErrDiskFull says that the disk has no room. Nothing of the write was kept; it is safe to repeat.
	ErrDiskFull = errors.New("the disk is full")

	// ErrDamaged says that the content of the file is damaged.
	ErrDamaged = errors.New("the file is damaged")
)

// waitedError says that the busy timeout ended a wait.
type waitedError struct{ patience time.Duration }

func (e *waitedError) Error() string { return fmt.Sprintf("still busy after %v", e.patience) }

// plainError is an error in plain words. The original error, whose text has codes of SQLite or calls of the system,
// stays in the chain for errors.Is and errors.As.
type plainError struct {
	text string
	kind error // one of the errors above; nil: none of them
	err  error
}

func (e *plainError) Error() string { return e.text }

func (e *plainError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

const makeWritable = "make it and its folder readable and writable for this user"

// faults are SQLite's result codes that a user can do something about.
var faults = map[int]plainError{
	sqlite3.SQLITE_BUSY:     {text: "another program is writing to the file"},
	sqlite3.SQLITE_LOCKED:   {text: "another program is writing to the file"},
	sqlite3.SQLITE_PROTOCOL: {text: "another program is writing to the file"},
	sqlite3.SQLITE_NOTADB:   {text: "not a oncebox store: it is not a SQLite database", kind: ErrNotStore},
	sqlite3.SQLITE_FULL:     {text: "the disk is full; make room and repeat the command", kind: ErrDiskFull},
	sqlite3.SQLITE_READONLY: {text: "the file or its folder is read-only; " + makeWritable, kind: ErrNoAccess},
	sqlite3.SQLITE_CANTOPEN: {text: "the file cannot be opened; " + makeWritable, kind: ErrNoAccess},
	sqlite3.SQLITE_PERM:     {text: "the file cannot be opened; " + makeWritable, kind: ErrNoAccess},
	sqlite3.SQLITE_IOERR:    {text: "the disk failed to read or write the file"},
	sqlite3.SQLITE_CORRUPT:  {text: "the file is damaged; restore a backup", kind: ErrDamaged},
}

// plain puts an error of SQLite into plain words. Other errors stay as they are.
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

// wrap is the one translator of errors. Errors that pass when other writers finish get the part's TryAgain. Others do
// not pass by themselves: a full or failing disk, missing permissions, a damaged or replaced file. The context's
// errors stay what they are.
func (db *DB) wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case passes(err):
		return fmt.Errorf("%w: %s: %s: %w", db.part.TryAgain, db.path, doing, plain(err))
	}
	return fmt.Errorf("%s: %s: %w", db.path, doing, plain(err))
}

// passes reports whether waiting is all that the error needs.
func passes(err error) bool {
	var waited *waitedError
	return errors.As(err, &waited) || isBusy(err)
}

// isBusy reports whether another connection was in the way: it holds a lock, or (PROTOCOL) locks of the WAL changed
// hands too often for this connection to get in.
func isBusy(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL:
		return true
	}
	return false
}

// code returns SQLite's primary result code of an error; 0 if it has none.
func code(err error) int {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff // the higher bits are details
}

// ended says why a waiting context is done: the busy timeout's *waitedError, or the error of the caller's context.
func ended(ctx context.Context) error {
	var waited *waitedError
	if errors.As(context.Cause(ctx), &waited) {
		return waited
	}
	return ctx.Err()
}
