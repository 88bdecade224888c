package itembank

import (
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// pageLife is how long a page is used. An old page costs lost races, never a wrong
// answer.
const pageLife = 10 * time.Second

// page holds free items, in random order.
type page struct {
	items  []engine.FreeItem
	number int // counts the pages, so that a candidate knows its own
	readAt time.Time
}

// candidate is a free item from a page.
type candidate struct {
	free engine.FreeItem
	page int // its number
}

// pop takes an item off the page, if the page is young enough.
func (l *freeList) pop(s *search) (candidate, bool) {
	if s.anyItem { // an item of the page may be gone
		return candidate{}, false
	}
	now := l.bank.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.page
	if elapsed(p.readAt, now) > pageLife {
		p.discard()
	}
	for last := len(p.items) - 1; last >= 0; last-- {
		item := p.items[last]
		p.items = p.items[:last]
		if !hasEnded(item, now) {
			return candidate{item, p.number}, true
		}
	}
	return candidate{}, false
}

// fill replaces the page.
func (l *freeList) fill(items []engine.FreeItem, readAt time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.page.discard()
	l.page.items, l.page.readAt = items, readAt
}

// putBack puts a candidate that is still free back on its page.
func (l *freeList) putBack(item candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if item.page == l.page.number {
		l.page.items = append(l.page.items, item.free)
	}
}

// discardPage discards the page of a candidate that another request took. That
// request works where the page was read; the next page starts at another place.
func (l *freeList) discardPage(item candidate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if item.page == l.page.number {
		l.page.discard()
	}
}

// discard empties the page. Candidates of it cannot be put back.
func (p *page) discard() { p.items, p.number = nil, p.number+1 }
