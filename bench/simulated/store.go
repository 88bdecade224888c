package simulated

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Store is an engine in memory with one campaign, behind a network. Its calls take time, and
// it counts those that a claim makes.
type Store struct {
	*memstore.Items
	world    *World
	campaign engine.Campaign

	Requests int
	Lost     int // takes of an item that was gone
}

// NewStore makes a store with one open campaign of so many items.
func NewStore(world *World, items, shards int) (*Store, error) {
	s := &Store{Items: memstore.NewItems(), world: world, campaign: engine.Campaign{
		Name: "spring", Mode: engine.ByTimes, Scope: "spring", Shards: shards, PageSize: 30,
		OnEnd: engine.Burn, CreatedAt: world.now,
	}}
	ctx := context.Background()
	if _, err := s.CreateCampaign(ctx, s.campaign); err != nil {
		return nil, err
	}
	for i := range items {
		value := fmt.Sprintf("SAVE-%07d", i)
		hash := engine.HashItem(value)
		shard := engine.Shard{Campaign: s.campaign.Name, Number: hash.ShardOf(shards)}
		item := engine.FreeItem{Shard: shard, Hash: hash, Value: value}
		if _, err := s.AddItems(ctx, []engine.AddRequest{{Item: item, LoadID: "load", Row: int64(i) + 1}}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Bank returns a Bank on the store with the time and the random numbers of the world, as
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
func (s *Store) Campaign(ctx context.Context, name string) (*engine.Campaign, error) {
	s.request()
	return s.Items.Campaign(ctx, name)
}

// FreeItems implements engine.Store. As on DynamoDB, a full page says that there is more,
// whether or not there is.
func (s *Store) FreeItems(ctx context.Context, shard engine.Shard, r engine.Range, limit int) (engine.FreePage, error) {
	s.request()
	page, err := s.Items.FreeItems(ctx, shard, r, limit)
	page.More = len(page.Items) == limit
	return page, err
}

// Take implements engine.Store.
func (s *Store) Take(ctx context.Context, item engine.FreeItem, claim engine.Claim) (engine.TakeResult, error) {
	s.request()
	result, err := s.Items.Take(ctx, item, claim)
	if result.ItemGone {
		s.Lost++
	}
	return result, err
}

// HeldClaim implements engine.Store.
func (s *Store) HeldClaim(
	ctx context.Context, scope, claimant string,
) (held *engine.Claim, conflict bool, err error) {
	s.request()
	return s.Items.HeldClaim(ctx, scope, claimant)
}

// HeldClaimEventuallyConsistent implements engine.Store.
func (s *Store) HeldClaimEventuallyConsistent(ctx context.Context, scope, claimant string) (*engine.Claim, error) {
	s.request()
	return s.Items.HeldClaimEventuallyConsistent(ctx, scope, claimant)
}
