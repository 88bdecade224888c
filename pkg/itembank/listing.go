package itembank

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Every caller may ask for the free items of a campaign that publishes them, with any cursor and any limit. So a caller
// must not decide how much is read. A Bank reads them in parts, one part of a campaign in a second at most, and cuts each
// answer out of a part. What is in no part is refused with ErrNotListedYet, or answered from the next part.
const (
	// listEvery is the time between the end of a read and the begin of the next read, for each campaign.
	listEvery = time.Second

	// listLife is how long a part is used. With listEvery it limits the parts in memory to ten for each campaign. An
	// old part costs claims that are refused with ErrItemTaken, but never gives a wrong claim.
	listLife = 10 * time.Second

	// partItems is how many items a part has, without columns. With maxPageReads requests, a part costs at most 16 read
	// units and what its rows cost: about 30 units at 120 bytes a row. With columns a part has MaxItemPage items, because
	// the row of each item whose columns are not in memory costs half a read unit.
	partItems = 2000

	// missedFor is how long places that no part covers come before parts that are to be read again, after a caller was told
	// to wait. The caller comes again within this time. Without it, many callers of the first page would take all reads.
	missedFor = 3 * time.Second

	// listTimeout limits a read of a caller without a deadline.
	listTimeout = 5 * time.Second
)

// listings has the parts of the free items of campaigns. Its zero value is empty.
type listings struct {
	mu sync.Mutex
	of map[string]*listing // by campaign
}

type listing struct {
	parts   []*itemPart   // in the order in which they were read
	readAt  time.Time     // when the last read ended
	missed  time.Time     // when a caller was last told to wait
	reading chan struct{} // closed when the read that runs ends; nil: none runs
}

// itemPart has the free items between two places of a bank. It does not change.
type itemPart struct {
	from, next place
	items      []listedItem
	readAt     time.Time // when the read ended
}

type listedItem struct {
	engine.FreeItem
	columns Columns
}

// covers reports whether the part has the items behind a place.
func (p *itemPart) covers(at place) bool { return p.from.compare(at) <= 0 && at.compare(p.next) < 0 }

// isOld reports whether the part is to be read again. missed is when a caller of another place was last told to wait.
func (p *itemPart) isOld(now, missed time.Time) bool {
	age := elapsed(p.readAt, now)
	return age >= listLife/2 || age >= listEvery && (missed.IsZero() || elapsed(missed, now) >= missedFor)
}

// page returns up to limit items behind a place that the part covers.
func (p *itemPart) page(c Campaign, at place, limit int, now time.Time) ItemPage {
	page, last := ItemPage{Next: c.cursor(p.next)}, at
	begin := sort.Search(len(p.items), func(i int) bool { return placeOf(p.items[i].FreeItem).compare(at) > 0 })
	for _, item := range p.items[begin:] {
		if hasEnded(item.FreeItem, now) {
			continue
		}
		if len(page.Items) == limit {
			page.Next = c.cursor(last)
			break
		}
		page.Items = append(page.Items, PageItem{item.Value, item.columns})
		last = placeOf(item.FreeItem)
	}
	return page
}

