package sqlitestore

import (
	"context"
	"database/sql"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const finishEntry = `UPDATE entry SET done = 1 WHERE scope = ? AND key = ? AND owner = ? AND done IS NULL`

// Tx is the transaction of an effect: what a *sql.Tx and a *sql.Conn have in common. Statements run at once. The
// function that gets it does not begin, commit or roll back, and does not keep it.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Transact puts or finishes the entry of a record and runs its effect, in one transaction. If the entry is there, it
// returns that, and the effect does not run. If the effect returns an error, panics or ends its goroutine, nothing is
// kept. The effect is in the turn of all writers of the file: it must not take long, nor use the Store.
//
// Errors are that of the effect, which stays in the chain, dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) Transact(
	ctx context.Context, t dedupe.Transaction, effect func(ctx context.Context, tx Tx) error,
) (found *dedupe.Existing, err error) {
	err = s.db.Write(ctx, "put entry and effect", func(ctx context.Context, w *sqlite.Statements) error {
		if found, err = enter(ctx, w, t); found != nil || err != nil {
			return err
		}
		return effect(ctx, w.Conn())
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// enter puts or finishes an entry, or returns the one that is in the way.
func enter(ctx context.Context, w *sqlite.Statements, t dedupe.Transaction) (*dedupe.Existing, error) {
	e, owner := &t.Entry, t.Entry.Owner.Digest()
	var found dedupe.PutResult
	one := []request{{e, &found}}
	if !t.Finish {
		if err := putAbsent(ctx, w, one); err != nil || found.Existing != nil {
			return found.Existing, err
		}
	}
	n, err := w.Exec(ctx, finishEntry, e.Scope, e.Key[:], owner[:])
	if err != nil || n == 1 {
		return nil, err
	}
	found.Existing = &dedupe.Existing{} // if there is none
	err = findExisting(ctx, w, one)
	return found.Existing, err
}

// Do runs a function in a transaction, as for the tables of effects. Its errors are those of Transact.
func (s *Store) Do(ctx context.Context, doing string, fn func(ctx context.Context, tx Tx) error) error {
	return s.db.Write(ctx, doing, func(ctx context.Context, w *sqlite.Statements) error { return fn(ctx, w.Conn()) })
}
