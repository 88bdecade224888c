package itembank

import (
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// unmarkedCampaign reads a campaign as Campaign does. If it has a mark, it returns an error.
func (b *Operator) unmarkedCampaign(ctx context.Context, name string) (Campaign, error) {
	c, err := b.Campaign(ctx, name)
	if err != nil {
		return c, err
	}
	return c, c.marked()
}

// noneMarked returns an error if one of the campaigns has a mark, apart from the campaign except.
func noneMarked(campaigns []engine.Campaign, except string) error {
	for _, row := range campaigns {
		if err := campaignOf(row).marked(); err != nil && row.Name != except {
			return err
		}
	}
	return nil
}

// scopeNotMarked is noneMarked for the campaigns of a scope.
func (b *Operator) scopeNotMarked(ctx context.Context, scope, except string) error {
	campaigns, err := b.campaignsIn(ctx, scope)
	if err != nil {
		return err
	}
	return noneMarked(campaigns, except)
}

// scopeMarks are the marks of the campaigns of a scope, for a call that changes many rows.
type scopeMarks struct {
	bank      *Operator
	scope     string
	campaigns []engine.Campaign
	readAt    time.Time
}

// check returns an error if a campaign of the scope has a mark. It reads the campaigns again when they are as old as the
// rules that other requests use.
func (m *scopeMarks) check(ctx context.Context) error {
	if now := m.bank.clock.Now(); elapsed(m.readAt, now) >= DefaultCampaignCache {
		campaigns, err := m.bank.campaignsIn(ctx, m.scope)
		if err != nil {
			return err
		}
		m.campaigns, m.readAt = campaigns, now
	}
	return noneMarked(m.campaigns, "")
}

// CloseMoved closes a campaign as CloseCampaign does, and marks it as moved: claims, confirmations, prolongations and
// releases return ErrMoved, and sweeps leave it alone. Use it in the store that is being left, for every campaign of the
// scope, before the last ReplayStore. CloseMoved is safe to repeat.
//
// Errors: as CloseCampaign.
func (b *Operator) CloseMoved(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedByHand, moved: true})
}

// CloseRestored closes a campaign as CloseUntilReconciled does, and marks it as restored: claims return ErrRestored, and
// sweeps leave it alone. Confirm confirms the holds that the store has. Use it in a restored store before anything else
// uses the store. If the copy was made of a store that was moved, it clears that mark. CloseRestored is safe to repeat.
//
// Errors: as CloseCampaign.
func (b *Operator) CloseRestored(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedUntilReconciled, unmark: true, restored: true})
}

// Unreplayed says what OpenWithoutReplay gives up.
type Unreplayed struct {
	Moved, Restored bool // the marks of the campaign
	// Newest is when the newest claim of the campaign was made that the store knows; zero: it knows none.
	Newest time.Time
}

// Unreplayed returns what a call of OpenWithoutReplay or CloseWithoutReplay would give up. It changes nothing. It reads
// all claims of the scope.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain.
func (b *Operator) Unreplayed(ctx context.Context, name string) (u Unreplayed, err error) {
	row, err := b.namedCampaign(ctx, name)
	if err != nil {
		return u, err
	}
	u.Moved, u.Restored = row.Moved, row.Restored
	err = b.eachClaim(ctx, row.Scope, func(claim engine.Claim) error {
		if claim.Campaign == name && claim.ClaimedAt.After(u.Newest) {
			u.Newest = claim.ClaimedAt
		}
		return nil
	})
	return u, err
}

// OpenWithoutReplay opens a campaign as OpenCampaign does, and clears its marks. It is for a store whose newer version
// is gone. Whatever happened in another store since the copy is lost: claims, confirmations, releases and erasures. So
// an item that a customer saw may go to another one, also in a campaign that burns items. Unreplayed says before what
// the store knows. OpenWithoutReplay is safe to repeat.
//
// Errors: the errors of OpenCampaign; ErrMoved and ErrRestored only if another campaign of the scope has a mark.
func (b *Operator) OpenWithoutReplay(ctx context.Context, name string) error {
	return b.open(ctx, name, modeChange{mode: engine.OpenByHand, unmark: true})
}

// CloseWithoutReplay closes a campaign as CloseCampaign does, and clears its marks, as OpenWithoutReplay does. Afterwards
// its claims can be released, and the other campaigns of its scope can be opened.
//
// Errors: as CloseCampaign.
func (b *Operator) CloseWithoutReplay(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedByHand, unmark: true})
}
