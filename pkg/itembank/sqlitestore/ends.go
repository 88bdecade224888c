package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	// The end of a claim is tested only where a bound is given.
	selectIsClaim = `SELECT 1 FROM claim WHERE scope = ? AND claimant = ? AND slot = ? AND id = ?
		AND (?5 IS NULL OR ends_at < ?5)`

	deleteClaim = `DELETE FROM claim WHERE scope = ? AND claimant = ? AND slot = ?`

	selectInBank = `SELECT 1 FROM bank WHERE campaign = ? AND generation = ? AND shard = ? AND hash = ?
		AND (?5 IS NULL OR ends_at <= ?5)`

	updateState = `UPDATE item SET state = ? WHERE campaign = ? AND hash = ? AND state IS NULL`

	updateReturns = `UPDATE item SET returns = returns + 1 WHERE campaign = ? AND hash = ?`
)

// ItemRow reads the row of an item; nil if it was never loaded. Errors:
// engine.ErrTryAgain, or a fault of the file.
func (s *Store) ItemRow(ctx context.Context, campaign string, h engine.Hash) (row *engine.ItemRow, err error) {
	err = s.db.Read(ctx, "read item", func(ctx context.Context, r *sqlite.Statements) error {
		row, err = readItemRow(ctx, r, campaign, h[:])
		return err
	})
	return row, err
}

// CloseClaim deletes a claim, if it is still the one, and returns or ends its
// item. Else it writes nothing and says why. Repeated, it finds the claim
// changed. Errors: as ItemRow.
func (s *Store) CloseClaim(ctx context.Context, c engine.CloseRequest) (found engine.CloseResult, err error) {
	err = s.db.Write(ctx, "close claim", func(ctx context.Context, w *sqlite.Statements) error {
		found, err = closeClaim(ctx, w, c)
		return err
	})
	return found, err
}

// closeClaim looks first, in the same transaction as it writes.
func closeClaim(ctx context.Context, w *sqlite.Statements, c engine.CloseRequest) (found engine.CloseResult, err error) {
	claim := c.Claim
	there, err := is(ctx, w, selectIsClaim, claim.Scope, claim.Claimant, slot, claim.ID, sqlite.Millis(c.EndedBy))
	if err != nil {
		return found, err
	}
	row, err := readItemRow(ctx, w, claim.Campaign, claim.ItemHash[:])
	if err != nil {
		return found, err
	}
	found.ClaimChanged = !there
	var marked engine.ItemState
	if c.Marked {
		marked = c.State
	}
	found.ItemChanged = row == nil || row.Generation != c.Generation || row.State != marked
	if i := c.Return; i != nil {
		found.ItemFree, err = is(ctx, w, selectInBank, i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:], nil)
		if err != nil {
			return found, err
		}
	}
	if !found.Closed() {
		return found, nil
	}
	if _, err := w.Exec(ctx, deleteClaim, claim.Scope, claim.Claimant, slot); err != nil {
		return found, err
	}
	if c.Return == nil {
		_, err = w.Exec(ctx, updateState, c.State, claim.Campaign, claim.ItemHash[:])
		return found, err
	}
	if _, err := w.Exec(ctx, updateReturns, claim.Campaign, claim.ItemHash[:]); err != nil {
		return found, err
	}
	i := c.Return
	_, err = w.Exec(ctx, insertFree, i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:], i.Value, sqlite.Millis(i.EndsAt))
	return found, err
}

// EndItems ends items in one transaction and answers every one: none is left
// engine.EndUnsettled. Repeated, it finds those that it ended not free. Errors: as
// ItemRow.
func (s *Store) EndItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	answers := make([]engine.EndResult, len(endings))
	err := s.db.Write(ctx, "end items", func(ctx context.Context, w *sqlite.Statements) (err error) {
		for i, e := range endings {
			if answers[i], err = endItem(ctx, w, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

func endItem(ctx context.Context, w *sqlite.Statements, e engine.EndRequest) (engine.EndResult, error) {
	shard, hash := e.Item.Shard, e.Item.Hash[:]
	free, err := is(ctx, w, selectInBank, shard.Campaign, shard.Generation, shard.Number, hash, sqlite.Millis(e.EndedBy))
	if err != nil || !free {
		return engine.EndNotFree, err
	}
	n, err := w.Exec(ctx, updateState, e.State, shard.Campaign, hash)
	if err != nil || n == 0 {
		return engine.EndInconsistent, err
	}
	_, err = w.Exec(ctx, deleteFree, shard.Campaign, shard.Generation, shard.Number, hash)
	return engine.EndDone, err
}

// is reports that a query finds a row.
func is(ctx context.Context, on *sqlite.Statements, query string, args ...any) (bool, error) {
	var one int
	return on.One(ctx, query, args, &one)
}
