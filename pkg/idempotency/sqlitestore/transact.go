package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Tx is the transaction of effects: the common methods of *sql.Tx and *sql.Conn. Statements run at once. The function
// that gets a Tx must not begin, commit or roll back, and must not keep it.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type effects func(ctx context.Context, tx Tx) error

// Effects returns a function for Execution.Commit. It runs after the function of the call, in the transaction that
// stores the result, on tables of the caller in the file of the Store: see Store.Do. If it returns an error, panics or
// ends its goroutine, nothing is kept, and the key is free. The call returns its error. It may run again if the
// transaction fails for other reasons. It must return the error of a statement: SQLite may have rolled back.
//
// While it runs, all writers of the file wait: it must not take long, and must not use the Store.
func Effects(do func(ctx context.Context, tx Tx) error) engine.Effects { return effects(do) }

// CheckEffects implements engine.Transactor.
func (*Store) CheckEffects(_ engine.Key, e engine.Effects) error {
	if do, ok := e.(effects); !ok || do == nil {
		return fmt.Errorf("a store on SQLite does the function of sqlitestore.Effects, not a %T", e)
	}
	return nil
}

// CompleteWith implements engine.Transactor.
func (s *Store) CompleteWith(
	ctx context.Context, key engine.Key, token string, c engine.Completion, e engine.Effects,
) (a engine.Answer, err error) {
	err = s.db.Write(ctx, "complete record and do its effects", func(ctx context.Context, w *sqlite.Statements) error {
		a, err = s.change(ctx, w, key, completeRecord, completion(token, c)...)
		if err != nil || !a.Done {
			return err
		}
		if err := e.(effects)(ctx, w.Conn()); err != nil {
			return &engine.RefusedError{Reason: err} // which undoes the transaction
		}
		return s.isStillOpen(ctx, w, key, token)
	})
	if err != nil {
		return engine.Answer{}, err
	}
	return a, nil
}

var errEnded = errors.New("the effects ended the transaction, and what they wrote after that is kept; " +
	"return the error of a statement, and do not commit or roll back")

// isStillOpen refuses effects that have ended the transaction. After some errors, such as a full disk, SQLite rolls
// back. Effects that ignore the error would be repeated, and what they write after it would be kept each time.
func (s *Store) isStillOpen(ctx context.Context, w *sqlite.Statements, key engine.Key, token string) error {
	digest, err := digestOf(key)
	if err != nil {
		return err
	}
	now, err := s.show(ctx, w, digest)
	if err == nil && (now.Row == nil || now.Row.CompletedBy != token) {
		return &engine.RefusedError{Reason: errEnded}
	}
	return err
}

// Do runs a function in a transaction, for example to make the tables of effects. If it returns an error, panics or ends
// its goroutine, nothing is kept. Other errors are engine.ErrTryAgain, or a fault of the file.
func (s *Store) Do(ctx context.Context, doing string, fn func(ctx context.Context, tx Tx) error) error {
	return s.db.Write(ctx, doing, func(ctx context.Context, w *sqlite.Statements) error { return fn(ctx, w.Conn()) })
}
