package memstore

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The methods of this file implement enginetest.Raw. They write and delete single rows of claims without a condition.
// Tests plant contradictions with them.

// PutBankRow puts or replaces a bank row.
func (s *Items) PutBankRow(ctx context.Context, item engine.FreeItem) error {
	return s.write(ctx, func() { s.addFree(item) })
}

// DropBankRow deletes a bank row, if it exists.
func (s *Items) DropBankRow(ctx context.Context, item engine.FreeItem) error {
	return s.write(ctx, func() {
		if s.freeItem(item) != nil {
			s.banks[item.Shard].remove(item.Hash)
		}
	})
}

// PutItemRow puts or replaces an item row.
func (s *Items) PutItemRow(ctx context.Context, campaign string, row engine.ListedItem) error {
	return s.write(ctx, func() { put(s.rows, campaign, row.Hash, row.ItemRow) })
}

// DropItemRow deletes an item row, if it exists.
func (s *Items) DropItemRow(ctx context.Context, campaign string, h engine.Hash) error {
	return s.write(ctx, func() { delete(s.rows[campaign], h) })
}

// PutClaim puts or replaces a claim row. DueClaims does not list it.
func (s *Items) PutClaim(ctx context.Context, claim engine.Claim) error {
	return s.write(ctx, func() { s.putClaim(claimRow{claim, noShard}) })
}

// DropClaim deletes a claim row, if it exists.
func (s *Items) DropClaim(ctx context.Context, key engine.ClaimKey) error {
	return s.write(ctx, func() { delete(s.claims[key.Scope], sortKey(key)) })
}

// DropCampaign deletes the row of a campaign.
func (s *Items) DropCampaign(ctx context.Context, name string) error {
	return s.write(ctx, func() { delete(s.campaigns, name) })
}

// DropScope deletes the row of a scope, if it exists.
func (s *Items) DropScope(ctx context.Context, name string) error {
	return s.write(ctx, func() { delete(s.scopes, name) })
}

func (s *Items) write(ctx context.Context, do func()) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	do()
	return nil
}
