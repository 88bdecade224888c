package itembank

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ClaimOption selects the claim that a call is about.
type ClaimOption func(*claimSelection)

// InSlot names the slot of a claim, from 1 to Settings.PerClaimant. It is for campaigns whose claimants can have
// several claims. Without InSlot a call is about slot 1.
//
// The caller chooses the slot, so that a repeated call is about the same claim. The Bank does not choose a free slot:
// a caller who lost the reply would get a second item.
func InSlot(n int) ClaimOption { return func(s *claimSelection) { s.slot = n } }

// claimSelection holds the options of a call.
type claimSelection struct {
	slot  int
	items []string
}

func selectionOf(options []ClaimOption) claimSelection {
	s := claimSelection{slot: 1}
	for _, o := range options {
		o(&s)
	}
	return s
}

// claimKey returns the key of a claim: the claimant as the scope stores it, and the slot. Every method of a Bank that
// takes a claimant calls it.
func (c Campaign) claimKey(claimant string, slot int) (engine.ClaimKey, error) {
	normal, err := c.claimant(claimant)
	if err == nil && (slot < 1 || slot > c.PerClaimant) {
		detail := fmt.Sprintf("must be 1 to %d in campaign %q, is %d", c.PerClaimant, c.Name, slot)
		if c.PerClaimant == 1 {
			const form = "is %d, and a claimant has one claim in campaign %q; per-claimant is set when a campaign is created"
			detail = fmt.Sprintf(form, slot, c.Name)
		}
		err = &InvalidError{"slot", detail}
	}
	return engine.ClaimKey{Scope: c.Scope, Claimant: normal, Slot: slot}, err
}

// keyOf returns the key of a claim, and the campaign, of which only the fixed settings are current.
func (b *Bank) keyOf(
	ctx context.Context, campaign, claimant string, options []ClaimOption,
) (c Campaign, key engine.ClaimKey, err error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return c, key, err
	}
	if c, err = b.fixedRules(ctx, campaign); err != nil {
		return c, key, err
	}
	key, err = c.claimKey(claimant, selectionOf(options).slot)
	return c, key, err
}
