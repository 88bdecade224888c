package itembank

import (
	"context"
	"crypto/rand"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oncebox/oncebox/internal/shared/repeats"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Bank hands out the items of campaigns: it serves the requests of claimants. An Operator manages the campaigns. A Bank
// is safe for concurrent use.
//
// A Bank keeps copies of rules, pages of free items, and a note of each shard that a read showed empty. These only
// save requests, so any number of Banks in any number of processes can work on one store. Make one Bank per process
// or Lambda container.
type Bank struct {
	store  engine.Store
	clock  Clock
	random io.Reader
	rules  ruleCache
	rate   *rate.Limiter // of the operations that work on many rows; nil: no limit

	contention contention
	listings   listings

	mu        sync.Mutex // guards campaigns
	campaigns map[string]*campaignMemory
}

// campaignMemory is a Bank's memory of a campaign.
type campaignMemory struct {
	free    *freeList
	repeats repeats.Share
}

// Option changes a default of a Bank or an Operator.
type Option func(*options)

// options are the defaults of New and NewOperator.
type options struct {
	cache  time.Duration
	clock  Clock
	random io.Reader
	rate   *rate.Limiter
	lanes  int
}

func newOptions(changes []Option) options {
	o := options{cache: DefaultCampaignCache, clock: systemClock{}, random: rand.Reader, lanes: maxLanes}
	for _, change := range changes {
		change(&o)
	}
	return o
}

// WithCampaignCache sets how long the Bank uses a copy of a campaign's rules. The default is
// DefaultCampaignCache.
//
// With 0 it reads the rules for every call. On DynamoDB each claim then costs one more request and one more read
// unit. All claims of a campaign read the same row, and a partition serves 3,000 read units a second. So a campaign
// then takes at most 3,000 claims a second.
func WithCampaignCache(d time.Duration) Option { return func(o *options) { o.cache = d } }

// WithClock sets the clock. The default is the system's.
func WithClock(c Clock) Option { return func(o *options) { o.clock = c } }

// WithRandom sets the source of claim ids, random places and waiting times. It must
// be safe for concurrent use and, outside tests, unpredictable. The default is
// crypto/rand.Reader.
func WithRandom(r io.Reader) Option { return func(o *options) { o.random = r } }

// New makes a Bank over a store. Packages sqlitestore and dynamostore have stores.
func New(store engine.Store, options ...Option) *Bank { return newBank(store, newOptions(options)) }

func newBank(store engine.Store, o options) *Bank {
	return &Bank{
		store:     store,
		clock:     o.clock,
		random:    o.random,
		rate:      o.rate,
		rules:     ruleCache{life: o.cache, copies: map[string]ruleCopy{}},
		campaigns: map[string]*campaignMemory{},
	}
}

// memoryOf returns the Bank's memory of a campaign.
func (b *Bank) memoryOf(campaign string) *campaignMemory {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.campaigns[campaign]
	if m == nil {
		m = &campaignMemory{free: newFreeList(b)}
		b.campaigns[campaign] = m
	}
	return m
}

// Clock tells the time and waits. Tests replace it.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or with the context's error when the context ends first.
	Sleep(ctx context.Context, d time.Duration) error
}
