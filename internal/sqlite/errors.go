package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrNotStore says that the file is no SQLite database, another program's, or
	// has no tables of the part yet. Nothing was changed. The error says which.
	ErrNotStore = errors.New("not a oncebox store")

	// ErrNewer says that a later version of oncebox made the store. Use that one.
	ErrNewer = errors.New("made by a newer oncebox")
)

// waitedError says that the busy timeout ended a wait.
type waitedError struct{ patience time.Duration }

func (e *waitedError) Error() string { return fmt.Sprintf("still busy after %v", e.patience) }

// wrap is the one translator of errors. What passes when others finish is
// the part's TryAgain. A full or failing disk, missing rights, a damaged or
// replaced file are not: asking again changes nothing until somebody has
// looked. The context's errors stay what they are.
func (db *DB) wrap(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case passes(err):
		return fmt.Errorf("%w: %s: %s: %w", db.part.TryAgain, db.path, doing, err)
	case code(err) == sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%s: %s: %w: it is not a SQLite database: %w", db.path, doing, ErrNotStore, err)
	}
	return fmt.Errorf("%s: %s: %w", db.path, doing, err)
}

// passes reports that waiting, and nothing else, repairs the error.
func passes(err error) bool {
	var waited *waitedError
	return errors.As(err, &waited) || isBusy(err)
}

// isBusy reports that another connection stood in the way: it holds a lock, or
// (PROTOCOL) locks of the WAL changed hands too often for this one to get in.
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
	return e.Code() & 0xff // the rest says more about the same
}

// ended tells why a waiting context is done: the busy timeout's *waitedError,
// or the caller's context's error.
func ended(ctx context.Context) error {
	var waited *waitedError
	if errors.As(context.Cause(ctx), &waited) {
		return waited
	}
	return ctx.Err()
}
