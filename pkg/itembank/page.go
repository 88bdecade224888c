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
	page    page
	turn    chan struct{} // held while reading the bank, so that one request reads for all that wait
	empty   emptiness     // belongs to whoever has the turn
	size    bankSize      // likewise
	repeats repeats
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
	for range maxEndedPages {
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
	return candidate{}, false, c, errTooManyEnded
}

// readPage reads a page of the shard. If there is neither a live item nor anything
// left to read, the shard is empty.
func (b *Bank) readPage(ctx context.Context, s *shelf, c Campaign, shard int) error {
	begun := b.clock.Now()
	read := b.readPart
	if s.size.smallShards(c) {
		read = b.readWhole
	}
	items, more, err := read(ctx, s, c, Shard{c.Name, c.Generation, shard})
	if err != nil {
		return err
	}
	live, ended := partition(items, begun)
	if len(live) == 0 {
		if err := b.expire(ctx, ended); err != nil {
			return err
		}
		if !more {
			s.empty.saw(shard, begun)
		}
		return nil
	}
	if err := b.shuffle(live); err != nil {
		return err
	}
	s.page.fill(c.Generation, live, begun)
	return nil
}

// readPart reads from a random place of the shard to its end and then from its
// beginning to that place, so that Banks rarely meet.
func (b *Bank) readPart(ctx context.Context, s *shelf, c Campaign, shard Shard) (items []FreeItem, more bool, err error) {
	place, err := b.randomHash()
	if err != nil {
		return nil, false, err
	}
	limit := s.size.pageSize(c)
	end, err := b.store.FreeItems(ctx, shard, Range{After: &place}, limit)
	if err != nil {
		return nil, false, err
	}
	// A full page leaves the other half unread, whatever this one says of itself.
	if items = end.Items; end.More || len(items) == limit {
		s.size.measure(c, items, place)
		return items, true, nil
	}
	beginning, err := b.store.FreeItems(ctx, shard, Range{Through: &place}, limit-len(items))
	if err != nil {
		return nil, false, err
	}
	if items = append(items, beginning.Items...); beginning.More {
		s.size.measure(c, items, place)
	} else {
		s.size.measureWhole(c, items)
	}
	return items, beginning.More, nil
}

// readWhole reads a shard that is thought to hold little, in one request instead of
// two. If it holds more after all, this page begins where that of others does, and
// the size that it shows lets no other page do so.
func (b *Bank) readWhole(ctx context.Context, s *shelf, c Campaign, shard Shard) (items []FreeItem, more bool, err error) {
	page, err := b.store.FreeItems(ctx, shard, Range{}, s.size.wholeLimit(c))
	if err != nil {
		return nil, false, err
	}
	if page.More {
		s.size.measure(c, page.Items, Hash{})
	} else {
		s.size.measureWhole(c, page.Items)
	}
	return page.Items, page.More, nil
}

// pop takes an item off the page, if it is of the generation and young enough.
func (p *page) pop(generation int, now time.Time) (candidate, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.generation != generation || elapsed(p.readAt, now) > pageLife {
		p.drop()
	}
	for last := len(p.items) - 1; last >= 0; last-- {
		item := p.items[last]
		p.items = p.items[:last]
		if !item.ended(now) {
			return candidate{item, p.serial}, true
		}
	}
	return candidate{}, false
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
