package sqlitestore

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	// A missing bound of the range becomes a blob below or above every hash.
	selectFree = `SELECT hash, item, ends_at FROM bank
		WHERE campaign = ? AND shard = ?
			AND hash > coalesce(?, x'') AND hash <= coalesce(?, x'ffffffffffffffffffffffffffffffffff')
		ORDER BY hash LIMIT ?`

	fromClaim = `SELECT id, campaign, scope, claimant, slot, item, item_hash, more, claimed_at, ends_at FROM claim`

	selectClaim = fromClaim + ` WHERE scope = ? AND claimant = ? AND slot = ?`

	// An item whose end is at or before the parameter is not free.
	selectIsFree = `SELECT 1 FROM bank WHERE campaign = ? AND shard = ? AND hash = ?
		AND (ends_at IS NULL OR ends_at > ?)`

	deleteFree = `DELETE FROM bank WHERE campaign = ? AND shard = ? AND hash = ?`

	insertClaim = `INSERT INTO claim
		(scope, claimant, slot, id, campaign, shard, item, item_hash, more, claimed_at, ends_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// FreeItems returns up to limit bank rows of the shard in the order of their hashes. More is exact: it says whether the
// range has other rows.
func (s *Store) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, _ engine.Consistency,
) (engine.FreePage, error) {
	var page engine.FreePage
	a := sqlite.Args{shard.Campaign, shard.Number, blob(r.After), blob(r.Through), limit + 1}
	err := s.db.Read(ctx, "read the bank", func(ctx context.Context, on *sqlite.Statements) error {
		return on.Each(ctx, selectFree, a, func(scan func(...any) error) error {
			item := engine.FreeItem{Shard: shard}
			err := scan(sqlite.IntoBytes(item.Hash[:]), &item.Value, sqlite.IntoTime(&item.EndsAt))
			page.Items = append(page.Items, item)
			return err
		})
	})
	if err != nil {
		return engine.FreePage{}, err
	}
	if page.More = len(page.Items) > limit; page.More {
		page.Items = page.Items[:limit]
	}
	return page, nil
}

// Take deletes the bank rows and puts the claim row if the items are free and the claimant has no claim in the slot.
// Otherwise it changes nothing and reports both conditions.
func (s *Store) Take(
	ctx context.Context, items []engine.FreeItem, claim engine.Claim,
) (result engine.TakeResult, err error) {
	err = s.db.Write(ctx, "take", func(ctx context.Context, w *sqlite.Statements) error {
		result, err = take(ctx, w, items, claim)
		return err
	})
	return result, err
}

// take tests both conditions and then writes, in one transaction.
func take(
	ctx context.Context, w *sqlite.Statements, items []engine.FreeItem, claim engine.Claim,
) (result engine.TakeResult, err error) {
	if result.Held, err = readClaim(ctx, w, claim.Key()); err != nil {
		return result, err
	}
	for _, item := range items {
		free, err := isFree(ctx, w, item, claim.ClaimedAt)
		if err != nil {
			return result, err
		}
		result.ItemGone = result.ItemGone || !free
	}
	if !result.Taken() {
		return result, nil
	}
	for _, item := range items {
		if _, err = w.Exec(ctx, deleteFree, bankKey(item)...); err != nil {
			return result, err
		}
	}
	var shard engine.Shard // a block has no item, and no shard
	if len(items) > 0 {
		shard = items[0].Shard
	}
	return result, putClaim(ctx, w, claim, shard)
}

// isFree reports whether an item is in the bank and has not ended at time t.
func isFree(ctx context.Context, w *sqlite.Statements, item engine.FreeItem, t time.Time) (bool, error) {
	return exists(ctx, w, selectIsFree, append(bankKey(item), sqlite.Millis(t))...)
}

// putClaim puts an absent claim row. shard is the shard of its first item.
func putClaim(ctx context.Context, w *sqlite.Statements, claim engine.Claim, shard engine.Shard) error {
	_, err := w.Exec(ctx, insertClaim, claim.Scope, claim.Claimant, claim.Slot, claim.ID, claim.Campaign,
		shard.Number, claim.Item, claim.ItemHash[:], string(claim.More), sqlite.Millis(claim.ClaimedAt), sqlite.Millis(claim.EndsAt))
	return err
}

// HeldClaim reads the claim row of a claimant in a scope. A transaction of SQLite becomes visible as
// a whole, so there is never a conflict.
func (s *Store) HeldClaim(
	ctx context.Context, key engine.ClaimKey, _ engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	err = s.db.Read(ctx, "read claim", func(ctx context.Context, r *sqlite.Statements) error {
		held, err = readClaim(ctx, r, key)
		return err
	})
	return held, false, err
}

func readClaim(ctx context.Context, on *sqlite.Statements, key engine.ClaimKey) (*engine.Claim, error) {
	var c engine.Claim
	found, err := on.One(ctx, selectClaim, claimKey(key), intoClaim(&c)...)
	if err != nil || !found {
		return nil, err
	}
	return &c, nil
}

func intoClaim(c *engine.Claim) []any {
	return []any{
		&c.ID, &c.Campaign, &c.Scope, &c.Claimant, &c.Slot,
		&c.Item, sqlite.IntoBytes(c.ItemHash[:]), &c.More, sqlite.IntoTime(&c.ClaimedAt), sqlite.IntoTime(&c.EndsAt),
	}
}

// claimKey returns the key columns of a claim row.
func claimKey(k engine.ClaimKey) sqlite.Args { return sqlite.Args{k.Scope, k.Claimant, k.Slot} }

// bankKey returns the key columns of a bank row.
func bankKey(i engine.FreeItem) sqlite.Args {
	return sqlite.Args{i.Shard.Campaign, i.Shard.Number, i.Hash[:]}
}

// putFree puts a bank row that is absent.
func putFree(ctx context.Context, w *sqlite.Statements, i engine.FreeItem) error {
	_, err := w.Exec(ctx, insertFree, append(bankKey(i), i.Value, sqlite.Millis(i.EndsAt))...)
	return err
}

// blob returns the column of a hash: NULL for nil.
func blob(h *engine.Hash) []byte {
	if h == nil {
		return nil
	}
	return h[:]
}
