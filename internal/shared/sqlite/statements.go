package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Conn holds the methods that *sql.DB, *sql.Conn and *sql.Tx share.
type Conn interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Statements runs SQL and keeps each statement prepared after its first use. The texts are constants of the engines,
// so there are only a few.
type Statements struct {
	on   Conn
	mu   sync.Mutex // guards kept
	kept map[string]*sql.Stmt
}

func (s *Statements) get(ctx context.Context, query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if kept, ok := s.kept[query]; ok {
		return kept, nil
	}
	stmt, err := s.on.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	if s.kept == nil {
		s.kept = map[string]*sql.Stmt{}
	}
	s.kept[query] = stmt
	return stmt, nil
}

// close closes the statements. database/sql does not close the statements of a single connection, and SQLite would
// keep the files open for them.
func (s *Statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, kept := range s.kept {
		errs = append(errs, kept.Close())
	}
	s.kept = nil
	return errors.Join(errs...)
}

// Conn returns the connection of the statements, for SQL that does not belong to the engine.
func (s *Statements) Conn() Conn { return s.on }

// Run runs several statements once.
func (s *Statements) Run(ctx context.Context, queries string) error {
	_, err := s.on.ExecContext(ctx, queries)
	return err
}

// Exec runs a statement that writes, and returns the number of written rows.
func (s *Statements) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	stmt, err := s.get(ctx, query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Args holds the arguments of a query.
type Args []any

// One reads the row of a query with at most one row.
func (s *Statements) One(ctx context.Context, query string, a Args, into ...any) (found bool, err error) {
	stmt, err := s.get(ctx, query)
	if err != nil {
		return false, err
	}
	err = stmt.QueryRowContext(ctx, a...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Each calls read for every row of a query. read calls scan to read the row's columns.
func (s *Statements) Each(ctx context.Context, query string, a Args, read func(scan func(into ...any) error) error) error {
	stmt, err := s.get(ctx, query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(ctx, a...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// Millis returns the column value of a time: Unix milliseconds, or NULL for the zero time.
func Millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// IntoTime scans a column value of Millis, in UTC.
func IntoTime(t *time.Time) sql.Scanner { return intoTime{t} }

type intoTime struct{ *time.Time }

func (t intoTime) Scan(column any) error {
	switch v := column.(type) {
	case nil:
		*t.Time = time.Time{}
	case int64:
		*t.Time = time.UnixMilli(v).UTC()
	default:
		return fmt.Errorf("a time is stored as %T", column)
	}
	return nil
}

// IntoDuration scans a number of milliseconds.
func IntoDuration(d *time.Duration) sql.Scanner { return intoDuration{d} }

type intoDuration struct{ *time.Duration }

func (d intoDuration) Scan(column any) error {
	ms, ok := column.(int64)
	if !ok {
		return fmt.Errorf("a duration is stored as %T", column)
	}
	*d.Duration = time.Duration(ms) * time.Millisecond
	return nil
}

// IntoBytes scans a blob that must be as long as b.
func IntoBytes(b []byte) sql.Scanner { return intoBytes(b) }

type intoBytes []byte

func (b intoBytes) Scan(column any) error {
	if v, ok := column.([]byte); ok && len(v) == len(b) {
		copy(b, v)
		return nil
	}
	return fmt.Errorf("a hash or key is stored as %T, not as %d bytes", column, len(b))
}
