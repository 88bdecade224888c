package itembank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// ForgetReport is the result of a Forget.
type ForgetReport struct {
	Scope    string
	Claimant string           // as the scope stores it
	Released []ForgottenClaim // the claims that were released
	Kept     []ForgottenClaim // the claims that were not released, because their rows contradict each other
	Blocked  int              // the slots that are blocked now
	// PurgedAfter is the time after which PurgeBlocks deletes the blocks; zero: they stay, or there are none.
	PurgedAfter time.Time
}

// ForgottenClaim is a claim that Forget found.
type ForgottenClaim struct {
	Claim    Claim
	Released Released // if the claim was released
	Err      error    // if the claim was kept; its family is ErrInconsistent
}

// ForgetOptions are the options of a Forget.
type ForgetOptions struct {
	// WithoutBlock leaves no block, and deletes the blocks that exist. Then no row names the claimant, and the claimant
	// can claim again, for example with an old link. Forget may then miss a claim that is made while it runs, so end
	// the claimant's access first.
	WithoutBlock bool
}

// Forget releases all claims that a claimant has in a scope, each by the rules of its campaign, as Release does. It
// leaves a block in each slot, as Block does. The transaction that releases a claim puts the block in the place of its
// row, so the claimant cannot claim again in between. No row but the blocks names the claimant: the row of a burned item
// does not say who held it. Forget does not reach copies of the rows, such as backups.
//
// If the rows of a claim contradict each other, the claim stays as it is. The claimant keeps this item and gets no
// other one in this slot.
//
// Forget is safe to repeat, and to interrupt: a repeat does the rest.
//
// Errors: *InvalidError; ErrNoCampaign if the scope has no campaign; ErrMoved and ErrRestored if a campaign of the scope
// has that mark; ErrTryAgain. After an error the report has the results up to then.
func (b *Operator) Forget(ctx context.Context, scope, claimant string, o ForgetOptions) (ForgetReport, error) {
	report := ForgetReport{Scope: scope, Claimant: claimant}
	keys, campaigns, err := b.slotsIn(ctx, scope, claimant)
	if err != nil {
		return report, err
	}
	marks := scopeMarks{b, scope, campaigns, b.clock.Now()}
	report.Claimant = keys[0].Claimant
	for _, key := range keys {
		if err = b.forgetSlot(ctx, key, o, &marks, &report); err != nil {
			break
		}
	}
	if report.Blocked > 0 {
		report.PurgedAfter = b.purgedAfter(campaigns)
	}
	return report, err
}

// forgetSlot repeats forgetOnce while other requests change the slot.
func (b *Operator) forgetSlot(
	ctx context.Context, key engine.ClaimKey, o ForgetOptions, marks *scopeMarks, report *ForgetReport,
) error {
	for range maxAttempts {
		if err := marks.check(ctx); err != nil {
			return err
		}
		if done, err := b.forgetOnce(ctx, key, o, report); done || err != nil {
			return err
		}
	}
	return slotChanged()
}

func slotChanged() error {
	return fmt.Errorf("%w: %d times another request changed the slot", ErrTryAgain, maxAttempts)
}

// forgetOnce reads a slot and changes it as Forget says. done is false if another request changed the slot meanwhile.
func (b *Operator) forgetOnce(
	ctx context.Context, key engine.ClaimKey, o ForgetOptions, report *ForgetReport,
) (done bool, err error) {
	held, err := b.heldClaim(ctx, key)
	switch {
	case err != nil:
		return false, err
	case held == nil && o.WithoutBlock:
		return true, nil
	case held == nil:
		done, err = b.putBlock(ctx, key)
	case !held.IsBlock():
		return b.forgetClaim(ctx, *held, o, report)
	case o.WithoutBlock:
		return b.deleteBlock(ctx, *held)
	default:
		done = true
	}
	if done {
		report.Blocked++
	}
	return done, err
}

// forgetClaim releases a claim. Unless o says otherwise, a block replaces its row. done is false if another request
// closed the claim.
func (b *Operator) forgetClaim(
	ctx context.Context, claim engine.Claim, o ForgetOptions, report *ForgetReport,
) (done bool, err error) {
	terms := closeTerms{state: engine.Burned}
	if !o.WithoutBlock {
		block, err := b.newBlock(claim.Key())
		if err != nil {
			return false, err
		}
		terms.next = &block
	}
	var closed closedClaim
	c, err := b.fixedRules(ctx, claim.Campaign)
	if err == nil {
		closed, err = b.closeClaim(ctx, c, claim, terms)
	}
	switch {
	case errors.Is(err, ErrInconsistent), errors.Is(err, ErrNoCampaign):
		report.Kept = append(report.Kept, ForgottenClaim{Claim: claimOf(claim), Err: err})
		return true, nil
	case err != nil || closed.Already:
		return false, err
	}
	report.Released = append(report.Released, ForgottenClaim{Claim: claimOf(claim), Released: closed.Released})
	if terms.next != nil {
		report.Blocked++
	}
	return true, nil
}

// ClaimsToForget returns the claims that a claimant has in a scope, in all its campaigns, without columns. It changes
// nothing.
//
// Errors: *InvalidError; ErrNoCampaign if the scope has no campaign; ErrTryAgain.
func (b *Operator) ClaimsToForget(ctx context.Context, scope, claimant string) ([]Claim, error) {
	keys, _, err := b.slotsIn(ctx, scope, claimant)
	if err != nil {
		return nil, err
	}
	return b.claimsInSlots(ctx, keys)
}

// claimsInSlots reads the claims in slots of a claimant, without blocks.
func (b *Operator) claimsInSlots(ctx context.Context, keys []engine.ClaimKey) (claims []Claim, err error) {
	for _, key := range keys {
		held, err := b.heldClaim(ctx, key)
		if err != nil {
			return nil, err
		}
		if held != nil && !held.IsBlock() {
			claims = append(claims, claimOf(*held))
		}
	}
	return claims, nil
}
