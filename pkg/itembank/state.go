package itembank

import "context"

// State reads the rules of a campaign and its state. SoldOut has the same proof as in Claim. The Bank remembers for a
// second that the campaign is SoldOut, or that an item was free, and keeps the items that it read for claims. So however
// many callers ask, Claim waits for one read of State at most. For an Empty campaign, Claim returns ErrSoldOut. Once a
// load was started, the campaign is SoldOut instead of Empty, also if the load stopped before its first item. A Repair
// and a ReplayStore that add items count as loads.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Bank) State(ctx context.Context, name string) (Campaign, State, error) {
	if err := ValidateName("campaign", name); err != nil {
		return Campaign{}, "", err
	}
	c, err := b.campaignRules(ctx, name)
	if err != nil {
		return Campaign{}, "", err
	}
	s := &search{started: b.clock.Now(), anyItem: true}
	for {
		if state := c.StateAt(b.serverNow()); state != Open {
			return c.withoutCopy(), state, nil
		}
		if c.knownSoldOut(s.started) {
			return c.withoutCopy(), SoldOut, nil
		}
		found, err := b.memoryOf(name).free.find(ctx, c, s)
		if err != nil {
			return Campaign{}, "", err
		}
		switch found.outcome {
		case itemFree:
			return c.withoutCopy(), Open, nil
		case nothingFree:
			return found.campaign.withoutCopy(), SoldOut, nil
		case nothingLoaded:
			return found.campaign.withoutCopy(), Empty, nil
		}
		c = found.campaign
	}
}
