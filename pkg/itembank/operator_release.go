package itembank

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Release ends a claim, for an operator. The campaign's OnEnd decides whether its item goes back to the bank or is
// burned. claimID is the id of the claim that the caller saw, so Release never ends a later claim. Release is safe to
// repeat: it then reports Already.
//
// If the item's row says that the item ended, the item stays as it is. Such a release settles an inconsistency of the
// kind "held-and-ended".
//
// Release works in a campaign that is Restored, for claims that ReplayStore refuses. If the old store has the claim, the
// replay makes it again.
//
// Errors: *InvalidError; ErrNoCampaign; *ClaimedElsewhereError if the claim belongs to
// another campaign of the scope; ErrMoved; ErrTryAgain; the family ErrInconsistent.
func (b *Operator) Release(
	ctx context.Context, campaign, claimant, claimID string, options ...ClaimOption,
) (Released, error) {
	c, key, err := b.keyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Released{}, err
	}
	if err := b.notMarked(ctx, campaign); err != nil && !errors.Is(err, ErrRestored) {
		return Released{}, err
	}
	held, err := b.heldForRelease(ctx, c, key, claimID)
	if err != nil || held == nil {
		return Released{Already: err == nil}, err
	}
	closed, err := b.closeClaim(ctx, c, *held, closeTerms{state: engine.Burned})
	return closed.Released, err
}
