package sqlitestore

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

	"github.com/oncebox/oncebox/pkg/itembank"
)

// DefaultBusyTimeout is how long a call waits, all in all, for other processes
// and programs before it gives up with itembank.ErrTryAgain.
const DefaultBusyTimeout = 5 * time.Second

// leastReaders is the number of read connections on a small machine; larger
// ones have one per processor. Each keeps up to 2 MB of pages.
const leastReaders = 4

var _ itembank.Store = (*Store)(nil)

// Store is an itembank.Store in a SQLite file. It is safe for concurrent use,
// by several processes too.
type Store struct {
	path        string      // absolute and without symbolic links
	file        fs.FileInfo // the file at path when it was opened
	busyTimeout time.Duration
	turns       *turnstile

	writerDB   *sql.DB
	writerConn *sql.Conn   // the only one of writerDB
	writer     *statements // on writerConn; used by whose turn it is
	readerDB   *sql.DB
	reader     *statements // on a pool of read-only connections
}

// Option changes a Store from its defaults.
type Option func(*Store)

// WithBusyTimeout sets how long a call waits for other processes; 0 is one try.
// The default is DefaultBusyTimeout.
func WithBusyTimeout(d time.Duration) Option { return func(s *Store) { s.busyTimeout = d } }

// Open opens an existing store. Close it after use.
//
// Errors: a missing file is fs.ErrNotExist; a file without a store is
// ErrNotStore; one of a later version of oncebox is ErrNewer; one that others
// keep busy is itembank.ErrTryAgain. None of them changes the file.
func Open(ctx context.Context, path string, options ...Option) (*Store, error) {
	return open(ctx, path, false, options)
}

// Create makes a store and opens it. Where there is one already it opens that,
// so it is safe to repeat, and for several processes at once. An empty file, and
// a oncebox file without tables for claims, becomes a store. The errors are
// those of Open; the folder of the file must exist.
func Create(ctx context.Context, path string, options ...Option) (*Store, error) {
	return open(ctx, path, true, options)
}

func open(ctx context.Context, path string, create bool, options []Option) (*Store, error) {
	located, err := locate(path, create)
	if err != nil {
		return nil, err
	}
	s := &Store{path: located, busyTimeout: DefaultBusyTimeout}
	for _, o := range options {
		o(s)
	}
	if err := s.connect(ctx, create); err != nil {
		return nil, errors.Join(s.wrap("open", err), s.Close())
	}
	return s, nil
}

// locate returns the one name of the file that all processes agree on: the
// names of the lock files come from it.
func locate(path string, create bool) (string, error) {
	if path == "" || path == ":memory:" {
		return "", fmt.Errorf("%q: a store must be a file; for a passing one, take one in a temporary folder", path)
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
		return "", fmt.Errorf("no store there; run `oncebox init` to make one: %w", err)
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s: %w: it is not a regular file (%s)", path, ErrNotStore, info.Mode().Type())
	case info.Size() == 1: // which SQLite takes for empty
		return "", fmt.Errorf("%s: %w: it is not a SQLite database", path, ErrNotStore)
	}
	return filepath.EvalSymlinks(abs)
}

