package itembank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A claim ends in one way: its row is deleted by its id, and in the same
// transaction its item goes back to the bank or is marked. Release, the closing of
// ended claims that a request meets, and Sweep all come through here.

// Released says what a Release did: one of these.
type Released struct {
	Already  bool   // the claimant did not hold that claim any more; nothing was changed
	Returned bool   // the item went back to the bank
	Ended    string // how the item ended: "burned", "expired" (its own life was over), or "withdrawn"
}

// Release ends a claim of a claimant: by the campaign's OnEnd the item goes back to
// the bank, or is burned. It asks for the claim's id, so that it ends the claim
// that the caller has seen and no later one. Repeating it is safe and says Already.
// An item that is marked as ended (held-and-ended) stays as it is marked.
//
// Errors: *InvalidError, ErrNoCampaign, *ClaimedElsewhereError where the claim is of
// another campaign of the scope, ErrTryAgain, the family ErrInconsistent.
func (b *Bank) Release(ctx context.Context, campaign, claimant, claimID string) (Released, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return Released{}, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return Released{}, err
	}
	held, err := b.store.HeldClaim(ctx, c.Scope, claimant)
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

// closeEnded closes a claim that ended longer than the grace ago, by the rules of
// its own campaign. Already: somebody else changed it first.
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

// closeClaim closes a claim of campaign c. With endedBy it has to have ended
// before that. The item returns if the campaign says so and its own life has not
// ended; else it ends as state.
func (b *Bank) closeClaim(ctx context.Context, c Campaign, claim engine.Claim, endedBy time.Time, state engine.ItemState) (Released, error) {
	for tries := 0; ; tries++ {
		row, err := b.store.ItemRow(ctx, c.Name, claim.ItemHash)
		if err != nil {
			return Released{}, err
		}
		if row == nil {
			return Released{}, inconsistentClaim(heldNotLoaded, claim)
		}
		closing := newClosing(c, claim, *row, b.now())
		closing.EndedBy = endedBy
		switch {
		case row.State != "" && endedBy.IsZero(): // only who names the claim settles such a difference
			closing.Return, closing.State, closing.Marked = nil, row.State, true
		case closing.Return == nil && closing.State == "":
			closing.State = state
		}
		found, err := b.store.CloseClaim(ctx, closing)
		if closing.Return != nil { // whatever the answer: it may be back, by this or by another close
			b.shelf(c.Name).empty.forget(closing.Return.Shard)
		}
		switch {
		case err != nil:
			return Released{}, err
		case found.Closed():
			return Released{Returned: closing.Return != nil, Ended: string(closing.State)}, nil
		case found.ClaimChanged:
			return Released{Already: true}, nil
		case found.Conflict || found.Throttled:
			// Nothing is known of the row that was busy: another close of this claim,
			// not yet through, shows the item returned and the claim still there.
		case found.ItemFree:
			return b.unlessClosed(ctx, claim, heldAndFree)
		case found.ItemChanged && row.State != "":
			return b.unlessClosed(ctx, claim, heldAndEnded)
		}
		if err := b.backOff(ctx, tries, maxWaits, "the rows of a claim were busy"); err != nil {
			return Released{}, err
		}
	}
}

// unlessClosed reports a difference that a close met, if the claim is still there: an
// engine need not name every condition that failed, and one that another close
// fulfilled is no difference.
func (b *Bank) unlessClosed(ctx context.Context, claim engine.Claim, kind string) (Released, error) {
	held, err := b.store.HeldClaim(ctx, claim.Scope, claim.Claimant)
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

// newClosing decides what becomes of the item.
func newClosing(c Campaign, claim engine.Claim, row engine.ItemRow, now time.Time) engine.CloseRequest {
	item := engine.FreeItem{
		Shard: engine.Shard{Campaign: c.Name, Generation: row.Generation, Number: claim.ItemHash.ShardOf(c.Shards)},
		Hash:  claim.ItemHash, Value: claim.Item, EndsAt: row.EndsAt,
	}
	closing := engine.CloseRequest{Claim: claim, Generation: row.Generation}
	switch {
	case ended(item, now):
		closing.State = engine.Expired
	case c.OnEnd == Return:
		closing.Return = &item
	}
	return closing
}
