package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Repair makes a change if its condition holds, in one transaction.
func (s *Store) Repair(ctx context.Context, request engine.RepairRequest) (done bool, err error) {
	err = s.db.Write(ctx, "repair", func(ctx context.Context, w *sqlite.Statements) error {
		if done, err = holds(ctx, w, request); err != nil || !done {
			return err
		}
		done, err = change(ctx, w, request)
		return err
	})
	return done && err == nil, err
}

// holds reports whether the condition holds.
func holds(ctx context.Context, w *sqlite.Statements, request engine.RepairRequest) (bool, error) {
	switch {
	case request.IfRow != nil:
		row, err := readItemRow(ctx, w, request.Campaign, request.Hash[:])
		want := request.IfRow
		return row != nil && row.State == want.State && row.Returns == want.Returns && row.Withdraw == want.Withdraw, err
	case request.IfClaim != nil:
		return is(ctx, w, selectIsClaim, request.IfClaim.Scope, request.IfClaim.Claimant, slot, request.IfClaim.ID, nil)
	default:
		return inBank(ctx, w, *request.IfFree)
	}
}

func change(ctx context.Context, w *sqlite.Statements, request engine.RepairRequest) (bool, error) {
	switch {
	case request.PutFree != nil:
		i := *request.PutFree
		if there, err := inBank(ctx, w, i); there || err != nil {
			return false, err
		}
		if request.IfRow != nil {
			if _, err := w.Exec(ctx, updateReturns, request.Campaign, request.Hash[:]); err != nil {
				return false, err
			}
		}
		return true, putFree(ctx, w, i)
	case request.DropFree != nil:
		n, err := w.Exec(ctx, deleteFree, bankKey(*request.DropFree)...)
		return n == 1, err
	default:
		row := request.PutRow
		n, err := w.Exec(ctx, insertRow,
			request.Campaign, request.Hash[:], row.LoadID, row.Row, sqlite.Millis(row.EndsAt))
		return n == 1, err
	}
}

func inBank(ctx context.Context, on *sqlite.Statements, i engine.FreeItem) (bool, error) {
	return is(ctx, on, selectInBank, append(bankKey(i), nil)...)
}

const insertRow = `INSERT INTO item (campaign, hash, load_id, row, ends_at) VALUES (?, ?, ?, ?, ?)
	ON CONFLICT DO NOTHING`
