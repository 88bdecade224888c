package sqlitestore

import (
	"context"
	"testing"

	"github.com/oncebox/oncebox/internal/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

func TestConformance(t *testing.T) { itembanktest.Run(t, newEngine) }
func TestMutants(t *testing.T)     { itembanktest.RunMutants(t, newEngine) }

func newEngine(t *testing.T) itembanktest.Engine {
	s, err := Create(t.Context(), inTemp(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return itembanktest.Engine{Store: s, Raw: raw{s}}
}

// raw writes single rows without conditions.
type raw struct{ store *Store }

func (r raw) PutBankRow(ctx context.Context, i engine.FreeItem) error {
	return r.store.exec(ctx, `INSERT OR REPLACE INTO bank (campaign, generation, shard, hash, item, ends_at) VALUES (?, ?, ?, ?, ?, ?)`,
		i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:], i.Value, sqlite.Millis(i.EndsAt))
}

func (r raw) DropBankRow(ctx context.Context, i engine.FreeItem) error {
	return r.store.exec(ctx, deleteFree, i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:])
}

func (r raw) PutItemRow(ctx context.Context, campaign string, i engine.ListedItem) error {
	return r.store.exec(ctx, `INSERT OR REPLACE INTO item (campaign, hash, load_id, row, generation, ends_at, state, returns)
		VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''), ?)`,
		campaign, i.Hash[:], i.LoadID, i.Row, i.Generation, sqlite.Millis(i.EndsAt), i.State, i.Returns)
}

func (r raw) DropItemRow(ctx context.Context, campaign string, h engine.Hash) error {
	return r.store.exec(ctx, `DELETE FROM item WHERE campaign = ? AND hash = ?`, campaign, h[:])
}

func (r raw) PutClaim(ctx context.Context, c engine.Claim) error {
	return r.store.exec(ctx, `INSERT OR REPLACE INTO claim (scope, claimant, slot, id, campaign, item, item_hash, claimed_at, ends_at)
		VALUES (?, ?, 1, ?, ?, ?, ?, ?, ?)`,
		c.Scope, c.Claimant, c.ID, c.Campaign, c.Item, c.ItemHash[:], sqlite.Millis(c.ClaimedAt), sqlite.Millis(c.EndsAt))
}

func (r raw) DropClaim(ctx context.Context, scope, claimant string) error {
	return r.store.exec(ctx, `DELETE FROM claim WHERE scope = ? AND claimant = ?`, scope, claimant)
}
