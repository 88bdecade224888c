package simulated

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Store is an engine in memory with one open campaign, behind a network.
type Store struct {
	*memstore.Items
	model    Model
	campaign engine.Campaign

	mu           sync.Mutex // guards the rest
	bank, claims *table     // nil without limits
	cost         Cost
}

// Cost is what requests came to.
type Cost struct {
	Requests       int // the SDK's repetitions too
	Lost           int // takes of an item that was gone
	ItemThrottled  int // takes that the partition of the bank row throttled
	ClaimThrottled int // takes that the partition of the claim row throttled
	ReadsThrottled int

	ClosesThrottled int
	WriteUnits      float64
	ReadUnits       float64
}

// rowSize is the size of a bank or claim row in bytes, about.
const rowSize = 120

// NewStore makes a store with the items of the model.
func NewStore(m Model) (*Store, error) {
	s := &Store{Items: memstore.NewItems(), model: m, campaign: engine.Campaign{
		Name: "spring", Mode: engine.ByTimes, Scope: "spring", Shards: m.Shards, PageSize: 30,
		OnEnd: cmp.Or(m.OnEnd, engine.Burn), Hold: m.Hold, CreatedAt: time.Now(),
	}}
	if m.Limits != nil {
		s.bank, s.claims = newTable("bank", m), newTable("claims", m)
	}
	ctx := context.Background()
	if _, err := s.CreateCampaign(ctx, s.campaign); err != nil {
		return nil, err
	}
	for i := range m.Items {
		value := fmt.Sprintf("SAVE-%07d", i)
		hash := engine.HashItem(value)
		shard := engine.Shard{Campaign: s.campaign.Name, Number: hash.ShardOf(m.Shards)}
		item := engine.FreeItem{Shard: shard, Hash: hash, Value: value}
		if _, err := s.AddItems(ctx, []engine.AddRequest{{Item: item, LoadID: "load", Row: int64(i) + 1}}); err != nil {
			return nil, err
		}
	}
	return s, s.finishLoad(ctx)
}

// finishLoad records a finished load, which loaded the items.
func (s *Store) finishLoad(ctx context.Context) error {
	if _, err := s.NextVersion(ctx, s.campaign.Name); err != nil {
		return err
	}
	_, _, err := s.StartLoad(ctx, engine.Load{Campaign: s.campaign.Name, Digest: "load", Number: 1, Finished: true}, false)
	return err
}

// Name is the name of the campaign.
func (s *Store) Name() string { return s.campaign.Name }

// Cost returns the counted costs so far.
func (s *Store) Cost() Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cost
}

func (s *Store) count(change func(c *Cost)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.cost)
}

// forgetCost begins to count anew.
func (s *Store) forgetCost() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cost = Cost{}
	if s.model.Limits != nil {
		s.bank.forgetSpent()
		s.claims.forgetSpent()
	}
}

// Bank returns the Bank of a container, with the clock of production.
func (s *Store) Bank(number int) *itembank.Operator {
	c := &container{Store: s, number: number, sent: map[string]int{}}
	return itembank.NewOperator(c, itembank.WithRandom(&source{rng: draw(s.model.Seed, fmt.Sprintf("container %d", number))}))
}

// container is the engine as the Bank of one container uses it.
type container struct {
	*Store
	number int

	mu   sync.Mutex
	sent map[string]int // the number of requests, by their subject
}

// send waits for as long as a request takes, and cost it.
func (c *container) send(ctx context.Context, about string) error {
	r := c.random(about)
	c.count(func(n *Cost) { n.Requests++ })
	return pause.For(ctx, untilTurn(c.number, c.model.Latency.of(r)))
}

// random returns the random numbers of the next request about something.
func (c *container) random(about string) *rand.Rand {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent[about]++
	return draw(c.model.Seed, fmt.Sprintf("request %d %s %d", c.number, about, c.sent[about]))
}

// reading is a read of some rows of one partition key.
type reading struct {
	table    *table
	key      string
	about    string
	unit     float64 // read units for 4 KB
	attempts int     // of the SDK, while it is throttled
}

