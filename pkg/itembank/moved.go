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
// then requests that used an older copy of the rules are over. OpenWithoutReplay clears both marks, for a person who
// says that newer claims are lost.

// ErrMoved and ErrRestored are members of ErrRefused, but a repeat succeeds once the campaign is open in the new store.
var (
	// ErrMoved says that the campaign goes on in another store, or is about to.
	ErrMoved = member(ErrRefused, "the campaign is marked as moved: it goes on in another store")
	// ErrRestored says that the store is a copy, and that what customers saw since was not replayed into it.
	ErrRestored = member(ErrRefused, "the campaign is marked as restored: what customers saw since the copy was not replayed yet")
)

// marked returns ErrMoved or ErrRestored if the campaign has a mark.
func (c Campaign) marked() error {
	switch {
	case c.Moved:
		return ErrMoved
	case c.Restored:
		return ErrRestored
	}
	return nil
}

// notMarked returns an error if the Bank's copy of a campaign has a mark.
func (b *Bank) notMarked(ctx context.Context, campaign string) error {
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return err
	}
	return c.marked()
}

// noneMarked returns an error if one of the campaigns has a mark.
func noneMarked(campaigns []engine.Campaign) error {
	for _, row := range campaigns {
		if err := campaignOf(row).marked(); err != nil {
			return fmt.Errorf("%w (%s)", err, row.Name)
		}
	}
	return nil
}

// CloseMoved closes a campaign as CloseCampaign does, and marks it as moved: claims, confirmations and releases return
// ErrMoved, and sweeps leave it alone. Use it in the store that is being left, for every campaign of the scope, before
// the last ReplayStore. CloseMoved is safe to repeat.
//
// Errors: as CloseCampaign.
func (b *Bank) CloseMoved(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedByHand, moved: true})
}

// CloseRestored closes a campaign as CloseUntilReconciled does, and marks it as restored: claims and releases return
// ErrRestored, and sweeps leave it alone. Confirm confirms the holds that the store has. Use it in a restored store
// before anything else uses the store. CloseRestored is safe to repeat.
//
// Errors: as CloseCampaign.
func (b *Bank) CloseRestored(ctx context.Context, name string) error {
	return b.closeCampaign(ctx, name, modeChange{mode: engine.ClosedUntilReconciled, restored: true})
}

// Unreplayed says what OpenWithoutReplay gave up.
type Unreplayed struct {
	Moved, Restored bool // the marks that the campaign had
	// Newest is when the newest claim of the campaign was made that the store knows; zero: it knows none.
	Newest time.Time
}

// OpenWithoutReplay opens a campaign as OpenCampaign does, and clears its marks. It is for a store whose newer version
// is gone. Whatever happened in another store since the copy is lost: claims, confirmations, releases and erasures. So
// an item that a customer saw may go to another one, also in a campaign that burns items.
//
// A campaign without marks is opened as by OpenCampaign. OpenWithoutReplay is safe to repeat. It reads all claims of
// the scope.
//
// Errors: the errors of OpenCampaign but ErrMoved and ErrRestored.
func (b *Bank) OpenWithoutReplay(ctx context.Context, name string) (given Unreplayed, err error) {
	row, err := b.namedCampaign(ctx, name)
	if err != nil {
		return given, err
	}
	given.Moved, given.Restored = row.Moved, row.Restored
	err = b.eachClaim(ctx, row.Scope, func(claim engine.Claim) error {
		if claim.Campaign == name && claim.ClaimedAt.After(given.Newest) {
			given.Newest = claim.ClaimedAt
		}
		return nil
	})
	if err != nil {
		return given, err
	}
	return given, b.open(ctx, *row, modeChange{mode: engine.OpenByHand, unmark: true})
}

// mayOpen returns an error if a mark of the campaign, or of another one of its scope, prevents that it is opened.
func (b *Bank) mayOpen(ctx context.Context, row engine.Campaign) error {
	if err := campaignOf(row).marked(); err != nil {
		return err
	}
	campaigns, err := b.campaignsIn(ctx, row.Scope)
	if err != nil {
		return err
	}
	return noneMarked(campaigns)
}