// listedPart returns a part that covers the place. It reads the store if no part was read for a second.
func (b *Bank) listedPart(ctx context.Context, c Campaign, at place) (*itemPart, error) {
	for {
		part, running, read := b.listings.find(c.Name, at, b.clock.Now())
		switch {
		case read:
			from := at
			if part != nil {
				from = part.from
			}
			part, err := b.readPart(ctx, c, from)
			if err != nil || from == at || part.covers(at) {
				return part, err
			}
			// So many items came back into the part that it ends before the place now.
		case part != nil:
			return part, nil
		case running == nil:
			return nil, ErrNotListedYet
		default:
			select {
			case <-running:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
	}
}

// find returns the latest part that covers the place, or nil. If read is set, the caller has to read a part, and to call
// done. Else running is the read that runs, or nil.
func (l *listings) find(campaign string, at place, now time.Time) (part *itemPart, running chan struct{}, read bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[campaign]
	if of == nil {
		if of = (&listing{}); l.of == nil {
			l.of = map[string]*listing{}
		}
		l.of[campaign] = of
	}
	for _, p := range of.parts {
		if p.covers(at) && elapsed(p.readAt, now) < listLife {
			part = p
		}
	}
	due := of.reading == nil && (of.readAt.IsZero() || elapsed(of.readAt, now) >= listEvery)
	if due && (part == nil || part.isOld(now, of.missed)) {
		of.reading = make(chan struct{})
		return part, nil, true
	}
	if part == nil && of.reading == nil {
		of.missed = now // the caller is told to wait
	}
	return part, of.reading, false
}

// readPart reads the part that begins at a place. Others wait for it, so it goes on if the caller's client disconnects.
func (b *Bank) readPart(ctx context.Context, c Campaign, from place) (part *itemPart, err error) {
	defer func() { b.listings.done(c.Name, part, b.clock.Now()) }()
	ctx, cancel := undisturbed(ctx)
	defer cancel()
	limit := partItems
	if c.Columns {
		limit = MaxItemPage
	}
	free, next, err := b.freeItems(ctx, c, from, limit, engine.Eventual)
	if err != nil {
		return nil, err
	}
	read := &itemPart{from: from, next: next}
	if read.items, err = b.withListedColumns(ctx, c, free); err != nil {
		return nil, err
	}
	return read, nil
}

// undisturbed returns a context that keeps the deadline of ctx, and is not cancelled with it.
func undisturbed(ctx context.Context) (context.Context, context.CancelFunc) {
	if deadline, ok := ctx.Deadline(); ok {
		return context.WithDeadline(context.WithoutCancel(ctx), deadline)
	}
	return context.WithTimeout(context.WithoutCancel(ctx), listTimeout)
}

// done ends a read. part is nil if it failed. It drops old parts of all campaigns.
func (l *listings) done(campaign string, part *itemPart, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[campaign]
	close(of.reading)
	of.reading, of.readAt = nil, now
	if part != nil {
		part.readAt = now
		of.parts = append(of.parts, part)
	}
	for name, of := range l.of {
		of.parts = slices.DeleteFunc(of.parts, func(p *itemPart) bool {
			return elapsed(p.readAt, now) >= listLife || part != nil && p != part && name == campaign && p.from.compare(part.from) == 0
		})
		if len(of.parts) == 0 && of.reading == nil && elapsed(of.readAt, now) >= listEvery {
			delete(l.of, name)
		}
	}
}

// withListedColumns adds their columns to free items. The columns of an item never change, so it reads only those that no
// part has. While a load runs, the bank row of an item may be visible before its item row: that item is left out.
func (b *Bank) withListedColumns(ctx context.Context, c Campaign, free []engine.FreeItem) (items []listedItem, err error) {
	known := b.listings.columns(c)
	var unknown []engine.Hash
	for _, item := range free {
		if _, ok := known[item.Hash]; c.Columns && !ok {
			unknown = append(unknown, item.Hash)
		}
	}
	for some := range slices.Chunk(unknown, engine.MaxItemRows) {
		rows, err := b.store.ItemRows(ctx, c.Name, some, engine.Eventual)
		if err != nil {
			return nil, err
		}
		for i, row := range rows {
			if row != nil {
				known[some[i]] = Columns(row.Columns)
			}
		}
	}
	for _, item := range free {
		if columns, ok := known[item.Hash]; ok || !c.Columns {
			items = append(items, listedItem{item, columns})
		}
	}
	return items, nil
}

// columns returns the columns of all items in the parts of a campaign.
func (l *listings) columns(c Campaign) map[engine.Hash]Columns {
	known := map[engine.Hash]Columns{}
	if !c.Columns {
		return known
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.of[c.Name].parts {
		for _, item := range p.items {
			known[item.Hash] = item.columns
		}
	}
	return known
}