// The read units for 4 KB.
const (
	eventual   = 0.5
	consistent = 1
	isolated   = 2 // in a transaction
)

// read makes a read, and repeats it as the SDK does while it is throttled. result returns the number of rows.
func (c *container) read(ctx context.Context, r reading, result func() (rows int, err error)) error {
	for attempt := 1; ; attempt++ {
		if err := c.send(ctx, r.about); err != nil {
			return err
		}
		rows, err := result()
		if err != nil {
			return err
		}
		if c.spendRead(r.table, r.key, r.unit*math.Ceil(float64(max(rows, 1)*rowSize)/4096)) {
			return nil
		}
		if attempt == r.attempts {
			return engine.ErrThrottled
		}
		if err := pause.For(ctx, c.model.Limits.Retries.wait(c.random("retry "+r.about))); err != nil {
			return err
		}
	}
}

// attempts is the number of attempts of the SDK for a read outside a transaction.
func (s *Store) attempts() int {
	if s.model.Limits == nil {
		return 1
	}
	return s.model.Limits.Retries.Attempts
}

// spendRead spends the units of a read, if its partition has them.
func (s *Store) spendRead(t *table, key string, units float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t != nil {
		reads := &t.partition(key).reads
		if !reads.has(units) {
			s.cost.ReadsThrottled++
			return false
		}
		reads.spend(units)
	}
	s.cost.ReadUnits += units
	return true
}

// spendWrite spends the units of a write to one row, if its partition has them.
func (s *Store) spendWrite(t *table, key string, units float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t != nil {
		writes := &t.partition(key).writes
		if !writes.has(units) {
			return false
		}
		writes.spend(units)
	}
	s.cost.WriteUnits += units
	return true
}

// The write units of each row of a transaction, and of an entry of the index.
const (
	takeUnits  = 2
	indexUnits = 1
)

// spendTake spends the units of a Take, if both partitions have them.
func (s *Store) spendTake(item engine.FreeItem, claim engine.Claim) (throttled engine.TakeResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model.Limits != nil {
		bank := &s.bank.partition(shardKey(item.Shard.Number)).writes
		claims := &s.claims.partition(s.claimKey(claim.Claimant)).writes
		itemThrottled, claimThrottled := !bank.has(takeUnits), !claims.has(takeUnits)
		if itemThrottled {
			s.cost.ItemThrottled++
		}
		if claimThrottled {
			s.cost.ClaimThrottled++
		}
		if itemThrottled || claimThrottled {
			return engine.TakeResult{ItemThrottled: itemThrottled, ClaimThrottled: claimThrottled}
		}
		bank.spend(takeUnits)
		claims.spend(takeUnits)
	}
	s.cost.WriteUnits += 2 * takeUnits
	return engine.TakeResult{}
}

// claimKey is the partition key of a claimant's claims.
func (s *Store) claimKey(claimant string) string {
	if s.model.Limits == nil {
		return ""
	}
	return claimKey(engine.HashItem(claimant).ShardOf(s.model.Limits.ClaimKeys))
}

// Campaign implements engine.Store.
func (c *container) Campaign(ctx context.Context, name string) (row *engine.Campaign, err error) {
	r := reading{c.bank, campaignKey, campaignKey, consistent, c.attempts()}
	err = c.read(ctx, r, func() (int, error) {
		row, err = c.Items.Campaign(ctx, name)
		return 1, err
	})
	return row, err
}

// Loads implements engine.Store.
func (c *container) Loads(ctx context.Context, campaign string) (some bool, unfinished []engine.Load, err error) {
	r := reading{c.bank, loadsKey, loadsKey, consistent, c.attempts()}
	err = c.read(ctx, r, func() (int, error) {
		some, unfinished, err = c.Items.Loads(ctx, campaign)
		return 1, err
	})
	return some, unfinished, err
}

// MarkEmpty implements engine.Store. A write that is throttled is not sent again here.
func (c *container) MarkEmpty(ctx context.Context, campaign string, version int64) (bool, error) {
	if err := c.send(ctx, "mark"); err != nil {
		return false, err
	}
	if !c.spendWrite(c.bank, campaignKey, 1) {
		return false, engine.ErrThrottled
	}
	return c.Items.MarkEmpty(ctx, campaign, version)
}

