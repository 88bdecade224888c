package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Repair makes a change if what it rests on is so, in one transaction. Errors:
// engine.ErrTryAgain, or a fault of the file.
func (s *Store) Repair(ctx context.Context, m engine.RepairRequest) (done bool, err error) {
	err = s.db.Write(ctx, "repair", func(ctx context.Context, w *sqlite.Statements) error {
		if done, err = holds(ctx, w, m); err != nil || !done {
			return err
		}
		done, err = change(ctx, w, m)
		return err
	})
	return done && err == nil, err
}

// holds reports that what the change rests on is so.
func holds(ctx context.Context, w *sqlite.Statements, m engine.RepairRequest) (bool, error) {
	switch {
	case m.IfRow != nil:
		row, err := readItemRow(ctx, w, m.Campaign, m.Hash[:])
		return row != nil && row.Generation == m.IfRow.Generation && row.State == m.IfRow.State && row.Returns == m.IfRow.Returns, err
	case m.IfClaim != nil:
		return is(ctx, w, selectIsClaim, m.IfClaim.Scope, m.IfClaim.Claimant, slot, m.IfClaim.ID, nil)
	default:
		return inBank(ctx, w, *m.IfFree)
	}
}

func change(ctx context.Context, w *sqlite.Statements, m engine.RepairRequest) (bool, error) {
	switch {
	case m.PutFree != nil:
		i := *m.PutFree
		if there, err := inBank(ctx, w, i); there || err != nil {
			return false, err
		}
		if m.IfRow != nil {
			if _, err := w.Exec(ctx, updateReturns, m.Campaign, m.Hash[:]); err != nil {
				return false, err
			}
		}
		_, err := w.Exec(ctx, insertFree, i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:], i.Value, sqlite.Millis(i.EndsAt))
		return true, err
	case m.DropFree != nil:
		s := m.DropFree.Shard
		n, err := w.Exec(ctx, deleteFree, s.Campaign, s.Generation, s.Number, m.DropFree.Hash[:])
		return n == 1, err
	default:
		r := m.PutRow
		n, err := w.Exec(ctx, insertRow, m.Campaign, m.Hash[:], r.LoadID, r.Row, r.Generation, sqlite.Millis(r.EndsAt))
		return n == 1, err
	}
}

func inBank(ctx context.Context, on *sqlite.Statements, i engine.FreeItem) (bool, error) {
	return is(ctx, on, selectInBank, i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:], nil)
}

const insertRow = `INSERT INTO item (campaign, hash, load_id, row, generation, ends_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
