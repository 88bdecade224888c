package itembank

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Replace gives the claimant another item for the item of a claim, such as a code that does not work. One transaction
// takes the other item, puts a new claim in the place of the old one, and ends the old item as "replaced", also in a
// campaign that returns items. It happens whole or not at all: if the campaign is sold out, the claimant keeps the claim.
// The new claim has the end of the old one. It begins now: if it is a hold, MaxHold counts from now.
//
// claimID is the id of the claim that the caller saw. The id of the new claim is that id, a full stop and a random text.
// So Replace is safe to repeat with the same claimID: if the claim was replaced before, it returns the claim that the
// claimant has now, with Replayed.
//
// Only an operator or a back end should call it: a claimant could use up the bank.
//
// Errors: *InvalidError, also if the claim has several items; ErrNoCampaign; ErrNoClaim if the claimant holds no claim, or
// one that has ended; ErrNotEligible; ErrClaimEnded if the claimant holds another claim; *ClaimedElsewhereError;
// ErrSoldOut; ErrNotOpen and ErrClosed; ErrMoved; ErrRestored; ErrTryAgain; the family ErrInconsistent. After any of them
// except ErrTryAgain nothing was changed.
func (b *Bank) Replace(ctx context.Context, campaign, claimant, claimID string, options ...ClaimOption) (Grant, error) {
	started := b.clock.Now()
	_, key, err := b.keyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Grant{}, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return Grant{}, err
	}
	r, err := b.newRequest(c, key, started)
	if err == nil {
		r.claim.ID, err = successor(claimID, r.claim.ID)
	}
	if err != nil {
		return Grant{}, err
	}
	grant, err := r.replace(ctx, claimID)
	return r.finish(ctx, grant, err)
}

// successor returns the id of the claim that replaces a claim.
func successor(id, random string) (string, error) {
	next := id + "." + random[:8]
	if id == "" || len(next) > engine.MaxClaimant {
		return "", &InvalidError{"claim_id", fmt.Sprintf("must be 1 to %d bytes: each replacement adds 9", engine.MaxClaimant-9)}
	}
	return next, nil
}

// replaces reports whether a claim replaced the claim with an id, directly or after others.
func replaces(claim engine.Claim, id string) bool { return strings.HasPrefix(claim.ID, id+".") }

// replace makes attempts until there is an answer.
func (r *request) replace(ctx context.Context, id string) (Grant, error) {
	for range maxAttempts {
		result, err := r.replaceOnce(ctx, id)
		if err != nil || result.outcome == answered {
			return result.grant, err
		}
	}
	return Grant{}, fmt.Errorf("%w: %d times another request was faster", ErrTryAgain, maxAttempts)
}

// replaceOnce reads the claim, finds another item, and runs the transaction. It reads the claim first: if the claim was
// replaced before, that is the answer, whatever the state of the campaign.
func (r *request) replaceOnce(ctx context.Context, id string) (stepResult, error) {
	if err := r.campaign.marked(); err != nil {
		return stepResult{}, err
	}
	held, err := r.bank.heldClaim(ctx, r.claim.Key())
	switch {
	case err != nil:
		return stepResult{}, err
	case held != nil && held.Campaign == r.claim.Campaign && replaces(*held, id):
		return r.replay(*held), nil
	}
	if err := r.replaceable(held, id); err != nil {
		return stepResult{}, err
	}
	if state := r.campaign.StateAt(r.bank.serverNow()); state != Open {
		return stepResult{}, refusal(state)
	}
	if r.campaign.knownSoldOut(r.search.started) {
		return stepResult{}, ErrSoldOut
	}
	found, err := r.memory.free.find(ctx, r.campaign, &r.search)
	switch {
	case err != nil:
		return stepResult{}, err
	case found.outcome == campaignChanged:
		r.campaign = found.campaign
		return stepResult{outcome: tryAgain}, nil
	case found.outcome == nothingFree:
		return stepResult{}, ErrSoldOut
	case found.candidate.free.Hash == held.ItemHash:
		return r.foundOwn(ctx, *held, found.candidate)
	}
	return r.exchange(ctx, *held, found.candidate)
}

// replaceable returns an error unless the claimant's claim has the id and can be replaced. held is nil if there is none. A
// claim that has ended is not replaced: the next request may close it, and the new item would end with it.
func (r *request) replaceable(held *engine.Claim, id string) error {
	switch {
	case held == nil:
		return ErrNoClaim
	case held.IsBlock():
		return ErrNotEligible
	case held.Campaign != r.claim.Campaign:
		return &ClaimedElsewhereError{held.Campaign}
	case held.ID != id:
		return ErrClaimEnded
	case held.More != "":
		return &InvalidError{"claim_id", "names a claim of several items, which cannot be replaced; release it and claim again"}
	case hasEnded(engine.FreeItem{EndsAt: held.EndsAt}, r.bank.serverNow()):
		return ErrNoClaim
	}
	return nil
}

// foundOwn handles a search that found the item of the claim itself: on an old page, or because the rows contradict each
// other.
func (r *request) foundOwn(ctx context.Context, held engine.Claim, item candidate) (stepResult, error) {
	r.memory.free.discardPage(item)
	reads, err := r.bank.store.ReadItems(ctx, []engine.FreeItem{item.free})
	switch {
	case err != nil:
		return stepResult{}, err
	case reads[0].Conflict:
		return stepResult{outcome: tryAgain}, r.wait(ctx, engine.TakeResult{ItemConflict: true})
	case reads[0].Free != nil:
		_, _, err = r.bank.inconsistentUnlessClosed(ctx, held, heldAndFree)
	}
	return stepResult{outcome: tryAgain}, err
}

// exchange runs the transaction that replaces a claim.
func (r *request) exchange(ctx context.Context, held engine.Claim, item candidate) (stepResult, error) {
	r.claim.Item, r.claim.ItemHash = item.free.Value, item.free.Hash
	r.claim.ClaimedAt, r.claim.EndsAt = r.bank.serverNow(), held.EndsAt
	closed, busy, err := r.bank.closeOnce(ctx, r.campaign, held, closeTerms{
		ends: map[engine.Hash]engine.ItemState{held.ItemHash: engine.Replaced}, next: &r.claim, nextItem: &item.free,
	})
	switch {
	case err != nil:
		return stepResult{}, err
	case closed.itemGone:
		r.memory.free.discardPage(item)
		return stepResult{outcome: tryAgain}, nil
	case busy:
		r.memory.free.putBack(item)
		return stepResult{outcome: tryAgain}, r.wait(ctx, engine.TakeResult{ClaimConflict: !closed.throttled, ClaimThrottled: closed.throttled})
	case closed.Already: // another request changed the claim
		r.memory.free.putBack(item)
		return stepResult{outcome: tryAgain}, nil
	}
	return stepResult{answered, Grant{Claim: claimOf(r.claim)}}, nil
}
