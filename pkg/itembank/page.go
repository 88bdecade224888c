package itembank

import (
	"context"
	"time"
)

// pageLife is how long a page is worth trying from. An old page only costs
// lost races, never a wrong answer.
const pageLife = 10 * time.Second

// shelf is what a Bank remembers of one campaign's bank: the page it hands out
// from, and the proof that there is nothing to hand out. A page serves many
// requests, so that normally a claim costs one store call.
type shelf struct {
	turn       chan struct{} // held while looking, so that one request reads a page for all that wait
	generation int
	page       []FreeItem
	serial     int // number of the page, so that a candidate knows which one it came from
	readAt     time.Time
	empty      emptiness
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

// take waits for the turn at the shelf and clears it if it belongs to another
// generation: neither a page nor an empty shard says anything about the next.
func (s *shelf) take(ctx context.Context, generation int) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.generation != generation {
		s.generation, s.empty = generation, emptiness{}
		s.drop()
	}
	return nil
}

// drop throws the page away; candidates picked from it cannot come back.
func (s *shelf) drop() { s.page, s.serial = nil, s.serial+1 }

func (s *shelf) leave() { <-s.turn }

// pick returns a candidate. When the bank is empty it returns found = false,
// and fresh is the campaign as it was read after the bank was seen empty.
func (b *Bank) pick(ctx context.Context, s *shelf, c Campaign) (pick candidate, found bool, fresh Campaign, err error) {
	if err := s.take(ctx, c.Generation); err != nil {
		return candidate{}, false, c, err
	}
	defer s.leave()
	if b.clock.Now().Sub(s.readAt) > pageLife {
		s.drop()
	}
	for len(s.page) == 0 {
		shard, found, err := b.unprovenShard(s, c)
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
	last := len(s.page) - 1
	pick = candidate{s.page[last], s.serial}
	s.page = s.page[:last]
	return pick, true, c, nil
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
	page, err := b.store.FreeItems(ctx, ref, Range{After: &place}, c.PageSize)
	if err != nil {
		return err
	}
	items, more := page.Items, page.More
	if missing := c.PageSize - len(items); missing > 0 && !more {
		page, err = b.store.FreeItems(ctx, ref, Range{Through: &place}, missing)
		if err != nil {
			return err
		}
		items, more = append(items, page.Items...), page.More
	}
	if len(items) == 0 && !more {
		s.empty.saw(shard, begun)
		return nil
	}
	if err := b.shuffle(items); err != nil {
		return err
	}
	s.drop()
	s.page, s.readAt = items, begun
	return nil
}

// putBack returns a candidate that is still free to the page that it came from.
func (s *shelf) putBack(pick candidate) {
	s.turn <- struct{}{}
	defer s.leave()
	if pick.serial == s.serial {
		s.page = append(s.page, pick.item)
	}
}

// lost throws away the page of a candidate that somebody else took: they work
// where it was read, and the next page starts at another place.
func (s *shelf) lost(pick candidate) {
	s.turn <- struct{}{}
	defer s.leave()
	if pick.serial == s.serial {
		s.drop()
	}
}