// FreeItems implements engine.Store. As on DynamoDB, a full page says that there is more,
// whether or not there is.
func (c *container) FreeItems(
	ctx context.Context, shard engine.Shard, within engine.Range, limit int, how engine.Consistency,
) (page engine.FreePage, err error) {
	key := shardKey(shard.Number)
	err = c.read(ctx, reading{c.bank, key, key, consistent, c.attempts()}, func() (int, error) {
		page, err = c.Items.FreeItems(ctx, shard, within, limit, how)
		page.More = len(page.Items) == limit
		return len(page.Items), err
	})
	return page, err
}

// Take implements engine.Store.
func (c *container) Take(ctx context.Context, items []engine.FreeItem, claim engine.Claim) (engine.TakeResult, error) {
	if err := c.send(ctx, "take"); err != nil {
		return engine.TakeResult{}, err
	}
	if throttled := c.spendTake(items[0], claim); !throttled.Taken() {
		return throttled, nil
	}
	result, err := c.Items.Take(ctx, items, claim)
	if result.ItemGone {
		c.count(func(n *Cost) { n.Lost++ })
	}
	return result, err
}

// HeldClaim implements engine.Store. A strong read is a transaction, which the SDK does not send again.
func (c *container) HeldClaim(
	ctx context.Context, key engine.ClaimKey, how engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	r := reading{c.claims, c.claimKey(key.Claimant), "claim", isolated, 1}
	if how == engine.Eventual {
		r = reading{c.claims, c.claimKey(key.Claimant), "claim", eventual, c.attempts()}
	}
	err = c.read(ctx, r, func() (int, error) {
		held, conflict, err = c.Items.HeldClaim(ctx, key, how)
		return 1, err
	})
	return held, conflict, err
}

// ItemRow implements engine.Store. The simulated claims have one item each.
func (c *container) ItemRow(ctx context.Context, campaign string, h engine.Hash) (row *engine.ItemRow, err error) {
	err = c.read(ctx, reading{c.bank, itemKey(h), "item " + h.String(), consistent, c.attempts()}, func() (int, error) {
		row, err = c.Items.ItemRow(ctx, campaign, h)
		return 1, err
	})
	return row, err
}

// CloseClaim implements engine.Store.
func (c *container) CloseClaim(ctx context.Context, r engine.CloseRequest) (engine.CloseResult, error) {
	if err := c.send(ctx, "close "+r.Claim.ID); err != nil {
		return engine.CloseResult{}, err
	}
	if !c.spendClose(r) {
		return engine.CloseResult{Throttled: true}, nil
	}
	return c.Items.CloseClaim(ctx, r)
}

// spendClose spends the units of a close that returns its item, if all three partitions have them: two units each for the
// claim row, the bank row and the item row. The index takes another unit, and is never throttled.
func (s *Store) spendClose(r engine.CloseRequest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.model.Limits != nil {
		buckets := []*bucket{
			&s.claims.partition(s.claimKey(r.Claim.Claimant)).writes,
			&s.bank.partition(shardKey(r.Return.Shard.Number)).writes,
			&s.bank.partition(itemKey(r.Claim.ItemHash)).writes,
		}
		for _, b := range buckets {
			if !b.has(takeUnits) {
				s.cost.ClosesThrottled++
				return false
			}
		}
		for _, b := range buckets {
			b.spend(takeUnits)
		}
	}
	s.cost.WriteUnits += 3*takeUnits + indexUnits
	return true
}

// DueClaims implements engine.Store. The index is never throttled.
func (c *container) DueClaims(
	ctx context.Context, shard engine.Shard, after, before time.Time, limit int,
) (page engine.DuePage, err error) {
	r := reading{nil, "", fmt.Sprintf("due %d", shard.Number), eventual, 1}
	err = c.read(ctx, r, func() (int, error) {
		page, err = c.Items.DueClaims(ctx, shard, after, before, limit)
		return len(page.Claims), err
	})
	return page, err
}
