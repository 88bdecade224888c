package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
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
	case request.IfClaim == nil: // PutRow has a condition of its own
		return true, nil
	default:
		return exists(ctx, w, selectIsClaim, append(claimKey(request.IfClaim.Key()), request.IfClaim.ID, nil)...)
	}
}

// change makes the change unless it was made already.
func change(ctx context.Context, w *sqlite.Statements, request engine.RepairRequest) (bool, error) {
	switch {
	case request.PutFree != nil:
		if there, err := inBank(ctx, w, *request.PutFree); there || err != nil {
			return false, err
		}
		if err := putFree(ctx, w, *request.PutFree); err != nil {
			return false, err
		}
		return true, countReturn(ctx, w, request)
	case request.PutClaim != nil:
		if held, err := readClaim(ctx, w, request.PutClaim.Key()); held != nil || err != nil {
			return false, err
		}
		for _, item := range request.More {
			if ready, err := otherReady(ctx, w, request, item); !ready || err != nil {
				return false, err
			}
		}
		for _, item := range request.More {
			if err := takeOther(ctx, w, request, item); err != nil {
				return false, err
			}
		}
		if err := putClaim(ctx, w, *request.PutClaim, request.Shard); err != nil {
			return false, err
		}
		return true, countReturn(ctx, w, request)
	case request.DropFree != nil:
		n, err := w.Exec(ctx, deleteFree, bankKey(*request.DropFree)...)
		return n == 1, err
	case request.PutRow != nil:
		row := request.PutRow
		n, err := w.Exec(ctx, insertRow, request.Campaign, request.Hash[:],
			row.LoadID, row.Row, sqlite.Millis(row.EndsAt), string(row.State), row.Columns)
		return n == 1, err
	default:
		n, err := w.Exec(ctx, updateEnd, request.End, request.Campaign, request.Hash[:])
		return n == 1, err
	}
}

// otherItem returns the repair of another item of the same claim.
func otherItem(r engine.RepairRequest, item engine.RepairItem) engine.RepairRequest {
	r.Hash, r.IfRow = item.Hash, item.IfRow
	return r
}

// otherReady reports whether another item of a claim is free or missing, as the repair requires.
func otherReady(ctx context.Context, w *sqlite.Statements, r engine.RepairRequest, item engine.RepairItem) (bool, error) {
	if item.Free != nil {
		return inBank(ctx, w, *item.Free)
	}
	return holds(ctx, w, otherItem(r, item))
}

func takeOther(ctx context.Context, w *sqlite.Statements, r engine.RepairRequest, item engine.RepairItem) error {
	if item.Free == nil {
		return countReturn(ctx, w, otherItem(r, item))
	}
	_, err := w.Exec(ctx, deleteFree, bankKey(*item.Free)...)
	return err
}

// countReturn counts a return in the item row that the repair names, and deletes its state.
func countReturn(ctx context.Context, w *sqlite.Statements, request engine.RepairRequest) error {
	if request.IfRow == nil {
		return nil
	}
	_, err := w.Exec(ctx, updateRepaired, request.Campaign, request.Hash[:])
	return err
}

func inBank(ctx context.Context, on *sqlite.Statements, i engine.FreeItem) (bool, error) {
	return exists(ctx, on, selectInBank, append(bankKey(i), nil)...)
}

const (
	insertRow = `INSERT INTO item (campaign, hash, load_id, row, ends_at, state, columns)
		VALUES (?, ?, ?, ?, ?, nullif(?, ''), ?) ON CONFLICT DO NOTHING`

	updateEnd = `UPDATE item SET state = ? WHERE campaign = ? AND hash = ?`

	updateRepaired = `UPDATE item SET returns = returns + 1, state = NULL WHERE campaign = ? AND hash = ?`
)
