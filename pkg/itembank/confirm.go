package itembank

import (
	"cmp"
	"context"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The members of ErrRefused that are about holds.
var (
	// ErrClaimEnded says that the claim to confirm, prolong or replace was released, replaced or has ended, and that the
	// claimant now holds another claim.
	ErrClaimEnded = member(ErrRefused, "the claim has ended: the claimant holds another claim")
	// ErrConfirmed says that a hold was confirmed, so that its holder cannot release it.
	ErrConfirmed = member(ErrRefused, "the claim is confirmed, so only an operator can release it")
)

// Confirm makes a hold permanent: it removes the end of the claim. claimID is the id of the claim that the caller
// saw, so Confirm never confirms a later claim. A hold can be confirmed until it is closed, at least 10 seconds after
// its end. Confirm is safe to repeat: it then returns the same claim.
//
// In a campaign that is Restored, Confirm confirms the holds that the store has and that may not be closed yet. The old
// store may have given the item of another hold to somebody else.
//
// Errors: *InvalidError, also if the campaign has no holds; ErrNoCampaign; ErrNoClaim if the
// claimant holds no claim; ErrNotEligible; ErrClaimEnded; *ClaimedElsewhereError if the claim belongs to another
// campaign of the scope; ErrMoved; ErrRestored if the campaign is Restored and the store cannot confirm the hold yet;
// ErrTryAgain.
func (b *Bank) Confirm(ctx context.Context, campaign, claimant, claimID string, options ...ClaimOption) (Claim, error) {
	c, key, err := b.holdKeyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Claim{}, err
	}
	if c, err = b.campaignRules(ctx, campaign); err != nil { // for the marks, which keyOf may have older
		return Claim{}, err
	}
	if c.Moved {
		return Claim{}, c.marked()
	}
	hold := engine.Claim{ID: claimID, Campaign: campaign, Scope: key.Scope, Claimant: key.Claimant, Slot: key.Slot}
	if c.Restored {
		if held, err := b.heldClaim(ctx, key); err != nil || !alive(held, hold, b.serverNow()) {
			return Claim{}, cmp.Or(err, c.marked())
		}
	}
	claim, err := b.confirmHold(ctx, hold)
	if err != nil {
		return Claim{}, err
	}
	return b.withColumns(ctx, c, claim)
}

// confirmHold confirms a hold, whatever the marks of its campaign.
func (b *Bank) confirmHold(ctx context.Context, hold engine.Claim) (Claim, error) {
	result, err := whileBusy(ctx, b, claimBusy, func() (engine.ConfirmResult, bool, error) {
		result, err := b.store.ConfirmClaim(ctx, hold)
		return result, result.Conflict, err
	})
	if err != nil {
		return Claim{}, err
	}
	return namedClaim(hold, result.Held)
}

// alive reports whether held is the hold, and may not be closed yet.
func alive(held *engine.Claim, hold engine.Claim, now time.Time) bool {
	return held != nil && held.ID == hold.ID && held.Campaign == hold.Campaign && !closable(*held, now)
}

// namedClaim returns the claim that a request names by its id, from the row that the claimant has now.
func namedClaim(hold engine.Claim, held *engine.Claim) (Claim, error) {
	switch {
	case held == nil:
		return Claim{}, ErrNoClaim
	case held.IsBlock():
		return Claim{}, ErrNotEligible
	case held.Campaign != hold.Campaign:
		return Claim{}, &ClaimedElsewhereError{held.Campaign}
	case held.ID != hold.ID:
		return Claim{}, ErrClaimEnded
	}
	return claimOf(*held), nil
}

// holdKeyOf is keyOf with an error unless the claims of the campaign are holds.
func (b *Bank) holdKeyOf(
	ctx context.Context, campaign, claimant string, options []ClaimOption,
) (Campaign, engine.ClaimKey, error) {
	c, key, err := b.keyOf(ctx, campaign, claimant, options)
	if err == nil && c.Hold == 0 {
		err = &InvalidError{"campaign", "has no holds: its claims are neither confirmed nor prolonged, nor released by their holders; `hold` is set when a campaign is created"}
	}
	return c, key, err
}
