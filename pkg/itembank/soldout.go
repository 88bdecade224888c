package itembank

import (
	"context"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// emptyMemory is how long an empty shard is remembered, counted from the moment
// the read that showed it began: sold out is never said to a request that
// starts more than a second after an item was committed to the bank.
const emptyMemory = time.Second

// emptiness is the proof, as far as it goes, that the bank of a generation is
// empty. Whoever has the turn adds to it; an item that comes back takes from it.
type emptiness struct {
	confirmed bool  // the campaign was read after all shards; belongs to whoever has the turn
	loads     loads // as confirmed

	mu         sync.Mutex // guards the rest
	generation int
	shards     map[int]time.Time    // shard to when the read that showed it empty began
	returns    map[engine.Shard]int // how often an item may have come back through this Bank
}

// loads says whether a load into the campaign was ever started.
type loads int

const (
	loadsUnknown loads = iota
	noLoads
	hasLoads
)

// reading is a read of a shard that may show it empty.
type reading struct {
	shard   engine.Shard
	begun   time.Time
	returns int // before it began
}

// begin notes the beginning of a reading.
func (e *emptiness) begin(shard engine.Shard, now time.Time) reading {
	e.mu.Lock()
	defer e.mu.Unlock()
	return reading{shard, now, e.returns[shard]}
}

// saw notes that a reading showed its shard empty, unless an item came back while it
// read: it may have missed that. The campaign has to be read again after it.
func (e *emptiness) saw(r reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.returns != e.returns[r.shard] {
		return
	}
	if e.generation != r.shard.Generation {
		e.generation, e.shards = r.shard.Generation, map[int]time.Time{}
	}
	e.shards[r.shard.Number] = r.begun
	e.confirmed = false
	if e.loads == noLoads {
		e.loads = loadsUnknown
	}
}

// forget takes a shard out of the proof, since an item may have come back to it.
func (e *emptiness) forget(shard engine.Shard) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.returns == nil {
		e.returns = map[engine.Shard]int{}
	}
	e.returns[shard]++
	if e.generation == shard.Generation {
		delete(e.shards, shard.Number)
	}
}

// unproven lists the shards that are not proven empty for a request that began at
// start. What is read during the request always is, so that a request reads each
// shard once, however long that takes. An empty shard says nothing about that of
// the next generation.
func (e *emptiness) unproven(c Campaign, start time.Time) (open []int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range c.Shards {
		begun, ok := e.shards[i]
		if !ok || e.generation != c.generation || elapsed(begun, start) >= emptyMemory {
			open = append(open, i)
		}
	}
	return open
}

// unprovenShard picks a random shard of those not proven empty.
func (b *Bank) unprovenShard(s *shelf, c Campaign, start time.Time) (shard int, found bool, err error) {
	open := s.empty.unproven(c, start)
	if len(open) == 0 {
		return 0, false, nil
	}
	r, err := b.generator()
	if err != nil {
		return 0, false, err
	}
	return open[r.IntN(len(open))], true, nil
}

// confirmEmpty reads the campaign after the bank was seen empty: in another
// generation or state that says nothing. The answer is remembered with the
// shards, so that a sold-out campaign costs a claimant one claim read.
func (b *Bank) confirmEmpty(ctx context.Context, s *shelf, c Campaign) (Campaign, error) {
	if s.empty.confirmed {
		return c, nil
	}
	fresh, err := b.readCampaign(ctx, c.Name)
	if err != nil {
		return c, err
	}
	s.empty.confirmed = fresh.generation == c.generation
	return fresh, nil
}

// State tells what a campaign is now. Sold out is said by the same proof as in
// Claim, with a read of one row a shard, and by the same memory.
func (b *Bank) State(ctx context.Context, name string) (Campaign, State, error) {
	if err := ValidateName("campaign", name); err != nil {
		return Campaign{}, "", err
	}
	c, err := b.campaignRules(ctx, name)
	if err != nil {
		return Campaign{}, "", err
	}
	q := &search{start: b.clock.Now()}
	for {
		if state := c.StateAt(b.clock.Now()); state != Open {
			return c, state, nil
		}
		empty, fresh, err := b.probe(ctx, b.shelf(name), c, q)
		switch {
		case err != nil:
			return Campaign{}, "", err
		case !empty:
			return c, Open, nil
		case fresh.generation == c.generation && fresh.StateAt(b.clock.Now()) == Open:
			state, err := b.emptyState(ctx, b.shelf(name), name)
			return fresh, state, err
		}
		c = fresh
	}
}

// emptyState tells a campaign without free items from one that never had any. That
// a load was started stays true; that none was is remembered with the proof.
func (b *Bank) emptyState(ctx context.Context, s *shelf, name string) (State, error) {
	if err := s.take(ctx); err != nil {
		return "", err
	}
	defer s.leave()
	if s.empty.loads == loadsUnknown {
		found, err := b.store.Loaded(ctx, name)
		if err != nil {
			return "", err
		}
		if s.empty.loads = noLoads; found {
			s.empty.loads = hasLoads
		}
	}
	if s.empty.loads == noLoads {
		return Empty, nil
	}
	return SoldOut, nil
}

// probe looks for one free item in any shard.
func (b *Bank) probe(ctx context.Context, s *shelf, c Campaign, q *search) (empty bool, fresh Campaign, err error) {
	if err := s.take(ctx); err != nil {
		return false, c, err
	}
	defer s.leave()
	for range maxReadings {
		shard, found, err := b.unprovenShard(s, c, q.start)
		if err != nil {
			return false, c, err
		}
		if !found {
			if err := b.expire(ctx, q); err != nil {
				return false, c, err
			}
			fresh, err = b.confirmEmpty(ctx, s, c)
			return err == nil, fresh, err
		}
		reading := s.empty.begin(engine.Shard{Campaign: c.Name, Generation: c.generation, Number: shard}, b.clock.Now())
		live, err := b.probeShard(ctx, reading, q)
		if live || err != nil {
			return false, c, err
		}
		s.empty.saw(reading)
	}
	return false, c, errRestless
}

// probeShard reads one row of the shard, and goes on only if that one has ended.
func (b *Bank) probeShard(ctx context.Context, r reading, q *search) (live bool, err error) {
	w := walk{r.shard, []engine.Range{{}}}
	items, err := b.read(ctx, &w, 1)
	if err != nil {
		return false, err
	}
	if !w.over() {
		place, err := b.randomHash()
		if err != nil {
			return false, err
		}
		w = roundFrom(r.shard, place)
	}
	found, err := b.passEnded(ctx, &w, items, r.begun, q)
	return len(found) > 0, err
}
