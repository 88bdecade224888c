package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// eachClaim calls do for every claim of a scope.
func (b *Bank) eachClaim(ctx context.Context, scope string, do func(engine.Claim) error) error {
	for cursor := ""; ; {
		claims, next, err := b.store.ListClaims(ctx, scope, cursor)
		if err != nil {
			return err
		}
		for _, claim := range claims {
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
			if err := do(items); err != nil {
				return err
			}
		}
	}
	return nil
}
