package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The functions of this file keep to the rate of WithRate.

// eachClaim calls do for every claim of a scope.
func (b *Bank) eachClaim(ctx context.Context, scope string, do func(engine.Claim) error) error {
	for cursor := ""; ; {
		claims, next, err := b.store.ListClaims(ctx, scope, cursor)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if err := b.pace(ctx, 1); err != nil { // for each claim, because do may write
				return err
			}
			if err := do(claim); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// eachItemRow calls do for every item row of a campaign.
func (b *Bank) eachItemRow(ctx context.Context, campaign string, do func(engine.ListedItem) error) error {
	for cursor := ""; ; {
		rows, next, err := b.store.ListItemRows(ctx, campaign, cursor)
		if err != nil {
			return err
		}
		if err := b.pace(ctx, len(rows)); err != nil {
			return err
		}
		for _, row := range rows {
			if err := do(row); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// eachFreePage calls do for the free items of a campaign, page by page.
func (b *Bank) eachFreePage(ctx context.Context, c Campaign, do func([]engine.FreeItem) error) error {
	for n := range c.Shards {
		scan := scanAll(engine.Shard{Campaign: c.Name, Number: n})
		for !scan.done() {
			items, err := scan.next(ctx, b.store, listPage)
			if err != nil {
				return err
			}
			if err := b.pace(ctx, len(items)); err != nil {
				return err
			}
			if err := do(items); err != nil {
				return err
			}
		}
	}
	return nil
}

// itemRow reads the row of one item; nil: it is absent.
func (b *Bank) itemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	rows, err := b.store.ItemRows(ctx, campaign, []engine.Hash{h}, engine.Strong)
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// itemRowsOf reads the item rows of at most MaxItemRows items. The result has no row for an item that was never
// loaded.
func (b *Bank) itemRowsOf(
	ctx context.Context, campaign string, items []engine.Hash,
) (map[engine.Hash]engine.ItemRow, error) {
	if err := b.pace(ctx, len(items)); err != nil {
		return nil, err
	}
	rows, err := b.store.ItemRows(ctx, campaign, items, engine.Strong)
	if err != nil {
		return nil, err
	}
	found := make(map[engine.Hash]engine.ItemRow, len(items))
	for i, row := range rows {
		if row != nil {
			found[items[i]] = *row
		}
	}
	return found, nil
}
