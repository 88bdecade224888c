package itembank

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// pageLife is how long a page is worth trying from. An old page only costs
// lost races, never a wrong answer.
const pageLife = 10 * time.Second

// maxReadings bounds how many shards a request reads: each once, and some again where
// others took the page that it read, or an item came back while it read.
const maxReadings = maxShards + 64

var errRestless = fmt.Errorf("%w: the bank changed faster than it could be read", ErrTryAgain)

// shelf is what a Bank remembers of one campaign's bank: the page it hands out
// from, and the proof that there is nothing to hand out. A page serves many
// requests, so that normally a claim costs one store call.
type shelf struct {
	page    page
	turn    chan struct{} // held while reading the bank, so that one request reads for all that wait
	empty   emptiness
	size    bankSize // belongs to whoever has the turn
	repeats repeats
}

// page is a shuffled part of one generation's bank.
type page struct {
	mu         sync.Mutex
	generation int
	items      []engine.FreeItem
	serial     int // number of the page, so that a candidate knows which one it came from
	readAt     time.Time
}

// candidate is a free item picked from a page, to be tried.
type candidate struct {
	item   engine.FreeItem
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

// pick returns a candidate for a request. When the bank is empty it returns
// found = false, and fresh is the campaign as it was read after the bank was seen
// empty.
func (b *Bank) pick(ctx context.Context, s *shelf, c Campaign, q *search) (pick candidate, found bool, fresh Campaign, err error) {
	if pick, found = s.page.pop(c.generation, b.clock.Now()); found {
		return pick, true, c, nil
	}
	if err := s.take(ctx); err != nil {
		return candidate{}, false, c, err
	}
	defer s.leave()
	for range maxReadings {
		if pick, found = s.page.pop(c.generation, b.clock.Now()); found {
			return pick, true, c, nil
		}
		shard, found, err := b.unprovenShard(s, c, q.start)
		if err != nil {
			return candidate{}, false, c, err
		}
		if !found {
			if err := b.expire(ctx, q); err != nil {
				return candidate{}, false, c, err
			}
			fresh, err = b.confirmEmpty(ctx, s, c)
			return candidate{}, false, fresh, err
		}
		if err := b.readPage(ctx, s, c, shard, q); err != nil {
			return candidate{}, false, c, err
		}
	}
	return candidate{}, false, c, errRestless
}

// readPage reads a page of the shard, and on while all of it has ended. If there is
// no live item in the shard, it is empty.
func (b *Bank) readPage(ctx context.Context, s *shelf, c Campaign, shard int, q *search) error {
	reading := s.empty.begin(engine.Shard{Campaign: c.Name, Generation: c.generation, Number: shard}, b.clock.Now())
	read := b.readPart
	if s.size.smallShards(c) {
		read = b.readWhole
	}
	items, w, err := read(ctx, s, c, reading.shard)
	if err != nil {
		return err
	}
	live, err := b.passEnded(ctx, &w, items, reading.begun, q)
	if err != nil {
		return err
	}
	if len(live) == 0 {
		s.empty.saw(reading)
		return nil
	}
	if err := b.shuffle(live); err != nil {
		return err
	}
	s.page.fill(c.generation, live, reading.begun)
	return nil
}

// walk reads a shard, page by page.
type walk struct {
	shard engine.Shard
	left  []engine.Range // what is still to be read, in this order
}

// roundFrom is a walk from a place of the shard to its end and then from its
// beginning to that place.
func roundFrom(s engine.Shard, place engine.Hash) walk {
	return walk{s, []engine.Range{{After: &place}, {Through: &place}}}
}

func (w *walk) over() bool { return len(w.left) == 0 }

// read reads up to limit items of the range that a walk has come to.
func (b *Bank) read(ctx context.Context, w *walk, limit int) ([]engine.FreeItem, error) {
	page, err := b.store.FreeItems(ctx, w.shard, w.left[0], limit)
	if err != nil {
		return nil, err
	}
	if !page.More {
		w.left = w.left[1:]
	} else if n := len(page.Items); n > 0 { // an engine that has more may still bring none
		last := page.Items[n-1].Hash
		w.left[0].After = &last
	}
	return page.Items, nil
}

// readPart reads from a random place of the shard to its end and then from its
// beginning to that place, so that Banks rarely meet.
func (b *Bank) readPart(ctx context.Context, s *shelf, c Campaign, shard engine.Shard) ([]engine.FreeItem, walk, error) {
	place, err := b.randomHash()
	if err != nil {
		return nil, walk{}, err
	}
	w, limit := roundFrom(shard, place), s.size.pageSize(c)
	items, err := b.read(ctx, &w, limit)
	if err != nil {
		return nil, walk{}, err
	}
	if len(w.left) == 1 && len(items) < limit { // a full page leaves the beginning unread
		beginning, err := b.read(ctx, &w, limit-len(items))
		if err != nil {
			return nil, walk{}, err
		}
		items = append(items, beginning...)
	}
	if w.over() {
		s.size.measureWhole(c, items)
	} else {
		s.size.measure(c, items, place)
	}
	return items, w, nil
}

// readWhole reads a shard that is thought to hold little, in one request instead of
// two. If it holds more after all, this page begins where that of others does, and
// the size that it shows lets no other page do so.
func (b *Bank) readWhole(ctx context.Context, s *shelf, c Campaign, shard engine.Shard) ([]engine.FreeItem, walk, error) {
	w := walk{shard, []engine.Range{{}}}
	items, err := b.read(ctx, &w, s.size.wholeLimit(c))
	if err != nil {
		return nil, walk{}, err
	}
	if w.over() {
		s.size.measureWhole(c, items)
	} else {
		s.size.measure(c, items, engine.Hash{})
	}
	return items, w, nil
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
		if !ended(item, now) {
			return candidate{item, p.serial}, true
		}
	}
	return candidate{}, false
}

// fill replaces the page.
func (p *page) fill(generation int, items []engine.FreeItem, readAt time.Time) {
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
