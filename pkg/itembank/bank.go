package itembank

import (
	"context"
	"crypto/rand"
	"io"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Bank hands out the items of campaigns. It is safe for concurrent use.
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
	lanes      lanes // of sweeps

	mu        sync.Mutex // guards campaigns and samples
	campaigns map[string]*campaignMemory
	samples   float64 // the random offset of CountFree's samples, 0 to 1; 0: not chosen yet
}

// campaignMemory is a Bank's memory of a campaign.
type campaignMemory struct {
	free    *freeList
	repeats repeats
}

// Option changes a default of a Bank.
type Option func(*Bank)

// WithCampaignCache sets how long the Bank uses a copy of a campaign's rules. The default is
// DefaultCampaignCache.
//
// With 0 it reads the rules for every call. On DynamoDB each claim then costs one more request and one more read
// unit. All claims of a campaign read the same row, and a partition serves 3,000 read units a second. So a campaign
// then takes at most 3,000 claims a second.
func WithCampaignCache(d time.Duration) Option { return func(b *Bank) { b.rules.life = d } }

// WithClock sets the clock. The default is the system's.
func WithClock(c Clock) Option { return func(b *Bank) { b.clock = c } }

// WithRandom sets the source of claim ids, random places and waiting times. It must
// be safe for concurrent use and, outside tests, unpredictable. The default is
// crypto/rand.Reader.
func WithRandom(r io.Reader) Option { return func(b *Bank) { b.random = r } }

// New makes a Bank over a store. Packages sqlitestore and dynamostore have stores.
func New(store engine.Store, options ...Option) *Bank {
	b := &Bank{
		store:     store,
		clock:     systemClock{},
		random:    rand.Reader,
		rules:     ruleCache{life: DefaultCampaignCache, copies: map[string]ruleCopy{}},
		campaigns: map[string]*campaignMemory{},
		lanes:     lanes{most: maxLanes},
	}
	for _, o := range options {
		o(b)
	}
	return b
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
