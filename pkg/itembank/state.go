package itembank

import "context"

// State reports what state a campaign is in, and its rules. SoldOut rests on the same
// proof as in Claim, with a read of one item a shard; the proof is remembered for a
// second. Claim answers ErrSoldOut for an Empty campaign. A load that was started
// makes a campaign SoldOut instead of Empty, also if it was cut before its first item.
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
			return c.bare(), state, nil
		}
		if c.knownSoldOut(s.started) {
			return c.bare(), SoldOut, nil
		}
		found, err := b.memoryOf(name).free.find(ctx, c, s)
		if err != nil {
			return Campaign{}, "", err
		}
		switch found.outcome {
		case itemFree:
			return c.bare(), Open, nil
		case nothingFree:
			return found.campaign.bare(), SoldOut, nil
		case nothingLoaded:
			return found.campaign.bare(), Empty, nil
		}
		c = found.campaign
	}
}
