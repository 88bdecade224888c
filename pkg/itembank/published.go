package itembank

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// MaxItemPage is the largest number of items that FreeItems returns.
const MaxItemPage = 500

// maxPageReads is how many shards FreeItems reads for a page. In a bank that is nearly empty, a page may therefore
// have few items or none.
const maxPageReads = 32

// ErrNotPublished comes from PublishedItems.
var ErrNotPublished = member(ErrRefused, "the campaign does not publish its items")

// ItemPage is a part of the free items of a campaign.
type ItemPage struct {
	Items []PageItem
	Next  string // the cursor of the next page; "": there is none
}

// PageItem is an item of a page.
type PageItem struct {
	Item    string
	Columns Columns
}

// FreeItems lists up to limit free items, 1 to MaxItemPage, in an order that the Bank chooses. cursor is "" for the
// first page, and then Next of the page before. A page may be empty without being the last. A page costs one read for
// each shard that it reads, at most 32. In a campaign with columns it also costs one read unit for each item, in
// requests of 100 items.
//
// The pages of a live campaign belong to different moments, and an item may be taken as soon as it is listed. An item
// that stays free all the time is in exactly one page.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) FreeItems(ctx context.Context, campaign, cursor string, limit int) (ItemPage, error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return ItemPage{}, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return ItemPage{}, err
	}
	return b.freePage(ctx, c, cursor, limit)
}

// PublishedItems is FreeItems for any caller. It works only in campaigns with Settings.Publish.
//
// Errors: ErrNotPublished, and the errors of FreeItems.
func (b *Bank) PublishedItems(ctx context.Context, campaign, cursor string, limit int) (ItemPage, error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return ItemPage{}, err
	}
	c, err := b.campaignRules(ctx, campaign)
	switch {
	case err != nil:
		return ItemPage{}, err
	case !c.Publish:
		return ItemPage{}, ErrNotPublished
	}
	return b.freePage(ctx, c, cursor, limit)
}

func (b *Bank) freePage(ctx context.Context, c Campaign, cursor string, limit int) (page ItemPage, err error) {
	if limit < 1 || limit > MaxItemPage {
		return page, &InvalidError{"limit", fmt.Sprintf("must be 1 to %d, is %d", MaxItemPage, limit)}
	}
	items, next, err := b.freeTexts(ctx, c, cursor, limit)
	if err != nil {
		return page, err
	}
	if c.Columns {
		if err := b.pace(ctx, len(items)); err != nil {
			return page, err
		}
	}
	columns, err := b.columnsOf(ctx, c, items)
	if err != nil {
		return page, err
	}
	for i, item := range items {
		page.Items = append(page.Items, PageItem{item, columns[i]})
	}
	page.Next = next
	return page, nil
}

// freeTexts reads the items of a page.
func (b *Bank) freeTexts(
	ctx context.Context, c Campaign, cursor string, limit int,
) (items []string, next string, err error) {
	shard, after, err := c.parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	for range maxPageReads {
		read, err := b.store.FreeItems(
			ctx, engine.Shard{Campaign: c.Name, Number: shard}, engine.Range{After: after}, limit-len(items))
		if err != nil {
			return nil, "", err
		}
		if err := b.pace(ctx, len(read.Items)); err != nil {
			return nil, "", err
		}
		live, _ := splitEnded(read.Items, b.serverNow())
		for _, item := range live {
			items = append(items, item.Value)
		}
		switch {
		case !read.More:
			if shard, after = shard+1, nil; shard == c.Shards {
				return items, "", nil
			}
		case len(read.Items) > 0:
			after = &read.Items[len(read.Items)-1].Hash
		}
		if len(items) == limit {
			break
		}
	}
	next = strconv.Itoa(shard)
	if after != nil {
		next += "-" + after.String()
	}
	return items, next, nil
}

// parseCursor returns the shard in which a page begins, and the hash after which it begins.
func (c Campaign) parseCursor(cursor string) (shard int, after *engine.Hash, err error) {
	if cursor == "" {
		return 0, nil, nil
	}
	number, hash, found := strings.Cut(cursor, "-")
	shard, err = strconv.Atoi(number)
	if err == nil && found {
		var h engine.Hash
		h, err = engine.ParseHash(hash)
		after = &h
	}
	if err != nil || shard < 0 || shard >= c.Shards {
		return 0, nil, &InvalidError{"cursor", "is not the next of a page of this campaign"}
	}
	return shard, after, nil
}
