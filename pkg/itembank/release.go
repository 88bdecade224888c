package itembank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A claim ends in one way: one transaction deletes its row by its id, and returns its
// item to the bank or marks the item's row. Release, requests that meet an ended claim,
// and Sweep all end claims in closeClaim.

// Released says what a Release did. One of its fields is set.
type Released struct {
	Already  bool   // the claimant did not hold this claim any more; nothing was changed
	Returned bool   // the item went back to the bank
	Ended    string // how the item ended: "burned", "expired" (its own life was over) or "withdrawn"
}

// Release ends a claim. By the campaign's OnEnd its item goes back to the bank or is
// burned. The claim's id makes sure that Release ends the claim that the caller saw,
// and no later one. Release is safe to repeat and then reports Already.
//
// An item whose row says that it ended stays as it is; this settles an inconsistency
// of the kind "held-and-ended".
//
// Errors: *InvalidError; ErrNoCampaign; *ClaimedElsewhereError if the claim belongs to
// another campaign of the scope; ErrTryAgain; the family ErrInconsistent.
func (b *Bank) Release(ctx context.Context, campaign, claimant, claimID string) (Released, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return Released{}, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return Released{}, err
	}
	held, err := b.heldClaim(ctx, c.Scope, claimant)
	if err != nil {
		return Released{}, err
	}
	if held == nil || held.ID != claimID {
		return Released{Already: true}, nil
	}
	if held.Campaign != campaign {
		return Released{}, &ClaimedElsewhereError{held.Campaign}
	}
	return b.closeClaim(ctx, c, *held, time.Time{}, engine.Burned)
}

// closeEnded closes a claim that ended more than endGrace ago, by the rules of its own
// campaign.
func (b *Bank) closeEnded(ctx context.Context, claim engine.Claim) (Released, error) {
	c, err := b.campaignRules(ctx, claim.Campaign)
	if errors.Is(err, ErrNoCampaign) {
		return Released{}, &InconsistentError{noCampaign, fmt.Sprintf("claim %s of campaign %q", claim.ID, claim.Campaign)}
	}
	if err != nil {
		return Released{}, err
	}
	return b.closeClaim(ctx, c, claim, b.now().Add(-endGrace), engine.Expired)
}

// closeClaim closes a claim of campaign c; if endedBy is set, only if the claim ended
// before that. The item returns if the campaign says so and its own life is not over;
// otherwise it ends, as state.
func (b *Bank) closeClaim(
	ctx context.Context, c Campaign, claim engine.Claim, endedBy time.Time, state engine.ItemState,
) (Released, error) {
	for tries := 0; ; tries++ {
		row, err := b.store.ItemRow(ctx, c.Name, claim.ItemHash)
		if err != nil {
			return Released{}, err
		}
		if row == nil {
			return Released{}, inconsistentClaim(heldNotLoaded, claim)
		}
		if row.State != "" && !endedBy.IsZero() { // only a Release, which names the claim, settles this
			return b.inconsistentUnlessClosed(ctx, claim, heldAndEnded)
		}
		closing := newCloseRequest(c, claim, *row, b.now())
		closing.EndedBy = endedBy
		switch {
		case row.State != "":
			closing.Return, closing.State = nil, row.State
		case closing.Return == nil && closing.State == "":
			closing.State = state
		}
		closed, err := b.store.CloseClaim(ctx, closing)
		if closing.Return != nil { // also after an error: this close or another one may have returned it
			b.memoryOf(c.Name).free.itemReturned(closing.Return.Shard)
		}
		switch {
		case err != nil:
			return Released{}, err
		case closed.Closed():
			return Released{Returned: closing.Return != nil, Ended: string(closing.State)}, nil
		case closed.ClaimChanged:
			return Released{Already: true}, nil
		case closed.Conflict || closed.Throttled:
			// Nothing is known about a busy row. Another close of this claim that is not
			// finished shows the item returned and the claim still there.
		case closed.ItemFree:
			return b.inconsistentUnlessClosed(ctx, claim, heldAndFree)
		}
		if err := b.backOff(ctx, tries, maxWaits, "the rows of a claim were busy"); err != nil {
			return Released{}, err
		}
	}
}

// newCloseRequest decides what happens to the item. An item that was withdrawn while the claim
// held it ends.
func newCloseRequest(c Campaign, claim engine.Claim, row engine.ItemRow, now time.Time) engine.CloseRequest {
	item := engine.FreeItem{
		Shard: c.shardOf(claim.ItemHash), Hash: claim.ItemHash, Value: claim.Item, EndsAt: row.EndsAt,
	}
	closing := engine.CloseRequest{Claim: claim, Row: row}
	switch {
	case row.Withdraw:
		closing.State = engine.Withdrawn
	case hasEnded(item, now):
		closing.State = engine.Expired
	case c.OnEnd == Return:
		closing.Return = &item
	}
	return closing
}

// inconsistentUnlessClosed returns an error if the claim is still there. An engine need
// not name every condition that failed. So what it names may be the work of another
// close of this claim.
func (b *Bank) inconsistentUnlessClosed(ctx context.Context, claim engine.Claim, kind string) (Released, error) {
	held, err := b.heldClaim(ctx, claim.Scope, claim.Claimant)
	switch {
	case err != nil:
		return Released{}, err
	case held == nil || held.ID != claim.ID:
		return Released{Already: true}, nil
	}
	return Released{}, inconsistentClaim(kind, claim)
}

func inconsistentClaim(kind string, claim engine.Claim) error {
	return &InconsistentError{kind, "claim " + claim.ID}
}
