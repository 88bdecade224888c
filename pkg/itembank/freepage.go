package itembank

import (
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// pageLife is how long a page is used. An old page costs lost races, but never gives a wrong answer.
const pageLife = 10 * time.Second

// seenFor is how long an item of a page answers State that an item is free, from the start of the read. Meanwhile other
// Banks may have taken it.
const seenFor = time.Second

// freePage holds free items of one shard, in random order.
type freePage struct {
	shard     int
	items     []engine.FreeItem
	readAt    time.Time
	discarded bool
}

// candidate is a free item from a page.
type candidate struct {
	free engine.FreeItem
	page *freePage
}

// pop takes an item from a page that is young enough. Unless throttled is set, it skips pages of throttled shards. A
// search that only tests whether any item is free leaves the item on the page.
func (l *freeList) pop(s *search, throttled bool) (candidate, bool) {
	if s.anyItem {
		return candidate{}, l.seenFree(s.started)
	}
	now, served := l.bank.clock.Now(), l.bank.serverNow()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pages = slices.DeleteFunc(l.pages, func(p *freePage) bool { return elapsed(p.readAt, now) > pageLife })
	for i := len(l.pages) - 1; i >= 0; i-- {
		p := l.pages[i]
		if !throttled && l.throttled.has(p.shard, now) {
			continue
		}
		for last := len(p.items) - 1; last >= 0; last-- {
			item := p.items[last]
			p.items = p.items[:last]
			if !hasEnded(item, served) {
				return candidate{item, p}, true
			}
		}
	}
	return candidate{}, false
}

// seenFree reports whether a page has an item that was free less than seenFor before a request began.
func (l *freeList) seenFree(start time.Time) bool {
	served := l.bank.serverNow()
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.pages, func(p *freePage) bool {
		free := func(item engine.FreeItem) bool { return !hasEnded(item, served) }
		return elapsed(p.readAt, start) < seenFor && slices.ContainsFunc(p.items, free)
	})
}

// fill replaces the page of a shard, and drops old pages: pop drops them only for claims.
func (l *freeList) fill(shard int, items []engine.FreeItem, readAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discard(func(p *freePage) bool { return p.shard == shard || elapsed(p.readAt, readAt) >= pageLife })
	l.pages = append(l.pages, &freePage{shard: shard, items: items, readAt: readAt})
}

// putBack puts a candidate that was not taken back on its page.
func (l *freeList) putBack(item candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !item.page.discarded {
		item.page.items = append(item.page.items, item.free)
	}
}

// discardPage discards the page of a candidate that another request took. That request takes items from the same
// place; the next page starts at another place.
func (l *freeList) discardPage(item candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.discard(func(p *freePage) bool { return p == item.page })
}

// discard discards the pages that match. Their candidates cannot be put back.
func (l *freeList) discard(match func(*freePage) bool) {
	l.pages = slices.DeleteFunc(l.pages, func(p *freePage) bool {
		p.discarded = p.discarded || match(p)
		return p.discarded
	})
}
