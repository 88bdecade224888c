package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// statements runs SQL and keeps every statement prepared after its first use.
// The texts are the constants of this package, so there are few.
type statements struct {
	on interface {
		PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	}
	mu   sync.Mutex // guards kept
	kept map[string]*sql.Stmt
}

func (s *statements) get(ctx context.Context, query string) (*sql.Stmt, error) {
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

// close closes the statements, which database/sql forgets to do for those of a
// single connection; SQLite would keep the files open for them.
func (s *statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, kept := range s.kept {
		errs = append(errs, kept.Close())
	}
	s.kept = nil
	return errors.Join(errs...)
}

// run runs several statements once.
func (s *statements) run(ctx context.Context, queries string) error {
	_, err := s.on.ExecContext(ctx, queries)
	return err
}

// exec writes and returns the number of rows that it wrote.
func (s *statements) exec(ctx context.Context, query string, args ...any) (int64, error) {
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

// args are the arguments of a query.
type args []any

// one reads the row of a query that has at most one.
func (s *statements) one(ctx context.Context, query string, a args, into ...any) (found bool, err error) {
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

// each calls read for every row of a query; read scans it.
func (s *statements) each(ctx context.Context, query string, a args, read func(scan func(into ...any) error) error) error {
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

// millis is the column of a time: Unix milliseconds, NULL for the zero time.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

// intoTime scans what millis made.
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

// blob is the column of a hash; NULL if there is none.
func blob(h *itembank.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}

// intoHash scans what blob made.
type intoHash struct{ *itembank.Hash }

func (h intoHash) Scan(column any) error {
	if v, ok := column.([]byte); ok && len(v) == itembank.HashSize {
		copy(h.Hash[:], v)
		return nil
	}
	return fmt.Errorf("a hash is stored as %T, not as %d bytes", column, itembank.HashSize)
}
