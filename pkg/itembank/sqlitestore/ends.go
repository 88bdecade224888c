package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	// The end of the claim is tested only if the parameter is not NULL.
	selectIsClaim = `SELECT 1 FROM claim WHERE scope = ? AND claimant = ? AND slot = ? AND id = ?
		AND (?5 IS NULL OR ends_at < ?5)`

	andIsHold = ` AND ends_at IS NOT NULL`

	andEndsAt = ` AND ends_at IS ?6`

	deleteClaim = `DELETE FROM claim WHERE scope = ? AND claimant = ? AND slot = ?`

	selectInBank = `SELECT 1 FROM bank WHERE campaign = ? AND shard = ? AND hash = ?
		AND (?4 IS NULL OR ends_at <= ?4)`

	selectBankRow = `SELECT item, ends_at FROM bank WHERE campaign = ? AND shard = ? AND hash = ?`

	updateState = `UPDATE item SET state = ? WHERE campaign = ? AND hash = ? AND state IS NULL`

	updateWithdraw = `UPDATE item SET withdraw = 1 WHERE campaign = ? AND hash = ? AND state IS NULL`

	updateReturns = `UPDATE item SET returns = returns + 1 WHERE campaign = ? AND hash = ?`
)

// ItemRow reads an item row.
func (s *Store) ItemRow(ctx context.Context, campaign string, h engine.Hash) (row *engine.ItemRow, err error) {
	err = s.db.Read(ctx, "read item", func(ctx context.Context, r *sqlite.Statements) error {
		row, err = readItemRow(ctx, r, campaign, h[:])
		return err
	})
	return row, err
}

