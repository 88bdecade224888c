package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// slot is the only one while a claimant has one claim in a scope.
const slot = 1

const (
	// An absent end of the range is replaced by a blob below or above every hash.
	selectFree = `SELECT hash, item, ends_at FROM bank
		WHERE campaign = ? AND generation = ? AND shard = ?
			AND hash > coalesce(?, x'') AND hash <= coalesce(?, x'ffffffffffffffffffffffffffffffffff')
		ORDER BY hash LIMIT ?`

	selectClaim = `SELECT id, campaign, scope, claimant, item, item_hash, claimed_at, ends_at
		FROM claim WHERE scope = ? AND claimant = ? AND slot = ?`

	selectIsFree = `SELECT 1 FROM bank WHERE campaign = ? AND generation = ? AND shard = ? AND hash = ?`

	deleteFree = `DELETE FROM bank WHERE campaign = ? AND generation = ? AND shard = ? AND hash = ?`

	insertClaim = `INSERT INTO claim
		(scope, claimant, slot, id, campaign, item, item_hash, claimed_at, ends_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// FreeItems returns up to limit free items of the shard in order of their
// hashes; More says exactly whether the range holds others. Errors:
// itembank.ErrTryAgain, or a fault of the file.
func (s *Store) FreeItems(ctx context.Context, shard itembank.Shard, r itembank.Range, limit int) (itembank.FreePage, error) {
	var page itembank.FreePage
	a := args{shard.Campaign, shard.Generation, shard.Number, blob(r.After), blob(r.Through), limit + 1}
	err := s.reader.each(ctx, selectFree, a, func(scan func(...any) error) error {
		item := itembank.FreeItem{Shard: shard}
		err := scan(intoHash{&item.Hash}, &item.Value, intoTime{&item.EndsAt})
		page.Items = append(page.Items, item)
		return err
	})
	if err != nil {
		return itembank.FreePage{}, s.wrap("read the bank", err)
	}
	if page.More = len(page.Items) > limit; page.More {
		page.Items = page.Items[:limit]
	}
	return page, nil
}

// Take moves the item to the claimant, if it is in the bank and the claimant
// has no claim in the scope. Else it writes nothing and reports both. Safe to
// repeat: after an answer that was lost, the claim is found. Errors: as FreeItems.
func (s *Store) Take(ctx context.Context, item itembank.FreeItem, claim itembank.Claim) (found itembank.Evidence, err error) {
	err = s.write(ctx, "take", func(ctx context.Context, w *statements) error {
		found, err = take(ctx, w, item, claim)
		return err
	})
	return found, err
}

// take looks first, in the same transaction as it writes.
func take(ctx context.Context, w *statements, item itembank.FreeItem, claim itembank.Claim) (found itembank.Evidence, err error) {
	if found.Held, err = readClaim(ctx, w, claim.Scope, claim.Claimant); err != nil {
		return found, err
	}
	key := args{item.Shard.Campaign, item.Shard.Generation, item.Shard.Number, item.Hash[:]}
	var free int
	if _, err = w.one(ctx, selectIsFree, key, &free); err != nil {
		return found, err
	}
	found.ItemGone = free == 0
	if !found.Taken() {
		return found, nil
	}
	if _, err = w.exec(ctx, deleteFree, key...); err != nil {
		return found, err
	}
	_, err = w.exec(ctx, insertClaim, claim.Scope, claim.Claimant, slot, claim.ID, claim.Campaign,
		claim.Item, claim.ItemHash[:], millis(claim.ClaimedAt), millis(claim.EndsAt))
	return found, err
}

// HeldClaim reads the claim of a claimant in a scope; nil if there is none.
// Errors: as FreeItems.
func (s *Store) HeldClaim(ctx context.Context, scope, claimant string) (*itembank.Claim, error) {
	c, err := readClaim(ctx, s.reader, scope, claimant)
	return c, s.wrap("read claim", err)
}

func readClaim(ctx context.Context, on *statements, scope, claimant string) (*itembank.Claim, error) {
	var c itembank.Claim
	found, err := on.one(ctx, selectClaim, args{scope, claimant, slot}, &c.ID, &c.Campaign, &c.Scope, &c.Claimant,
		&c.Item, intoHash{&c.ItemHash}, intoTime{&c.ClaimedAt}, intoTime{&c.EndsAt})
	if err != nil || !found {
		return nil, err
	}
	return &c, nil
}
