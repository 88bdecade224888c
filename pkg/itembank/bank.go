package itembank

import (
	"context"
	"crypto/rand"
	"io"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Bank hands out the items of campaigns. It keeps copies of rules, pages of
// free items and the memory of empty shards; all of these only save requests,
// so any number of Banks in any number of processes may work on one store. A
// Bank is safe for concurrent use. Make one per process, or per Lambda container.
type Bank struct {
	store   engine.Store
	clock   Clock
	random  io.Reader
	rules   ruleCache
	mu      sync.Mutex // guards shelves
	shelves map[string]*shelf
}

// Option changes a Bank from its defaults.
type Option func(*Bank)

// WithCampaignCache sets how long a copy of a campaign's rules is used; 0 reads
// them for every call. The default is DefaultCampaignCache.
func WithCampaignCache(d time.Duration) Option { return func(b *Bank) { b.rules.life = d } }

// WithClock sets the clock that judges opening times and the age of pages.
func WithClock(c Clock) Option { return func(b *Bank) { b.clock = c } }

// WithRandom sets the source of claim ids, random places and jitter. It must
// be safe for concurrent use and, outside tests, unpredictable.
func WithRandom(r io.Reader) Option { return func(b *Bank) { b.random = r } }

// New makes a Bank over a store.
func New(store engine.Store, options ...Option) *Bank {
	b := &Bank{
		store:   store,
		clock:   systemClock{},
		random:  rand.Reader,
		rules:   ruleCache{life: DefaultCampaignCache, copies: map[string]ruleCopy{}},
		shelves: map[string]*shelf{},
	}
	for _, o := range options {
		o(b)
	}
	return b
}

// Clock is the time, for tests to replace.
type Clock interface {
	Now() time.Time
	// Sleep waits, or returns the context's error once it is done.
	Sleep(ctx context.Context, d time.Duration) error
}
