package itembank

import "context"

// SweepReport says what a sweep did.
type SweepReport struct {
	Returned int64 `json:"returned"` // items of ended claims that are in the bank again
	Burned   int64 `json:"burned"`   // items of ended claims that have ended with them
	Expired  int64 `json:"expired"`  // free items whose life had ended
}

// Sweep closes the campaign's claims that ended longer than the grace ago, and
// takes free items out whose life has ended. Requests do the same with what they
// meet, so a sweep only makes items come back, and counts come right, sooner. It
// reads all claims of the scope and the whole bank. It is safe to repeat, to
// interrupt, and to run several times at once.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain, the family ErrDifference. The
// report says what was done also when there is an error.
func (b *Bank) Sweep(ctx context.Context, campaign string) (SweepReport, error) {
	var report SweepReport
	c, err := b.Campaign(ctx, campaign)
	if err != nil {
		return report, err
	}
	if err := b.sweepClaims(ctx, c, &report); err != nil {
		return report, err
	}
	return report, b.sweepBank(ctx, c, &report)
}

func (b *Bank) sweepClaims(ctx context.Context, c Campaign, report *SweepReport) error {
	return b.eachClaim(ctx, c.Scope, func(claim Claim) error {
		if claim.Campaign != c.Name || !claim.closable(b.now()) {
			return nil
		}
		closed, returned, err := b.closeEnded(ctx, claim)
		switch {
		case !closed || err != nil:
			return err
		case returned:
			report.Returned++
		default:
			report.Burned++
		}
		return nil
	})
}

func (b *Bank) sweepBank(ctx context.Context, c Campaign, report *SweepReport) error {
	return b.eachFreePage(ctx, c, func(items []FreeItem) error {
		_, ended := partition(items, b.now())
		for len(ended) > 0 {
			n := min(len(ended), MaxAddItems)
			answers, err := b.endItems(ctx, endings(ended[:n], Expired, b.now()))
			if err != nil {
				return err
			}
			for _, a := range answers {
				if a == EndedNow {
					report.Expired++
				}
			}
			ended = ended[n:]
		}
		return nil
	})
}

// eachClaim calls do for the claims of a scope.
func (b *Bank) eachClaim(ctx context.Context, scope string, do func(Claim) error) error {
	for cursor := ""; ; {
		claims, next, err := b.store.ListClaims(ctx, scope, cursor)
		if err != nil {
			return err
		}
		for _, claim := range claims {
			if err := do(claim); err != nil {
				return err
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// listPage is how many free items are read at a time where all are read.
const listPage = 1000

// eachFreePage calls do for the free items of a campaign, of all generations.
func (b *Bank) eachFreePage(ctx context.Context, c Campaign, do func([]FreeItem) error) error {
	for generation := 1; generation <= c.Generation; generation++ {
		for n := range c.Shards {
			if err := b.eachPageOf(ctx, Shard{c.Name, generation, n}, do); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Bank) eachPageOf(ctx context.Context, s Shard, do func([]FreeItem) error) error {
	for r := (Range{}); ; {
		page, err := b.store.FreeItems(ctx, s, r, listPage)
		if err != nil {
			return err
		}
		if err := do(page.Items); err != nil || !page.More {
			return err
		}
		if len(page.Items) > 0 {
			r.After = &page.Items[len(page.Items)-1].Hash
		}
	}
}
