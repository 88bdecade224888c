package itembank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A claim ends in one way: one transaction deletes its row by its id, and returns its
// item to the bank or marks the item's row. Release, ReleaseHold, requests that meet an ended
// claim, and sweeps all end claims in closeClaim.

// Released says what a release did. One of its fields is set.
type Released struct {
	// Already: the claimant does not hold this claim. It was released before, has ended, or
	// never was. Nothing was changed.
	Already  bool
	Returned bool   // the item went back to the bank
	Ended    string // how the item ended: "burned", "expired" (its own life was over) or "withdrawn"
}

// Release ends a claim, for an operator. By the campaign's OnEnd its item goes back to the bank
// or is burned. The claim's id makes sure that Release ends the claim that the caller saw,
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
	c, err := b.fixedRules(ctx, campaign)
	if err != nil {
		return Released{}, err
	}
	held, err := b.heldForRelease(ctx, c, claimant, claimID)
	if err != nil || held == nil {
		return Released{Already: err == nil}, err
	}
	return b.closeClaim(ctx, c, *held, closeTerms{state: engine.Burned})
}

// ReleaseHold ends a hold for its holder: its item goes back to the bank. A hold that is
// confirmed stays. ReleaseHold is safe to repeat and then reports Already.
//
// Only campaigns with Hold allow it. Where items are burned, a claimant who claims, looks and
// releases would empty the bank.
//
// Errors: *InvalidError, also if the campaign has no holds; ErrConfirmed; the errors of Release.
func (b *Bank) ReleaseHold(ctx context.Context, campaign, claimant, claimID string) (Released, error) {
	c, err := b.campaignOfHolds(ctx, campaign, claimant)
	if err != nil {
		return Released{}, err
	}
	held, err := b.heldForRelease(ctx, c, claimant, claimID)
	switch {
	case err != nil || held == nil:
		return Released{Already: err == nil}, err
	case held.EndsAt.IsZero():
		return Released{}, ErrConfirmed
	}
	released, err := b.closeClaim(ctx, c, *held, closeTerms{state: engine.Burned, ifHold: true})
	if err != nil || !released.Already {
		return released, err
	}
	// Another request changed the claim: it closed it or confirmed it.
	held, err = b.heldForRelease(ctx, c, claimant, claimID)
	if err == nil && held != nil {
		return Released{}, ErrConfirmed
	}
	return Released{Already: err == nil}, err
}

// heldForRelease reads the claim that is to be released; nil: the claimant does not hold it.
func (b *Bank) heldForRelease(ctx context.Context, c Campaign, claimant, claimID string) (*engine.Claim, error) {
	held, err := b.heldClaim(ctx, c.Scope, claimant)
	switch {
	case err != nil || held == nil || held.ID != claimID:
		return nil, err
	case held.Campaign != c.Name:
		return nil, &ClaimedElsewhereError{held.Campaign}
	}
	return held, nil
}

// closeTerms says when a claim may be closed, and how its item ends if it does not return.
type closeTerms struct {
	endedBy time.Time // the claim ended before that; zero: its end does not matter
	ifHold  bool      // the claim is a hold that is not confirmed
	state   engine.ItemState
}

// closeEnded closes a claim that ended more than endGrace ago, by the rules of its own
// campaign.
func (b *Bank) closeEnded(ctx context.Context, claim engine.Claim) (Released, error) {
	c, err := b.fixedRules(ctx, claim.Campaign)
	if errors.Is(err, ErrNoCampaign) {
		return Released{}, &InconsistentError{noCampaign, fmt.Sprintf("claim %s of campaign %q", claim.ID, claim.Campaign)}
	}
	if err != nil {
		return Released{}, err
	}
	return b.closeClaim(ctx, c, claim, endedTerms(b.closersNow()))
}

// endedTerms are the terms on which a claim is closed that has ended.
func endedTerms(now time.Time) closeTerms {
	return closeTerms{endedBy: now.Add(-endGrace), state: engine.Expired}
}

// closeClaim closes a claim of campaign c. The item returns if the campaign says so and its own
// life is not over; otherwise it ends. While the rows are busy it tries again, a limited number
// of times.
func (b *Bank) closeClaim(ctx context.Context, c Campaign, claim engine.Claim, terms closeTerms) (Released, error) {
	return whileBusy(ctx, b, rowsBusy, func() (released Released, busy bool, err error) {
		return b.closeOnce(ctx, c, claim, terms)
	})
}

// closeOnce tries to close a claim. busy: nothing was changed, and nothing is known.
func (b *Bank) closeOnce(
	ctx context.Context, c Campaign, claim engine.Claim, terms closeTerms,
) (released Released, busy bool, err error) {
	row, busy, err := b.loadedRow(ctx, c, claim.ItemHash)
	switch {
	case err != nil || busy:
		return Released{}, busy, err
	case row == nil:
		return Released{}, false, inconsistentClaim(heldNotLoaded, claim)
	case row.State != "" && !terms.endedBy.IsZero(): // only a release, which names the claim, settles this
		released, err := b.inconsistentUnlessClosed(ctx, claim, heldAndEnded)
		return released, false, err
	}
	closing := newCloseRequest(c, claim, *row, b.closersNow())
	closing.EndedBy, closing.IfHold = terms.endedBy, terms.ifHold
	switch {
	case row.State != "":
		closing.Return, closing.State = nil, row.State
	case closing.Return == nil && closing.State == "":
		closing.State = terms.state
	}
	closed, err := b.store.CloseClaim(ctx, closing)
	if closing.Return != nil { // also after an error: this close or another one may have returned it
		b.memoryOf(c.Name).free.itemReturned(closing.Return.Shard)
	}
	switch {
	case err != nil:
		return Released{}, false, err
	case closed.Closed():
		return Released{Returned: closing.Return != nil, Ended: string(closing.State)}, false, nil
	case closed.ClaimChanged:
		return Released{Already: true}, false, nil
	case closed.Conflict || closed.Throttled:
		// Nothing is known about a busy row. Another close of this claim that is not
		// finished shows the item returned and the claim still there.
	case closed.ItemFree:
		released, err := b.inconsistentUnlessClosed(ctx, claim, heldAndFree)
		return released, false, err
	}
	return Released{}, true, nil
}

// loadedRow reads the item row of a claimed item. A load that is under way can show the bank row
// before the item row, so that an item is claimed whose item row is not visible yet. So only an
// isolated read shows that there is none. busy: a transaction is working on the rows.
func (b *Bank) loadedRow(ctx context.Context, c Campaign, h engine.Hash) (row *engine.ItemRow, busy bool, err error) {
	row, err = b.store.ItemRow(ctx, c.Name, h)
	if err != nil || row != nil {
		return row, false, err
	}
	reads, err := b.store.ReadItems(ctx, []engine.FreeItem{{Shard: c.shardOf(h), Hash: h}})
	if err != nil {
		return nil, false, err
	}
	return reads[0].Row, reads[0].Conflict, nil
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