// ItemRows reads item rows, all at one moment.
func (s *Store) ItemRows(
	ctx context.Context, campaign string, hashes []engine.Hash, _ engine.Consistency,
) ([]*engine.ItemRow, error) {
	rows := make([]*engine.ItemRow, len(hashes))
	err := s.db.ReadSnapshot(ctx, "read items", func(ctx context.Context, r *sqlite.Statements) (err error) {
		for i, h := range hashes {
			if rows[i], err = readItemRow(ctx, r, campaign, h[:]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// ReadItems reads the rows of all items at one moment. It never conflicts.
func (s *Store) ReadItems(ctx context.Context, keys []engine.FreeItem) (reads []engine.ItemRead, err error) {
	err = s.db.ReadSnapshot(ctx, "read items", func(ctx context.Context, r *sqlite.Statements) error {
		reads = make([]engine.ItemRead, len(keys))
		for i, key := range keys {
			if reads[i].Row, err = readItemRow(ctx, r, key.Shard.Campaign, key.Hash[:]); err != nil {
				return err
			}
			if reads[i].Free, err = readBankRow(ctx, r, key); err != nil {
				return err
			}
		}
		return nil
	})
	return reads, err
}

func readBankRow(ctx context.Context, r *sqlite.Statements, key engine.FreeItem) (*engine.FreeItem, error) {
	row := engine.FreeItem{Shard: key.Shard, Hash: key.Hash}
	found, err := r.One(ctx, selectBankRow, bankKey(key), &row.Value, sqlite.IntoTime(&row.EndsAt))
	if err != nil || !found {
		return nil, err
	}
	return &row, nil
}

// CloseClaim deletes a claim row, or puts another row in its place, and returns or ends its items if all conditions
// hold. Otherwise it changes nothing and reports every condition that failed.
func (s *Store) CloseClaim(ctx context.Context, r engine.CloseRequest) (result engine.CloseResult, err error) {
	err = s.db.Write(ctx, "close claim", func(ctx context.Context, w *sqlite.Statements) error {
		result, err = closeClaim(ctx, w, r)
		return err
	})
	return result, err
}

// closeClaim tests all conditions and then writes, in one transaction.
func closeClaim(
	ctx context.Context, w *sqlite.Statements, r engine.CloseRequest,
) (result engine.CloseResult, err error) {
	claim := r.Claim
	there, err := isClaim(ctx, w, r)
	if err != nil {
		return result, err
	}
	result.ClaimChanged = !there
	if r.NextItem != nil {
		free, err := isFree(ctx, w, *r.NextItem, r.Next.ClaimedAt)
		if err != nil {
			return result, err
		}
		result.ItemGone = !free
	}
	for _, item := range r.Items() {
		row, err := readItemRow(ctx, w, claim.Campaign, item.Hash[:])
		if err != nil {
			return result, err
		}
		if row == nil || row.State != item.Row.State || row.Withdraw != item.Row.Withdraw {
			result.ItemChanged = true
		}
		if item.Return == nil {
			continue
		}
		free, err := inBank(ctx, w, *item.Return)
		if err != nil {
			return result, err
		}
		result.ItemFree = result.ItemFree || free
	}
	if !result.Closed() {
		return result, nil
	}
	if _, err := w.Exec(ctx, deleteClaim, claimKey(claim.Key())...); err != nil {
		return result, err
	}
	if r.Next != nil {
		if err := putNext(ctx, w, r); err != nil {
			return result, err
		}
	}
	for _, item := range r.Items() {
		if err := closeItem(ctx, w, claim.Campaign, item); err != nil {
			return result, err
		}
	}
	return result, nil
}

// isClaim reports whether the claim row is as a request to close it says.
func isClaim(ctx context.Context, w *sqlite.Statements, r engine.CloseRequest) (bool, error) {
	query, args := selectIsClaim, append(claimKey(r.Claim.Key()), r.Claim.ID, sqlite.Millis(r.EndedBy))
	if r.IfHold {
		query += andIsHold
	}
	if r.NextItem != nil {
		query, args = query+andEndsAt, append(args, sqlite.Millis(r.Claim.EndsAt))
	}
	return exists(ctx, w, query, args...)
}

// putNext puts the row that replaces a claim row, and takes its item from the bank.
func putNext(ctx context.Context, w *sqlite.Statements, r engine.CloseRequest) error {
	var shard engine.Shard // a block has no item, and no shard
	if r.NextItem != nil {
		shard = r.NextItem.Shard
		if _, err := w.Exec(ctx, deleteFree, bankKey(*r.NextItem)...); err != nil {
			return err
		}
	}
	return putClaim(ctx, w, *r.Next, shard)
}

// closeItem returns or ends an item of a claim that is closed.
func closeItem(ctx context.Context, w *sqlite.Statements, campaign string, item engine.CloseItem) error {
	if item.Return == nil {
		_, err := w.Exec(ctx, updateState, item.State, campaign, item.Hash[:])
		return err
	}
	if _, err := w.Exec(ctx, updateReturns, campaign, item.Hash[:]); err != nil {
		return err
	}
	return putFree(ctx, w, *item.Return)
}

// EndItems ends items in one transaction. It settles every request.
func (s *Store) EndItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	results := make([]engine.EndResult, len(requests))
	err := s.db.Write(ctx, "end items", func(ctx context.Context, w *sqlite.Statements) (err error) {
		for i, r := range requests {
			if results[i], err = endItem(ctx, w, r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return results, nil
}

func endItem(ctx context.Context, w *sqlite.Statements, r engine.EndRequest) (engine.EndResult, error) {
	free, err := exists(ctx, w, selectInBank, append(bankKey(r.Item), sqlite.Millis(r.EndedBy))...)
	if err != nil || !free {
		return engine.EndNotFree, err
	}
	n, err := w.Exec(ctx, updateState, r.State, r.Item.Shard.Campaign, r.Item.Hash[:])
	if err != nil || n == 0 {
		return engine.EndInconsistent, err
	}
	_, err = w.Exec(ctx, deleteFree, bankKey(r.Item)...)
	return engine.EndDone, err
}

// MarkWithdrawn marks the row of an item that is not in the bank.
func (s *Store) MarkWithdrawn(ctx context.Context, item engine.FreeItem) (done bool, err error) {
	err = s.db.Write(ctx, "mark item", func(ctx context.Context, w *sqlite.Statements) error {
		if free, err := inBank(ctx, w, item); free || err != nil {
			return err
		}
		n, err := w.Exec(ctx, updateWithdraw, item.Shard.Campaign, item.Hash[:])
		done = n == 1
		return err
	})
	return done && err == nil, err
}

// exists reports whether a query returns a row.
func exists(ctx context.Context, on *sqlite.Statements, query string, args ...any) (bool, error) {
	var one int
	return on.One(ctx, query, args, &one)
}
