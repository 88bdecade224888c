package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// DefaultBusyTimeout is how long a call waits, all in all, for other processes
// and programs before it gives up with itembank.ErrTryAgain.
const DefaultBusyTimeout = 5 * time.Second

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
func (s *Store) write(ctx context.Context, doing string, fn change) error {
	return s.wrap(doing, s.inTurn(ctx, fn))
}

// change is the body of a transaction.
type change func(ctx context.Context, w *statements) error

func (s *Store) inTurn(ctx context.Context, fn change) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	waiting, cancel := s.patience(ctx)
	defer cancel()
	if err := s.turns.enter(waiting); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.turns.leave()) }()
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
func (s *Store) finish(ctx context.Context, fn change) (err error) {
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
