package itembank

import (
	"context"
	"errors"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// slotsOf returns the keys of all slots of a claimant.
func (c Campaign) slotsOf(claimant string) ([]engine.ClaimKey, error) {
	keys := make([]engine.ClaimKey, c.PerClaimant)
	for i := range keys {
		var err error
		if keys[i], err = c.claimKey(claimant, i+1); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// slotKeys returns the keys of all slots of a claimant in the scope of a campaign.
func (b *Operator) slotKeys(ctx context.Context, campaign, claimant string) ([]engine.ClaimKey, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return nil, err
	}
	c, err := b.fixedRules(ctx, campaign)
	if err != nil {
		return nil, err
	}
	return c.slotsOf(claimant)
}

// ClaimPage is a part of the claims of a campaign.
type ClaimPage struct {
	Claims []Claim // in an order that the store chooses; may be empty
	Next   string  // the cursor of the next page; "": this is the last page
}

// ListClaims lists the claims of a campaign, page by page. from is "" for the first page, and then Next of the page
// before. A page has some hundreds to a few thousand claims. Next stays valid for other Banks and on other days.
//
// It reads all claims of the scope, also those of other campaigns, at the rate of WithRate. On DynamoDB they are in
// 256 partitions: a list takes at least 256 requests, and about one read unit for 20 claims. In a campaign with
// columns it also reads the row of each item, which costs one read unit each.
//
// The pages are read one after the other, while claims are made and end:
//
//   - A claim that exists from the first page to the last is listed once, as it was when its page was read.
//   - A claim that is made, confirmed or closed meanwhile is listed as it was before, as it is
//     afterwards, or not at all.
//   - Each slot of a claimant is listed at most once. If an item passes from one claimant to another
//     meanwhile, the list has it with one of them, with both, or not at all.
//
// Errors: *InvalidError, ErrNoCampaign, ErrTryAgain, the family ErrInconsistent.
func (b *Operator) ListClaims(ctx context.Context, campaign, from string) (page ClaimPage, err error) {
	if err := ValidateName("campaign", campaign); err != nil {
		return page, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return page, err
	}
	rows, next, err := b.store.ListClaims(ctx, c.Scope, from)
	if err != nil {
		return page, err
	}
	if err := b.pace(ctx, len(rows)); err != nil {
		return page, err
	}
	for _, row := range rows {
		if row.Campaign == campaign {
			page.Claims = append(page.Claims, claimOf(row))
		}
	}
	if c.Columns {
		if err := b.pace(ctx, len(page.Claims)); err != nil {
			return ClaimPage{}, err
		}
	}
	if err := b.addColumns(ctx, c, page.Claims); err != nil {
		return ClaimPage{}, err
	}
	page.Next = next
	return page, nil
}

// FindClaim returns the claim that a claimant holds, as HeldClaim does. If the claimant holds an item of another
// campaign of the scope, the error is a *ClaimedElsewhereError, which names that campaign.
//
// Errors: *InvalidError; ErrNoCampaign; ErrNoClaim; ErrNotEligible; *ClaimedElsewhereError; ErrTryAgain.
func (b *Operator) FindClaim(ctx context.Context, campaign, claimant string, options ...ClaimOption) (Claim, error) {
	c, key, err := b.keyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Claim{}, err
	}
	held, err := b.heldClaim(ctx, key)
	switch {
	case err != nil:
		return Claim{}, err
	case held == nil:
		return Claim{}, ErrNoClaim
	case held.IsBlock():
		return Claim{}, ErrNotEligible
	case held.Campaign != campaign:
		return Claim{}, &ClaimedElsewhereError{held.Campaign}
	}
	return b.withColumns(ctx, c, claimOf(*held))
}

// ClaimsOf returns the claims that a claimant has in the scope of a campaign, in all slots. It reads
// each slot. It changes nothing.
//
// Errors: *InvalidError; ErrNoCampaign; ErrTryAgain.
func (b *Operator) ClaimsOf(ctx context.Context, campaign, claimant string) ([]Claim, error) {
	keys, err := b.slotKeys(ctx, campaign, claimant)
	if err != nil {
		return nil, err
	}
	claims, err := b.claimsInSlots(ctx, keys)
	if err != nil {
		return nil, err
	}
	for i, claim := range claims {
		of, err := b.fixedRules(ctx, claim.Campaign)
		if err != nil {
			return nil, err
		}
		if claims[i], err = b.withColumns(ctx, of, claim); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

var errFound = errors.New("found")

// claimOfItem reads the claims of a scope until it finds the claim that holds an item of the campaign. It returns nil
// if no claim holds the item.
func (b *Operator) claimOfItem(ctx context.Context, c Campaign, item engine.Hash) (found *engine.Claim, err error) {
	err = b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		if claim.Campaign != c.Name || !slices.Contains(claim.Hashes(), item) {
			return nil
		}
		found = &claim
		return errFound
	})
	if found != nil {
		return found, nil
	}
	return nil, err
}
