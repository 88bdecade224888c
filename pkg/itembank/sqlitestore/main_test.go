package sqlitestore

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/sqlitetest"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

func TestMain(m *testing.M) {
	sqlitetest.Main(m, map[string]sqlitetest.Role{"claim everything": claimEverything})
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func inTemp(t *testing.T) string { return filepath.Join(t.TempDir(), "codes.db") }

// newStore makes a store with a campaign "c" of one shard and n items.
func newStore(t *testing.T, path string, n int, options ...Option) (*Store, engine.Campaign) {
	t.Helper()
	ctx := t.Context()
	s, err := Create(ctx, path, options...)
	check(t, err)
	t.Cleanup(func() { check(t, s.Close()) })
	bank := itembank.NewOperator(s)
	_, _, err = bank.CreateCampaign(ctx, "c", itembank.Settings{Shards: 1})
	check(t, err)
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("item-%06d", i)
	}
	if n > 0 {
		_, err = bank.Load(ctx, "c", itembank.Items(items...), nil)
		check(t, err)
	}
	c, err := s.Campaign(ctx, "c")
	check(t, err)
	return s, *c
}

// free returns up to limit free items of the store that newStore made.
func free(t *testing.T, s *Store, limit int) []engine.FreeItem {
	t.Helper()
	page, err := s.FreeItems(t.Context(), engine.Shard{Campaign: "c"}, engine.Range{}, limit, engine.Strong)
	check(t, err)
	return page.Items
}

// annsClaim returns ann's claim of an item.
func annsClaim(item engine.FreeItem) engine.Claim {
	return engine.Claim{
		ID: "id of ann", Campaign: "c", Scope: "c", Claimant: "ann", Slot: 1,
		Item: item.Value, ItemHash: item.Hash, ClaimedAt: time.UnixMilli(1000).UTC(),
	}
}
