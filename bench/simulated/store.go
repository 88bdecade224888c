package simulated

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Store is the part of an itembank.Store that a claim needs, with one campaign. It
// counts what would be a request to DynamoDB.
type Store struct {
	engine.Store // absent: nothing else is asked for
	world        *World
	campaign     engine.Campaign
	shards       []shard
	claims       map[string]engine.Claim

	Requests int
	Lost     int // takes of an item that was gone
}

// shard is a part of the bank: its items in order, and for each the nearest free
// one from it on.
type shard struct {
	items []engine.FreeItem
	next  []int32
}

// NewStore makes a store with one open campaign of so many items.
func NewStore(world *World, items, shards int) *Store {
	s := &Store{
		world:  world,
		shards: make([]shard, shards),
		claims: make(map[string]engine.Claim, items),
		campaign: engine.Campaign{
			Name: "spring", Mode: engine.ByTimes, Scope: "spring", Shards: shards, PageSize: 30,
			OnEnd: engine.Burn, Generation: 1, CreatedAt: world.now,
		},
	}
	for i := range items {
		value := fmt.Sprintf("SAVE-%07d", i)
		hash := engine.HashItem(value)
		n := hash.ShardOf(shards)
		s.shards[n].items = append(s.shards[n].items, engine.FreeItem{
			Shard: engine.Shard{Campaign: s.campaign.Name, Generation: 1, Number: n}, Hash: hash, Value: value,
		})
	}
	for i := range s.shards {
		s.shards[i].order()
	}
	return s
}

// Bank returns a bank on the store with the world's time and random numbers, as
// each container has one.
func (s *Store) Bank() *itembank.Bank {
	return itembank.New(s, itembank.WithClock(s.world), itembank.WithRandom(s.world))
}

// Name is the name of the campaign.
func (s *Store) Name() string { return s.campaign.Name }

func (s *Store) request() {
	s.world.wait(s.world.latency())
	s.Requests++
}

// Campaign implements engine.Store.
func (s *Store) Campaign(context.Context, string) (*engine.Campaign, error) {
	s.request()
	c := s.campaign
	return &c, nil
}

// FreeItems implements engine.Store. As on DynamoDB, a page that is full
// says that there is more, whether or not there is.
func (s *Store) FreeItems(_ context.Context, of engine.Shard, r engine.Range, limit int) (page engine.FreePage, err error) {
	s.request()
	shard := &s.shards[of.Number]
	from := 0
	if r.After != nil {
		var there bool
		if from, there = shard.find(*r.After); there {
			from++
		}
	}
	for i := shard.free(from); i < len(shard.items); i = shard.free(i + 1) {
		item := shard.items[i]
		if r.Through != nil && bytes.Compare(item.Hash[:], r.Through[:]) > 0 {
			break
		}
		page.Items = append(page.Items, item)
		if len(page.Items) == limit {
			page.More = true
			break
		}
	}
	return page, nil
}

// Take implements engine.Store.
func (s *Store) Take(_ context.Context, item engine.FreeItem, claim engine.Claim) (found engine.TakeResult, err error) {
	s.request()
	shard := &s.shards[item.Shard.Number]
	i, _ := shard.find(item.Hash)
	if held, claimed := s.claims[claim.Claimant]; claimed {
		found.Held = &held
	}
	if found.ItemGone = shard.free(i) != i; found.ItemGone {
		s.Lost++
	}
	if found.Taken() {
		shard.next[i] = int32(i) + 1
		s.claims[claim.Claimant] = claim
	}
	return found, nil
}

// HeldClaim implements engine.Store.
func (s *Store) HeldClaim(_ context.Context, _, claimant string) (*engine.Claim, error) {
	return s.claim(claimant)
}

// HeldClaimEventuallyConsistent implements engine.Store.
func (s *Store) HeldClaimEventuallyConsistent(_ context.Context, _, claimant string) (*engine.Claim, error) {
	return s.claim(claimant)
}

func (s *Store) claim(claimant string) (*engine.Claim, error) {
	s.request()
	if held, found := s.claims[claimant]; found {
		return &held, nil
	}
	return nil, nil
}

// order sorts the items, all of them free.
func (s *shard) order() {
	slices.SortFunc(s.items, func(a, b engine.FreeItem) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	s.next = make([]int32, len(s.items)+1)
	for i := range s.next {
		s.next[i] = int32(i)
	}
}

// find is the place of a hash, or where it would be.
func (s *shard) find(h engine.Hash) (i int, there bool) {
	return slices.BinarySearchFunc(s.items, h, func(item engine.FreeItem, h engine.Hash) int { return bytes.Compare(item.Hash[:], h[:]) })
}

// free is the first free item from a place on, or the end. It shortens the way for
// the next one.
func (s *shard) free(i int) int {
	for int(s.next[i]) != i {
		s.next[i] = s.next[s.next[i]]
		i = int(s.next[i])
	}
	return i
}
