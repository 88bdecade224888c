package sqlitestore

import (
	"cmp"
	"context"
	"database/sql"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

const finishEntry = `UPDATE entry SET done = 1 WHERE ` + atSlot + ` AND owner = ?3 AND done IS NULL`

// Tx is the transaction of an effect: the common methods of *sql.Tx and *sql.Conn. Statements run at once. The function
// that gets a Tx must not begin, commit or roll back, and must not keep it.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Transact puts or finishes the entry of a record and runs its effect, in one transaction. If the entry exists, it
// returns it, and the effect does not run. If the effect returns an error, panics or ends its goroutine, nothing is
// kept. While the effect runs, all writers of the file wait: it must not take long, and must not use the Store.
//
// Errors are the effect's own error, which stays in the chain, dedupe.ErrTryAgain, or a fault of the file.
func (s *Store) Transact(
	ctx context.Context, t dedupe.Transaction, effect func(ctx context.Context, tx Tx) error,
) (found *dedupe.Existing, err error) {
	err = s.writeEntries(ctx, "put entry and effect", func(ctx context.Context, w *sqlite.Statements) error {
		if found, err = s.enter(ctx, w, t); found != nil || err != nil {
			return err
		}
		return effect(ctx, w.Conn())
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// enter puts or finishes an entry, or returns the existing entry that prevents it.
func (s *Store) enter(ctx context.Context, w *sqlite.Statements, t dedupe.Transaction) (*dedupe.Existing, error) {
	e, owner := &t.Entry, t.Entry.Owner.Digest()
	var found dedupe.PutResult
	one := []request{newRequest(e, &found)}
	if !t.Finish {
		if err := cmp.Or(s.putAbsent(ctx, w, one), found.Err); err != nil || found.Existing != nil {
			return found.Existing, err
		}
		if found.Forgotten {
			return nil, dedupe.ErrForgotten
		}
	}
	n, err := w.Exec(ctx, finishEntry, e.Scope, one[0].slot[:], owner[:])
	if err != nil || n == 1 {
		return nil, err
	}
	found.Existing = &dedupe.Existing{} // if the entry does not exist
	err = findExisting(ctx, w, one, "")
	return found.Existing, err
}

// Do runs a function in a transaction, for example to make the tables of effects. Its errors are as for Transact.
func (s *Store) Do(ctx context.Context, doing string, fn func(ctx context.Context, tx Tx) error) error {
	return s.db.Write(ctx, doing, func(ctx context.Context, w *sqlite.Statements) error { return fn(ctx, w.Conn()) })
}
