package itembank

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ClaimOption says more about the claim that a call is about.
type ClaimOption func(*which)

// InSlot names the slot of a claim, in a campaign whose claimants can have several
// (Settings.PerClaimant): 1 to that number. Without it a call is about slot 1.
//
// The caller chooses the slot, so that a repeated call is about the same claim. There is no "next free
// slot": a caller who lost the reply would get a second item.
func InSlot(n int) ClaimOption { return func(w *which) { w.slot = n } }

// which is what the options of a call say.
type which struct {
	slot  int
	items []string
}

func whichOf(options []ClaimOption) which {
	w := which{slot: 1}
	for _, o := range options {
		o(&w)
	}
	return w
}

// claimKey returns the key of a claim: the claimant as the scope has it, and the slot. Every method of a
// Bank that takes a claimant calls it.
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

// keyOf returns a campaign, for what never changes of it, and the key of a claim.
func (b *Bank) keyOf(
	ctx context.Context, campaign, claimant string, options []ClaimOption,
) (c Campaign, key engine.ClaimKey, err error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return c, key, err
	}
	if c, err = b.fixedRules(ctx, campaign); err != nil {
		return c, key, err
	}
	key, err = c.claimKey(claimant, whichOf(options).slot)
	return c, key, err
}
