package itembank

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// MaxItemPage is the largest number of items that FreeItems returns.
const MaxItemPage = 500

// maxPageReads is how many shards a read of free items looks into. In a bank that is nearly empty, a page may therefore
// have few items or none.
const maxPageReads = 32

// Errors of PublishedItems.
var (
	ErrNotPublished = member(ErrRefused, "the campaign does not publish its items")
	// ErrNotListedYet says that the Bank has read other free items of the campaign in the last second.
	ErrNotListedYet = member(ErrTryAgain, "the free items from this cursor on have not been read yet")
)

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

// PublishedItems is FreeItems for any caller. It works only in campaigns with Settings.Publish. Whatever callers ask
// for, a Bank reads a part of the campaign's free items at most once a second, with eventually consistent reads
// (listing.go). A page may be ten seconds old, and usually is one second old at most. It may lack items that were loaded
// or came back in the last second.
//
// Errors: ErrNotPublished, ErrNotListedYet, and the errors of FreeItems.
func (b *Bank) PublishedItems(ctx context.Context, campaign, cursor string, limit int) (page ItemPage, err error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return page, err
	}
	c, err := b.publishedRules(ctx, campaign)
	if err != nil {
		return page, err
	}
	if !c.Publish {
		return page, ErrNotPublished
	}
	at, err := c.pageBegin(cursor, limit)
	if err != nil {
		return page, err
	}
	part, err := b.listedPart(ctx, c, at)
	if err != nil {
		return page, err
	}
	return part.page(c, at, limit, b.serverNow()), nil
}

// publishedRules returns a campaign whose fixed settings are right. Unlike fixedRules it never reads more than once in
// half a minute, whatever the life of copies is.
func (b *Bank) publishedRules(ctx context.Context, name string) (Campaign, error) {
	if c, ok := b.rules.latest(name); ok && elapsed(c.copied.readAt, b.clock.Now()) < sameCampaign {
		return c, nil
	}
	return b.campaignRules(ctx, name)
}

// place is a place in a bank: behind the item with the hash after in a shard, or with nil before all its items.
type place struct {
	shard int
	after *engine.Hash
}

// placeOf returns the place behind an item.
func placeOf(item engine.FreeItem) place { return place{item.Shard.Number, &item.Hash} }

// compare returns -1, 0 or 1 if p is before o, the same place, or behind it.
func (p place) compare(o place) int {
	switch {
	case p.shard != o.shard || p.after == nil && o.after == nil:
		return cmp.Compare(p.shard, o.shard)
	case p.after == nil:
		return -1
	case o.after == nil:
		return 1
	}
	return bytes.Compare(p.after[:], o.after[:])
}

// cursor returns the text of a place, or "" for the end of the bank.
func (c Campaign) cursor(p place) string {
	switch {
	case p.shard == c.Shards:
		return ""
	case p.after == nil:
		return strconv.Itoa(p.shard)
	}
	return strconv.Itoa(p.shard) + "-" + p.after.String()
}

// pageBegin checks the arguments of a page, and returns the place at which it begins.
func (c Campaign) pageBegin(cursor string, limit int) (place, error) {
	if limit < 1 || limit > MaxItemPage {
		return place{}, &InvalidError{"limit", fmt.Sprintf("must be 1 to %d, is %d", MaxItemPage, limit)}
	}
	if cursor == "" {
		return place{}, nil
	}
	var p place
	number, hash, found := strings.Cut(cursor, "-")
	shard, err := strconv.Atoi(number)
	if p.shard = shard; err == nil && found {
		var h engine.Hash
		h, err = engine.ParseHash(hash)
		p.after = &h
	}
	if err != nil || shard < 0 || shard >= c.Shards {
		return place{}, &InvalidError{"cursor", "is not the next of a page of this campaign"}
	}
	return p, nil
}

// freeItems reads up to limit free items from a place on, with a method of the store, and returns the place behind them.
func (b *Bank) freeItems(
	ctx context.Context, c Campaign, from place, limit int, consistency engine.Consistency,
) (items []engine.FreeItem, next place, err error) {
	next = from
	for range maxPageReads {
		shard := engine.Shard{Campaign: c.Name, Number: next.shard}
		page, err := b.store.FreeItems(ctx, shard, engine.Range{After: next.after}, limit-len(items), consistency)
		if err != nil {
			return nil, next, err
		}
		if err := b.pace(ctx, len(page.Items)); err != nil {
			return nil, next, err
		}
		live, _ := splitEnded(page.Items, b.serverNow())
		items = append(items, live...)
		switch {
		case !page.More:
			next = place{shard: next.shard + 1}
		case len(page.Items) > 0:
			next = placeOf(page.Items[len(page.Items)-1])
		}
		if next.shard == c.Shards || len(items) == limit {
			break
		}
	}
	return items, next, nil
}
