package itembank

import (
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// FreeItems lists up to limit free items, 1 to MaxItemPage, in an order that the Bank chooses. cursor is "" for the
// first page, and then Next of the page before. A page may be empty without being the last. A page costs one read for
// each shard that it reads, at most 32. In a campaign with columns it also costs one read unit for each item, in
// requests of 100 items.
//
// The pages of a live campaign belong to different moments, and an item may be taken as soon as it is listed. An item
// that stays free all the time is in exactly one page.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) FreeItems(ctx context.Context, campaign, cursor string, limit int) (page ItemPage, err error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return page, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return page, err
	}
	from, err := c.pageBegin(cursor, limit)
	if err != nil {
		return page, err
	}
	free, next, err := b.freeItems(ctx, c, from, limit, engine.Strong)
	if err != nil {
		return page, err
	}
	if c.Columns {
		if err := b.pace(ctx, len(free)); err != nil {
			return page, err
		}
	}
	items := make([]string, len(free))
	for i, item := range free {
		items[i] = item.Value
	}
	columns, err := b.columnsOf(ctx, c, items)
	if err != nil {
		return page, err
	}
	for i, item := range items {
		page.Items = append(page.Items, PageItem{item, columns[i]})
	}
	page.Next = c.cursor(next)
	return page, nil
}
