package itembank

import (
	"context"
	"errors"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ForgetReport is the result of a Forget.
type ForgetReport struct {
	Scope    string
	Claimant string           // as the scope stores it
	Released []ForgottenClaim // the claims that were released
	Kept     []ForgottenClaim // the claims that were not released, because their rows contradict each other
}

// ForgottenClaim is a claim that Forget found.
type ForgottenClaim struct {
	Claim    Claim
	Released Released // if the claim was released
	Err      error    // if the claim was kept; its family is ErrInconsistent
}

// Forget releases all claims that a claimant has in a scope, each by the rules of its campaign, as Release does. No
// other row names a claimant: the row of a burned item does not say who held it. Forget does not reach copies of the
// rows, such as backups.
//
// Forget is safe to repeat: it then finds nothing. It may miss a claim that is made while it runs, so end the
// claimant's access first.
//
// Errors: *InvalidError; ErrNoCampaign if the scope has no campaign; ErrTryAgain. After an error the report has the
// results up to then.
func (b *Bank) Forget(ctx context.Context, scope, claimant string) (ForgetReport, error) {
	report := ForgetReport{Scope: scope, Claimant: claimant}
	held, err := b.ScopeClaims(ctx, scope, claimant)
	if err != nil {
		return report, err
	}
	for _, claim := range held {
		report.Claimant = claim.Claimant
		released, err := b.Release(ctx, claim.Campaign, claim.Claimant, claim.ID, InSlot(claim.Slot))
		switch {
		case errors.Is(err, ErrInconsistent), errors.Is(err, ErrNoCampaign):
			report.Kept = append(report.Kept, ForgottenClaim{Claim: claim, Err: err})
		case err != nil:
			return report, err
		case !released.Already:
			report.Released = append(report.Released, ForgottenClaim{Claim: claim, Released: released})
		}
	}
	return report, nil
}

// ScopeClaims returns the claims that a claimant has in a scope, in all its campaigns, without columns. It changes
// nothing.
//
// Errors: *InvalidError; ErrNoCampaign if the scope has no campaign; ErrTryAgain.
func (b *Bank) ScopeClaims(ctx context.Context, scope, claimant string) ([]Claim, error) {
	if err := ValidateName("scope", scope); err != nil {
		return nil, err
	}
	if err := ValidateClaimant(claimant); err != nil {
		return nil, err
	}
	c, err := b.campaignIn(ctx, scope)
	if err != nil {
		return nil, err
	}
	return b.claimsInSlots(ctx, c, claimant)
}

// claimsInSlots reads all slots of a claimant in the scope of a campaign.
func (b *Bank) claimsInSlots(ctx context.Context, c Campaign, claimant string) (claims []Claim, err error) {
	for slot := range c.PerClaimant {
		key, err := c.claimKey(claimant, slot+1)
		if err != nil {
			return nil, err
		}
		held, err := b.heldClaim(ctx, key)
		if err != nil {
			return nil, err
		}
		if held != nil {
			claims = append(claims, claimOf(*held))
		}
	}
	return claims, nil
}

// campaignIn returns any campaign of a scope. Use it only for the settings that all campaigns of a scope share.
func (b *Bank) campaignIn(ctx context.Context, scope string) (Campaign, error) {
	all, err := b.store.Campaigns(ctx)
	if err != nil {
		return Campaign{}, err
	}
	for _, row := range all {
		if row.Scope == scope && row.Mode != engine.Deleted {
			return campaignOf(row), nil
		}
	}
	return Campaign{}, ErrNoCampaign
}
