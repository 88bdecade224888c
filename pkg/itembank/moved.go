package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A restored store is a consistent copy of an older moment, so Reconcile finds nothing wrong in it. Two marks beside
// the mode of a campaign keep what customers saw since that moment:
//
//   - Moved, in the old store: no claim is made, confirmed, released or swept any more. So what a replay reads there
//     stays true.
//   - Restored, in the new store: nothing is handed out, and no claim is released by its holder or swept. A claim may
//     be gone in the old store. A hold is confirmed if the new store has it: a payment must not wait for a replay.
//
// OpenCampaign, CloseCampaign and ChangeCampaign never change a mark. Restored is cleared only by a ReplayStore that
// refused nothing, and that began to read DrainTime after it saw all campaigns of the scope moved in the old store. By
// then requests that used an older copy of the rules are over. OpenWithoutReplay and CloseWithoutReplay clear both marks,
// for a person who says that newer claims are lost.

// ErrMoved and ErrRestored are members of ErrRefused, but a repeat succeeds once the campaign is open in the new store.
// They come as a *MarkedError, which names the campaign.
var (
	// ErrMoved says that the campaign goes on in another store, or is about to.
	ErrMoved = member(ErrRefused, "the campaign is marked as moved: it goes on in another store")
	// ErrRestored says that the store is a copy, and that what customers saw since was not replayed into it.
	ErrRestored = member(ErrRefused, "the campaign is marked as restored: what customers saw since the copy was not replayed yet")
)

// MarkedError names the campaign whose mark is in the way. It wraps ErrMoved or ErrRestored.
type MarkedError struct {
	Campaign string
	Err      error
}

func (e *MarkedError) Error() string { return fmt.Sprintf("%v (%s)", e.Err, e.Campaign) }

// Unwrap returns ErrMoved or ErrRestored.
func (e *MarkedError) Unwrap() error { return e.Err }

// marked returns ErrMoved or ErrRestored if the campaign has a mark.
func (c Campaign) marked() error {
	switch {
	case c.Moved:
		return &MarkedError{c.Name, ErrMoved}
	case c.Restored:
		return &MarkedError{c.Name, ErrRestored}
	}
	return nil
}

// unmarkedCampaign reads a campaign as Campaign does. If it has a mark, it returns an error.
func (b *Bank) unmarkedCampaign(ctx context.Context, name string) (Campaign, error) {
	c, err := b.Campaign(ctx, name)
	if err != nil {
		return c, err
	}
	return c, c.marked()
}

// notMarked returns an error if the Bank's copy of a campaign has a mark.
func (b *Bank) notMarked(ctx context.Context, campaign string) error {
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return err
	}
	return c.marked()
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
func (b *Bank) scopeNotMarked(ctx context.Context, scope, except string) error {
	campaigns, err := b.campaignsIn(ctx, scope)
	if err != nil {
		return err
	}
	return noneMarked(campaigns, except)
}

// scopeMarks are the marks of the campaigns of a scope, for a call that changes many rows.
type scopeMarks struct {
	bank      *Bank
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

// CloseMoved closes a campaign as CloseCampaign does, and marks it as moved: claims, confirmations and releases return
// ErrMoved, and sweeps leave it alone. Use it in the store that is being left, for every campaign of the scope, before
// the last ReplayStore. CloseMoved is safe to repeat.
//
// Errors: as CloseCampaign.
func (b *Bank) CloseMoved(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedByHand, moved: true})
}

// CloseRestored closes a campaign as CloseUntilReconciled does, and marks it as restored: claims return ErrRestored, and
// sweeps leave it alone. Confirm confirms the holds that the store has. Use it in a restored store before anything else
// uses the store. If the copy was made of a store that was moved, it clears that mark. CloseRestored is safe to repeat.
//
// Errors: as CloseCampaign.
func (b *Bank) CloseRestored(ctx context.Context, name string) error {
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
func (b *Bank) Unreplayed(ctx context.Context, name string) (u Unreplayed, err error) {
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
func (b *Bank) OpenWithoutReplay(ctx context.Context, name string) error {
	return b.open(ctx, name, modeChange{mode: engine.OpenByHand, unmark: true})
}

// CloseWithoutReplay closes a campaign as CloseCampaign does, and clears its marks, as OpenWithoutReplay does. Afterwards
// its claims can be released, and the other campaigns of its scope can be opened.
//
// Errors: as CloseCampaign.
func (b *Bank) CloseWithoutReplay(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedByHand, unmark: true})
}
