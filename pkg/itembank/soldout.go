package itembank

import (
	"context"
	"time"
)

// emptyMemory is how long an empty shard is remembered, counted from the moment
// the read that showed it began: sold out is never said to a request that
// starts more than a second after an item was committed to the bank.
const emptyMemory = time.Second

// emptiness is the proof, as far as it goes, that the bank of a generation is
// empty.
type emptiness struct {
	generation int
	shards     map[int]time.Time // shard to when the read that showed it empty began
	confirmed  bool              // the campaign was read after all of these
}

// of returns the proof for a generation: an empty shard says nothing about the next.
func (e *emptiness) of(generation int) *emptiness {
	if e.generation != generation {
		*e = emptiness{generation: generation}
	}
	return e
}

// saw notes an empty shard. The campaign has to be read again after it.
func (e *emptiness) saw(shard int, begun time.Time) {
	if e.shards == nil {
		e.shards = map[int]time.Time{}
	}
	e.shards[shard] = begun
	e.confirmed = false
}

// holds reports whether the shard is proven empty for a request that began at
// start. What is read during the request always is, so that a request reads
// each shard once, however long that takes.
func (e *emptiness) holds(shard int, start time.Time) bool {
	begun, ok := e.shards[shard]
	return ok && elapsed(begun, start) < emptyMemory
}

// unprovenShard picks a random shard of those not proven empty.
func (b *Bank) unprovenShard(s *shelf, c Campaign, start time.Time) (shard int, found bool, err error) {
	empty := s.empty.of(c.Generation)
	var open []int
	for i := range c.Shards {
		if !empty.holds(i, start) {
			open = append(open, i)
		}
	}
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
	s.empty.confirmed = fresh.Generation == c.Generation
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
	start := b.clock.Now()
	for {
		if state := c.StateAt(b.clock.Now()); state != Open {
			return c, state, nil
		}
		empty, fresh, err := b.probe(ctx, b.shelf(name), c, start)
		switch {
		case err != nil:
			return Campaign{}, "", err
		case !empty:
			return c, Open, nil
		case fresh.Generation == c.Generation && fresh.StateAt(b.clock.Now()) == Open:
			return fresh, SoldOut, nil
		}
		c = fresh
	}
}

// probe looks for one free item in any shard.
func (b *Bank) probe(ctx context.Context, s *shelf, c Campaign, start time.Time) (empty bool, fresh Campaign, err error) {
	if err := s.take(ctx); err != nil {
		return false, c, err
	}
	defer s.leave()
	limit := 1
	for range maxEndedPages {
		shard, found, err := b.unprovenShard(s, c, start)
		if err != nil {
			return false, c, err
		}
		if !found {
			fresh, err = b.confirmEmpty(ctx, s, c)
			return err == nil, fresh, err
		}
		begun := b.clock.Now()
		page, err := b.store.FreeItems(ctx, Shard{c.Name, c.Generation, shard}, Range{}, limit)
		if err != nil {
			return false, c, err
		}
		live, ended := partition(page.Items, begun)
		if len(live) > 0 {
			return false, c, nil
		}
		if err := b.expire(ctx, ended); err != nil {
			return false, c, err
		}
		if len(ended) > 0 {
			limit = c.PageSize
		}
		if !page.More {
			s.empty.saw(shard, begun)
		}
	}
	return false, c, errTooManyEnded
}
