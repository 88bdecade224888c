package itembankengines

import (
	"context"
	"database/sql"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// SQLRaw writes single rows of package sqlitestore. It executes SQL statements.
type SQLRaw func(ctx context.Context, query string, args ...any) error

// openSQLRaw opens a file as a program that does not know the rules of its rows.
func openSQLRaw(t testing.TB, path string) SQLRaw {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_busy_timeout=60000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return func(ctx context.Context, query string, args ...any) error {
		_, err := db.ExecContext(ctx, query, args...)
		return err
	}
}

// PutBankRow puts or replaces a bank row.
func (r SQLRaw) PutBankRow(ctx context.Context, i engine.FreeItem) error {
	return r(ctx, `INSERT OR REPLACE INTO bank (campaign, shard, hash, item, ends_at) VALUES (?, ?, ?, ?, ?)`,
		i.Shard.Campaign, i.Shard.Number, i.Hash[:], i.Value, sqlite.Millis(i.EndsAt))
}

// DropBankRow deletes a bank row, if it exists.
func (r SQLRaw) DropBankRow(ctx context.Context, i engine.FreeItem) error {
	return r(ctx, `DELETE FROM bank WHERE campaign = ? AND shard = ? AND hash = ?`,
		i.Shard.Campaign, i.Shard.Number, i.Hash[:])
}

// PutItemRow puts or replaces an item row.
func (r SQLRaw) PutItemRow(ctx context.Context, campaign string, i engine.ListedItem) error {
	return r(ctx, `INSERT OR REPLACE INTO item (campaign, hash, load_id, row, ends_at, state, returns, withdraw, columns)
		VALUES (?, ?, ?, ?, ?, nullif(?, ''), ?, ?, ?)`,
		campaign, i.Hash[:], i.LoadID, i.Row, sqlite.Millis(i.EndsAt), string(i.State), i.Returns, i.Withdraw, i.Columns)
}

// DropItemRow deletes an item row, if it exists.
func (r SQLRaw) DropItemRow(ctx context.Context, campaign string, h engine.Hash) error {
	return r(ctx, `DELETE FROM item WHERE campaign = ? AND hash = ?`, campaign, h[:])
}

// PutClaim puts or replaces a claim row.
func (r SQLRaw) PutClaim(ctx context.Context, c engine.Claim) error {
	return r(ctx, `INSERT OR REPLACE INTO claim (scope, claimant, slot, id, campaign, shard, item, item_hash, more, claimed_at, ends_at)
		VALUES (?, ?, ?, ?, ?, -1, ?, ?, ?, ?, ?)`,
		c.Scope, c.Claimant, c.Slot, c.ID, c.Campaign, c.Item, c.ItemHash[:], string(c.More), sqlite.Millis(c.ClaimedAt), sqlite.Millis(c.EndsAt))
}

// DropClaim deletes a claim row, if it exists.
func (r SQLRaw) DropClaim(ctx context.Context, k engine.ClaimKey) error {
	return r(ctx, `DELETE FROM claim WHERE scope = ? AND claimant = ? AND slot = ?`, k.Scope, k.Claimant, k.Slot)
}

// DropCampaign deletes the row of a campaign.
func (r SQLRaw) DropCampaign(ctx context.Context, name string) error {
	return r(ctx, `DELETE FROM campaign WHERE name = ?`, name)
}

// DropScope deletes the row of a scope, if it exists.
func (r SQLRaw) DropScope(ctx context.Context, name string) error {
	return r(ctx, `DELETE FROM scope WHERE name = ?`, name)
}
