package sqlitestore

import (
	"context"
	"testing"

	"github.com/oncebox/oncebox/pkg/itembank"
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

func (r raw) PutBankRow(ctx context.Context, i itembank.FreeItem) error {
	return r.store.exec(ctx, `INSERT OR REPLACE INTO bank (campaign, generation, shard, hash, item) VALUES (?, ?, ?, ?, ?)`,
		i.Shard.Campaign, i.Shard.Generation, i.Shard.Number, i.Hash[:], i.Value)
}

func (r raw) DropItemRow(ctx context.Context, campaign string, h itembank.Hash) error {
	return r.store.exec(ctx, `DELETE FROM item WHERE campaign = ? AND hash = ?`, campaign, h[:])
}

func (r raw) DropClaim(ctx context.Context, scope, claimant string) error {
	return r.store.exec(ctx, `DELETE FROM claim WHERE scope = ? AND claimant = ?`, scope, claimant)
}
