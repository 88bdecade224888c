package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// memory is SQLite's name of a database in memory.
const memory = ":memory:"

// temporary is SQLite's name of a database in a file without a name, which the system deletes when the database is
// closed or the process ends.
const temporary = ""

// leastReaders is the number of read connections on a small machine. Larger machines have one per processor. Each
// connection keeps up to 2 MB of pages.
const leastReaders = 4

// locate returns the absolute name of the file without symbolic links. All processes must agree on it, because it
// determines the name of the lock file.
func locate(path string, create bool) (string, error) {
	if path == "" || path == memory {
		return "", fmt.Errorf("%q: a store must be a file; for a temporary store use a file in a temporary folder", path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist) && create:
		return locateNew(abs)
	case errors.Is(err, fs.ErrNotExist):
		return "", &plainError{text: path + ": there is no such file; run `oncebox init` to make a store", err: err}
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %w: it is not a regular file (%s)", path, ErrNotStore, info.Mode().Type())
	case info.Size() == 1: // SQLite would accept it as an empty file
		return "", fmt.Errorf("%s: %w: it is not a SQLite database", path, ErrNotStore)
	}
	return filepath.EvalSymlinks(abs)
}

// locateNew names a file that did not exist a moment ago. If another process has made a file since, that does no
// harm. If it has made a symbolic link, locateNew returns an error.
func locateNew(abs string) (string, error) {
	if info, err := os.Lstat(abs); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", &plainError{text: abs + ": it is a symbolic link to a missing file", err: fs.ErrNotExist}
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", &plainError{text: abs + ": its folder does not exist", err: err}
	}
	return filepath.Join(dir, filepath.Base(abs)), nil
}

// connect opens the connections. It makes the part if create is set.
func (db *DB) connect(ctx context.Context, create bool) error {
	present, err := db.connectWriter(ctx, create)
	switch {
	case err != nil:
		return err
	case !present && !create:
		return fmt.Errorf("%w: it has no tables for %s; run `oncebox init` to make them", ErrNotStore, db.part.Purpose)
	case !present:
		if err := db.makePart(ctx); err != nil {
			return err
		}
	}
	return db.openReaders("mode=ro")
}

func (db *DB) openReaders(mode string) (err error) {
	db.readerDB, err = pool(dsn(db.path, mode, db.busyTimeout), max(leastReaders, runtime.GOMAXPROCS(0)))
	db.reader = &Statements{on: db.readerDB}
	return err
}

// connectReaders opens only the connections that read. Without a WAL, SQLite would have to make one. So it is told that
// the file does not change, and checkStill finds out whether it did.
func (db *DB) connectReaders(ctx context.Context) (err error) {
	mode := "mode=ro"
	if !db.hasWAL() {
		mode += "&immutable=1"
		if db.still, err = os.Stat(db.path); err != nil {
			return err
		}
	}
	if err := db.openReaders(mode); err != nil {
		return err
	}
	present, err := db.identify(ctx, db.reader)
	if err == nil && !present {
		err = ErrNotStore
	}
	return err
}

func (db *DB) hasWAL() bool {
	_, err := os.Stat(db.path + "-wal")
	return err == nil
}

// checkStill returns an error if the file may have changed since it was opened as one that does not.
func (db *DB) checkStill() error {
	if db.still == nil {
		return nil
	}
	now, err := os.Stat(db.path)
	if err == nil && !db.hasWAL() && os.SameFile(now, db.still) && now.ModTime().Equal(db.still.ModTime()) {
		return nil
	}
	return fmt.Errorf("%w: another program has written to the file; run the command again", db.part.TryAgain)
}

// connectAlone makes a database whose only connection writes and reads.
func (db *DB) connectAlone(ctx context.Context, name string) error {
	if err := db.openWriter(ctx, name); err != nil {
		return err
	}
	db.turns = newTurnstile()
	return db.makePart(ctx)
}

// connectWriter opens the connection for writes and finds out the type of the file. The connection has no busy
// timeout of its own: pollFree waits for it, within the same time as for the turn.
func (db *DB) connectWriter(ctx context.Context, create bool) (present bool, err error) {
	mode := "mode=rw"
	if create {
		mode = "mode=rwc"
	}
	if !mayWrite(db.path) { // SQLite would open the file, and fail at the first write
		return false, &plainError{text: readOnly, err: ErrNoAccess}
	}
	waiting, cancel := db.waitLimit(ctx)
	defer cancel()
	if err := db.openWriter(waiting, dsn(db.path, mode, 0)); err != nil {
		return false, err
	}
	if present, err = db.inspect(waiting); err != nil || !present && !create {
		return present, err
	}
	if err := db.useWAL(waiting); err != nil {
		return present, err
	}
	return present, db.makeTurns()
}

func (db *DB) openWriter(waiting context.Context, dsn string) (err error) {
	if db.writerDB, err = pool(dsn, 1); err != nil {
		return err
	}
	err = pollFree(waiting, func() (err error) {
		db.writerConn, err = db.writerDB.Conn(context.WithoutCancel(waiting))
		return err
	})
	if err != nil {
		return err
	}
	db.writer = &Statements{on: db.writerConn}
	return nil
}

// pool makes a pool of up to n connections, which stay open.
func pool(dsn string, n int) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	p := sql.OpenDB(connector)
	p.SetMaxOpenConns(n)
	p.SetMaxIdleConns(n)
	return p, nil
}

// dsn returns the driver's name of a file. It is a URI, in which the path may contain any character, with the
// settings that every connection needs. synchronous=FULL makes a commit wait for the disk. With NORMAL, a power cut
// could undo claims that were answered. fullfsync does the same on macOS, where an ordinary sync stops at the disk's
// cache. mode is SQLite's, as in mode=ro.
func dsn(path, mode string, busyTimeout time.Duration) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	q := url.Values{
		"_busy_timeout": {strconv.FormatInt(busyTimeout.Milliseconds(), 10)},
		"_synchronous":  {"FULL"},
		"_pragma":       {"fullfsync(1)"},
		"_dqs":          {"0"},
		"_error_rc":     {"1"},
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: mode + "&" + q.Encode()}).String()
}