func locateNew(abs string) (string, error) {
	if _, err := os.Lstat(abs); err == nil {
		return "", fmt.Errorf("%s: is a symbolic link to a missing file: %w", abs, fs.ErrNotExist)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	return filepath.Join(dir, filepath.Base(abs)), err
}

// connect opens the connections of s, and makes the store if it is to be made.
func (s *Store) connect(ctx context.Context, create bool) error {
	fresh, err := s.connectWriter(ctx, create)
	switch {
	case err != nil:
		return err
	case fresh && !create:
		return fmt.Errorf("%w: it has no tables for claims; run `oncebox init` to make them", ErrNotStore)
	case fresh:
		if err := s.makeSchema(ctx); err != nil {
			return err
		}
	}
	s.readerDB, err = s.pool("mode=ro", max(leastReaders, runtime.GOMAXPROCS(0)), s.busyTimeout)
	s.reader = &statements{on: s.readerDB}
	return err
}

// connectWriter opens the connection for writes and sees what the file is. The
// connection has no busy timeout of its own: pollFree waits for it, by the same
// clock as for the turn.
func (s *Store) connectWriter(ctx context.Context, create bool) (fresh bool, err error) {
	mode := "mode=rw"
	if create {
		mode = "mode=rwc"
	}
	if s.writerDB, err = s.pool(mode, 1, 0); err != nil {
		return false, err
	}
	waiting, cancel := s.patience(ctx)
	defer cancel()
	err = pollFree(waiting, func() (err error) {
		s.writerConn, err = s.writerDB.Conn(context.WithoutCancel(ctx))
		return err
	})
	if err != nil {
		return false, err
	}
	s.writer = &statements{on: s.writerConn}
	if fresh, err = s.inspect(waiting); err != nil || fresh && !create {
		return fresh, err
	}
	if err := s.useWAL(waiting); err != nil {
		return fresh, err
	}
	return fresh, s.makeTurns()
}

// pool makes a pool of up to n connections, all of which stay open.
func (s *Store) pool(mode string, n int, busyTimeout time.Duration) (*sql.DB, error) {
	connector, err := sqlite.NewConnector(dsn(s.path, mode, busyTimeout))
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// dsn makes the driver's name of a file: a URI, in which the path may hold any
// character, with the settings that every connection needs. synchronous=FULL
// makes a commit wait for the disk; with NORMAL a power cut could take back
// claims that were answered. fullfsync does the same on macOS, where an
// ordinary sync stops at the disk's cache. mode is SQLite's, as in mode=ro.
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

// Close waits for a write under way and closes all files. A Store cannot be
// used after it; closing again does nothing.
func (s *Store) Close() error {
	if s.turns != nil {
		s.turns.line <- struct{}{}
		defer func() { <-s.turns.line }()
	}
	var errs []error
	// Readers first: the last one to close copies the WAL into the database and
	// removes it, which a read-only connection may not.
	if s.readerDB != nil {
		errs = append(errs, s.readerDB.Close())
	}
	if s.writerConn != nil {
		errs = append(errs, s.writer.close(), s.writerConn.Close())
		s.writerConn = nil
	}
	if s.writerDB != nil {
		errs = append(errs, s.writerDB.Close())
	}
	return s.wrap("close", errors.Join(errs...))
}

// write runs fn in a transaction, when its turn has come. Waiting is bounded by
// ctx and the busy timeout. From then on it runs to its end, whatever becomes of
// ctx: it takes milliseconds, and cutting it would only leave its end unknown.
func (s *Store) write(ctx context.Context, doing string, fn func(ctx context.Context, w *statements) error) (err error) {
	if err := ctx.Err(); err != nil {
		return s.wrap(doing, err)
	}
	waiting, cancel := s.patience(ctx)
	defer cancel()
	if err := s.turns.enter(waiting); err != nil {
		return s.wrap(doing, err)
	}
	defer func() { err = s.wrap(doing, errors.Join(err, s.turns.leave())) }()
	if err := s.begin(waiting); err != nil {
		return err
	}
	return s.finish(context.WithoutCancel(ctx), fn)
}

// patience bounds a wait by the busy timeout.
func (s *Store) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.busyTimeout, &waitedError{s.busyTimeout})
}

// begin waits for foreign programs, which take no turns.
func (s *Store) begin(waiting context.Context) error {
	return pollFree(waiting, func() error {
		_, err := s.writer.exec(context.WithoutCancel(waiting), `BEGIN IMMEDIATE`)
		return err
	})
}

// finish ends the transaction that was begun, with all of fn or nothing.
func (s *Store) finish(ctx context.Context, fn func(ctx context.Context, w *statements) error) (err error) {
	defer func() {
		if err != nil {
			// Some failures have rolled back already, then this one's says so.
			_, _ = s.writer.exec(ctx, `ROLLBACK`)
		}
	}()
	if err := s.checkPlace(); err != nil {
		return err
	}
	if err := fn(ctx, s.writer); err != nil {
		return err
	}
	_, err = s.writer.exec(ctx, `COMMIT`)
	return err
}

// checkPlace makes sure that the file written to is the one that other
// processes find under its name: two files would give items twice.
func (s *Store) checkPlace() error {
	now, err := os.Stat(s.path)
	if err != nil {
		return fmt.Errorf("the file is gone from its place: %w", err)
	}
	if !os.SameFile(s.file, now) {
		return errors.New("the file was replaced since it was opened: open it again")
	}
	return nil
}
