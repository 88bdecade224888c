package itembank

import (
	"context"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ruleCache keeps copies of campaigns. It does not keep names that do not exist: each request for such a name costs a
// read, but no memory.
type ruleCache struct {
	life   time.Duration
	mu     sync.Mutex
	copies map[string]ruleCopy
}

type ruleCopy struct {
	campaign Campaign
	readAt   time.Time // when the read began
	// claimed: a claim of this campaign was seen. So the campaign is never deleted, and its fixed settings stay valid.
	claimed bool
}

// sameCampaign is how long after a read the name certainly has the same campaign or none: the name of a deleted
// campaign is free again after DrainTime. The 5 s allow for differences between clocks.
const sameCampaign = DrainTime - 5*time.Second

func (r *ruleCache) get(name string, now time.Time) (Campaign, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.copies[name]
	return c.campaign, ok && elapsed(c.readAt, now) < r.life
}

// latest returns the copy, however old it is.
func (r *ruleCache) latest(name string) (Campaign, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.copies[name]
	return c.campaign, ok
}

// fixed returns the copy, however old it is, if a claim of the campaign was seen.
func (r *ruleCache) fixed(name string) (Campaign, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.copies[name]
	return c.campaign, ok && c.claimed
}

// sawClaim records that a claim of the campaign exists.
func (r *ruleCache) sawClaim(name string, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.copies[name]; ok && elapsed(c.readAt, now) < sameCampaign {
		c.claimed = true
		r.copies[name] = c
	}
}

func (r *ruleCache) put(c Campaign, readAt time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.copies[c.Name]
	if old.readAt.After(readAt) {
		return // a slow read must not replace the result of a later read
	}
	r.copies[c.Name] = ruleCopy{c, readAt, old.claimed}
}

func (r *ruleCache) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.copies, name)
}

// campaignRules returns the Bank's copy of a campaign. If the copy is too old, it reads the campaign.
func (b *Bank) campaignRules(ctx context.Context, name string) (Campaign, error) {
	if c, ok := b.rules.get(name, b.clock.Now()); ok {
		return c, nil
	}
	return b.readCampaign(ctx, name)
}

// fixedRules returns a campaign whose fixed settings are right: scope, shards, lives and OnEnd. A copy of any age has
// these, unless the campaign may have been deleted since.
func (b *Bank) fixedRules(ctx context.Context, name string) (Campaign, error) {
	if c, ok := b.rules.fixed(name); ok {
		return c, nil
	}
	return b.campaignRules(ctx, name)
}

// readCampaign reads a campaign consistently and keeps a copy.
func (b *Bank) readCampaign(ctx context.Context, name string) (Campaign, error) {
	started := b.clock.Now()
	row, err := b.store.Campaign(ctx, name)
	switch {
	case err != nil:
		return Campaign{}, err
	case row == nil || row.Mode == engine.Deleted:
		b.rules.forget(name)
		return Campaign{}, ErrNoCampaign
	}
	c := campaignOf(*row)
	c.copied = rowCopy{started, row.Version, row.EmptyVersion}
	b.rules.put(c, started)
	return c, nil
}
