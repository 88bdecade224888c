package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The functions of this file keep to the rate of WithRate.

// eachClaim calls do for every claim of a scope.
func (b *Operator) eachClaim(ctx context.Context, scope string, do func(engine.Claim) error) error {
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
func (b *Operator) eachItemRow(ctx context.Context, campaign string, do func(engine.ListedItem) error) error {
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
func (b *Operator) eachFreePage(ctx context.Context, c Campaign, do func([]engine.FreeItem) error) error {
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

// itemRowsOf reads the item rows of at most MaxItemRows items. The result has no row for an item that was never
// loaded.
func (b *Operator) itemRowsOf(
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

func (b *Operator) endItems(ctx context.Context, requests []engine.EndRequest) ([]engine.EndResult, error) {
	settled := func(r engine.EndResult) bool { return r != engine.EndUnsettled }
	return sendAll(ctx, b, requests, b.store.EndItems, settled)
}

// sendAll sends a batch until every request in it is settled. A transaction that fails settles the requests whose
// conditions failed; the others are sent again. After an error the results have the requests that were settled
// before.
func sendAll[Request, Result any](ctx context.Context, b *Operator, batch []Request,
	send func(context.Context, []Request) ([]Result, error), settled func(Result) bool,
) ([]Result, error) {
	results := make([]Result, len(batch))
	open := make([]int, len(batch))
	for i := range open {
		open[i] = i
	}
	for stalls := 0; len(open) > 0; {
		part := make([]Request, len(open))
		for i, j := range open {
			part[i] = batch[j]
		}
		if err := b.pace(ctx, len(part)); err != nil {
			return results, err
		}
		got, err := send(ctx, part)
		if err != nil {
			return results, err
		}
		var rest []int
		for i, j := range open {
			if results[j] = got[i]; !settled(got[i]) {
				rest = append(rest, j)
			}
		}
		if len(rest) < len(open) {
			stalls = 0
		} else if err := b.backOff(ctx, stalls, maxStalls, "rows met other transactions"); err != nil {
			return results, err
		} else {
			stalls++
		}
		open = rest
	}
	return results, nil
}
