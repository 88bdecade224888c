package sqlitestore

import (
	"context"

	"github.com/oncebox/oncebox/internal/shared/sqlite"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

const (
	insertCampaign = `INSERT INTO campaign
		(name, mode, opens_at, closes_at, scope, shards, page_size, created_at, item_life, claim_life, hold, max_hold, on_end, version, empty_version,
		claimants, per_claimant, choice, max_items, publish, columns, moved, restored)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	fromCampaign = `SELECT name, mode, opens_at, closes_at, scope, shards, page_size, created_at,
		item_life, claim_life, hold, max_hold, on_end, version, empty_version,
		claimants, per_claimant, choice, max_items, publish, columns, moved, restored FROM campaign`

	selectCampaigns = fromCampaign + ` WHERE mode <> ? ORDER BY name`
	selectCampaign  = fromCampaign + ` WHERE name = ?`

	insertScope = `INSERT INTO scope (name, claimants, sole) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	selectScope = `SELECT name, claimants, sole FROM scope WHERE name = ?`

	countUpVersion = `UPDATE campaign SET version = version + 1 WHERE name = ?`

	// One statement counts all rows at one moment.
	selectCounts = `SELECT
		(SELECT count(*)     FROM item  WHERE campaign = ?1),
		(SELECT count(*)     FROM bank  WHERE campaign = ?1),
		(SELECT coalesce(sum(1 + length(more) - length(replace(more, char(10), ''))), 0) FROM claim WHERE campaign = ?1),
		(SELECT count(state) FROM item  WHERE campaign = ?1)`
)

// CreateCampaign puts a campaign row and the row of its scope in one transaction. If it cannot, the result has all
// existing rows that prevent it.
func (s *Store) CreateCampaign(ctx context.Context, c engine.Campaign) (result engine.CreateResult, err error) {
	scope := c.ScopeRow()
	err = s.db.Write(ctx, "create campaign", func(ctx context.Context, w *sqlite.Statements) error {
		old, err := readCampaign(ctx, w, c.Name)
		if err != nil {
			return err
		}
		again := old != nil && old.CanBecome(c)
		if !again {
			result.Existing = old
		}
		there, err := readScope(ctx, w, scope.Name)
		if err != nil {
			return err
		}
		if there != nil && *there != scope {
			result.Scope = there
		}
		if !result.Created() {
			return nil
		}
		if _, err := w.Exec(ctx, insertScope, scope.Name, scope.Claimants, scope.Sole); err != nil {
			return err
		}
		if again {
			if _, err := w.Exec(ctx, `DELETE FROM campaign WHERE name = ?`, c.Name); err != nil {
				return err
			}
		}
		return putCampaign(ctx, w, c)
	})
	return result, err
}

func readScope(ctx context.Context, on *sqlite.Statements, name string) (*engine.Scope, error) {
	var scope engine.Scope
	found, err := on.One(ctx, selectScope, sqlite.Args{name}, &scope.Name, &scope.Claimants, &scope.Sole)
	if err != nil || !found {
		return nil, err
	}
	return &scope, nil
}

func putCampaign(ctx context.Context, w *sqlite.Statements, c engine.Campaign) error {
	_, err := w.Exec(ctx, insertCampaign, c.Name, c.Mode, sqlite.Millis(c.OpensAt), sqlite.Millis(c.ClosesAt),
		c.Scope, c.Shards, c.PageSize, sqlite.Millis(c.CreatedAt),
		c.ItemLife.Milliseconds(), c.ClaimLife.Milliseconds(), c.Hold.Milliseconds(), c.MaxHold.Milliseconds(),
		c.OnEnd, c.Version, c.EmptyVersion,
		c.Claimants, c.PerClaimant, c.Choice, c.MaxItems, c.Publish, c.Columns, c.Moved, c.Restored)
	return err
}

// Campaign reads a campaign row.
func (s *Store) Campaign(ctx context.Context, name string) (c *engine.Campaign, err error) {
	err = s.db.Read(ctx, "read campaign", func(ctx context.Context, r *sqlite.Statements) error {
		c, err = readCampaign(ctx, r, name)
		return err
	})
	return c, err
}

func readCampaign(ctx context.Context, on *sqlite.Statements, name string) (*engine.Campaign, error) {
	var c engine.Campaign
	found, err := on.One(ctx, selectCampaign, sqlite.Args{name}, intoCampaign(&c)...)
	if err != nil || !found {
		return nil, err
	}
	return &c, nil
}

// Campaigns lists the campaigns in the order of the bytes of their names, without deleted ones.
func (s *Store) Campaigns(ctx context.Context) ([]engine.Campaign, error) {
	var all []engine.Campaign
	err := s.db.Read(ctx, "list campaigns", func(ctx context.Context, r *sqlite.Statements) error {
		return r.Each(ctx, selectCampaigns, sqlite.Args{engine.Deleted}, func(scan func(...any) error) error {
			var c engine.Campaign
			err := scan(intoCampaign(&c)...)
			all = append(all, c)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

func intoCampaign(c *engine.Campaign) []any {
	return []any{
		&c.Name, &c.Mode, sqlite.IntoTime(&c.OpensAt), sqlite.IntoTime(&c.ClosesAt),
		&c.Scope, &c.Shards, &c.PageSize, sqlite.IntoTime(&c.CreatedAt),
		sqlite.IntoDuration(&c.ItemLife), sqlite.IntoDuration(&c.ClaimLife), sqlite.IntoDuration(&c.Hold),
		sqlite.IntoDuration(&c.MaxHold), &c.OnEnd, &c.Version, &c.EmptyVersion,
		&c.Claimants, &c.PerClaimant, &c.Choice, &c.MaxItems, &c.Publish, &c.Columns, &c.Moved, &c.Restored,
	}
}

// ReplaceCampaign replaces a campaign row that has the versions of old by now. If now is deleted, it also deletes the
// page.
func (s *Store) ReplaceCampaign(ctx context.Context, old, now engine.Campaign) (replaced bool, err error) {
	err = s.db.Write(ctx, "replace campaign", func(ctx context.Context, w *sqlite.Statements) error {
		n, err := w.Exec(ctx, `DELETE FROM campaign WHERE name = ? AND version = ? AND empty_version = ?`,
			now.Name, old.Version, old.EmptyVersion)
		if replaced = n == 1; err != nil || !replaced {
			return err
		}
		if now.Mode == engine.Deleted {
			if err := deletePage(ctx, w, now.Name); err != nil {
				return err
			}
		}
		return putCampaign(ctx, w, now)
	})
	return replaced, err
}

// NextVersion raises the version of a campaign row by 1.
func (s *Store) NextVersion(ctx context.Context, campaign string) (c *engine.Campaign, err error) {
	err = s.db.Write(ctx, "count up version", func(ctx context.Context, w *sqlite.Statements) error {
		if _, err := w.Exec(ctx, countUpVersion, campaign); err != nil {
			return err
		}
		c, err = readCampaign(ctx, w, campaign)
		return err
	})
	return c, err
}

// MarkEmpty writes the EmptyVersion of a campaign row that has the version.
func (s *Store) MarkEmpty(ctx context.Context, campaign string, version int64) (marked bool, err error) {
	err = s.db.Write(ctx, "mark as empty", func(ctx context.Context, w *sqlite.Statements) error {
		n, err := w.Exec(ctx, `UPDATE campaign SET empty_version = ?2 WHERE name = ?1 AND version = ?2`, campaign, version)
		marked = n == 1
		return err
	})
	return marked, err
}

// Counts counts the rows of a campaign at one moment, whatever consistent is. It reads all of them, and blocks no
// writer.
func (s *Store) Counts(ctx context.Context, c engine.Campaign, _ engine.Consistency) (n engine.Counts, err error) {
	err = s.db.Read(ctx, "count", func(ctx context.Context, r *sqlite.Statements) error {
		_, err := r.One(ctx, selectCounts, sqlite.Args{c.Name}, &n.Loaded, &n.Free, &n.Claimed, &n.Ended)
		return err
	})
	return n, err
}
