package itembank

import (
	"context"
	"sync"
	"time"
)

// pageLife is how long a page is worth trying from. An old page only costs
// lost races, never a wrong answer.
const pageLife = 10 * time.Second

// shelf is what a Bank remembers of one campaign's bank: the page it hands out
// from, and the proof that there is nothing to hand out. A page serves many
// requests, so that normally a claim costs one store call.
type shelf struct {
	page  page
	turn  chan struct{} // held while reading the bank, so that one request reads for all that wait
	empty emptiness     // belongs to whoever has the turn
}

// page is a shuffled part of one generation's bank.
type page struct {
	mu         sync.Mutex
	generation int
	items      []FreeItem
	serial     int // number of the page, so that a candidate knows which one it came from
	readAt     time.Time
}

// candidate is a free item picked from a page, to be tried.
type candidate struct {
	item   FreeItem
	serial int
}

// shelf returns the campaign's shelf.
func (b *Bank) shelf(campaign string) *shelf {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.shelves[campaign]
	if s == nil {
		s = &shelf{turn: make(chan struct{}, 1)}
		b.shelves[campaign] = s
	}
	return s
}

// take waits for the turn to read the bank.
func (s *shelf) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *shelf) leave() { <-s.turn }

// pick returns a candidate for a request that began at start. When the bank is
// empty it returns found = false, and fresh is the campaign as it was read
// after the bank was seen empty.
func (b *Bank) pick(ctx context.Context, s *shelf, c Campaign, start time.Time) (pick candidate, found bool, fresh Campaign, err error) {
	if pick, found = s.page.pop(c.Generation, b.clock.Now()); found {
		return pick, true, c, nil
	}
	if err := s.take(ctx); err != nil {
		return candidate{}, false, c, err
	}
	defer s.leave()
	for {
		if pick, found = s.page.pop(c.Generation, b.clock.Now()); found {
			return pick, true, c, nil
		}
		shard, found, err := b.unprovenShard(s, c, start)
		if err != nil {
			return candidate{}, false, c, err
		}
		if !found {
			fresh, err = b.confirmEmpty(ctx, s, c)
			return candidate{}, false, fresh, err
		}
		if err := b.readPage(ctx, s, c, shard); err != nil {
			return candidate{}, false, c, err
		}
	}
}

// readPage reads up to a page of the shard, from a random place to its end and
// then from its beginning to that place, so that Banks rarely meet. If both
// halves are empty the shard is.
func (b *Bank) readPage(ctx context.Context, s *shelf, c Campaign, shard int) error {
	place, err := b.randomHash()
	if err != nil {
		return err
	}
	begun := b.clock.Now()
	ref := Shard{c.Name, c.Generation, shard}
	part, err := b.store.FreeItems(ctx, ref, Range{After: &place}, c.PageSize)
	if err != nil {
		return err
	}
	items, more := part.Items, part.More
	if missing := c.PageSize - len(items); missing > 0 && !more {
		part, err = b.store.FreeItems(ctx, ref, Range{Through: &place}, missing)
		if err != nil {
			return err
		}
		items, more = append(items, part.Items...), part.More
	}
	if len(items) == 0 && !more {
		s.empty.saw(shard, begun)
		return nil
	}
	if err := b.shuffle(items); err != nil {
		return err
	}
	s.page.fill(c.Generation, items, begun)
	return nil
}

// pop takes an item off the page, if it is of the generation and young enough.
func (p *page) pop(generation int, now time.Time) (candidate, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != generation || elapsed(p.readAt, now) > pageLife {
		p.drop()
	}
	last := len(p.items) - 1
	if last < 0 {
		return candidate{}, false
	}
	pick := candidate{p.items[last], p.serial}
	p.items = p.items[:last]
	return pick, true
}

// fill replaces the page.
func (p *page) fill(generation int, items []FreeItem, readAt time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop()
	p.generation, p.items, p.readAt = generation, items, readAt
}

// putBack returns a candidate that is still free to the page that it came from.
func (p *page) putBack(pick candidate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pick.serial == p.serial {
		p.items = append(p.items, pick.item)
	}
}

// lost throws away the page of a candidate that somebody else took: they work
// where it was read, and the next page starts at another place.
func (p *page) lost(pick candidate) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pick.serial == p.serial {
		p.drop()
	}
}

// drop throws the page away; candidates picked from it cannot come back.
func (p *page) drop() { p.items, p.serial = nil, p.serial+1 }
