package itembank

import (
	"context"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Bounds of one Claim. Past them it gives up with ErrTryAgain, having changed
// nothing, so that a caller's time is not spent on a store that cannot follow.
const (
	maxWaits     = 8  // waits for a busy row or a throttled table
	maxLostRaces = 64 // candidates that others took first, and ended claims of its claimant that it met
	firstWait    = 10 * time.Millisecond
	longestWait  = 400 * time.Millisecond
)

// Grant is the answer to a claimant: the claim, and whether it was there before.
type Grant struct {
	Claim    Claim
	Replayed bool
}

// Claim gives the claimant an item of the campaign: the same one on every call,
// also after the bank is empty or the campaign closed. It is safe to repeat after
// any error.
//
// Errors: *InvalidError; ErrNoCampaign, ErrNotOpen, ErrClosed, ErrSoldOut and
// *ClaimedElsewhereError, all of the family ErrRefused and none given to a
// claimant who holds an item of the campaign; ErrTryAgain.
func (b *Bank) Claim(ctx context.Context, campaign, claimant string) (Grant, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return Grant{}, err
	}
	start := b.clock.Now()
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return Grant{}, err
	}
	id, err := b.newClaimID()
	if err != nil {
		return Grant{}, err
	}
	r := &request{bank: b, shelf: b.shelf(campaign), search: search{start: start}, campaign: c, claim: engine.Claim{
		ID: id, Campaign: campaign, Scope: c.Scope, Claimant: claimant, ClaimedAt: b.now(),
	}}
	r.claim.EndsAt = ends(r.claim.ClaimedAt, c.ClaimLife)
	grant, err := r.run(ctx)
	r.shelf.repeats.note(grant.Replayed)
	return grant, err
}

// HeldClaim returns the claim that the claimant holds in the campaign. Errors:
// *InvalidError, ErrNoCampaign, ErrNoClaim, ErrTryAgain.
func (b *Bank) HeldClaim(ctx context.Context, campaign, claimant string) (Claim, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return Claim{}, err
	}
	c, err := b.campaignRules(ctx, campaign)
	if err != nil {
		return Claim{}, err
	}
	held, err := b.store.HeldClaim(ctx, c.Scope, claimant)
	if err != nil {
		return Claim{}, err
	}
	if held == nil || held.Campaign != campaign {
		return Claim{}, ErrNoClaim
	}
	return claimOf(*held), nil
}

func validateRequest(campaign, claimant string) error {
	if err := ValidateName("campaign", campaign); err != nil {
		return err
	}
	return ValidateClaimant(claimant)
}

// request is one Claim on its way.
type request struct {
	bank     *Bank
	shelf    *shelf
	search   search
	campaign Campaign
	claim    engine.Claim // what will be put; its id is the same on every attempt
	waits    int
}

// run tries candidates until there is an answer.
func (r *request) run(ctx context.Context) (Grant, error) {
	for race := range maxLostRaces {
		if state := r.campaign.StateAt(r.bank.clock.Now()); state != Open {
			if grant, done, err := r.heldOr(ctx, refusal(state)); done || err != nil {
				return grant, err
			}
			continue
		}
		pick, found, fresh, err := r.bank.pick(ctx, r.shelf, r.campaign, &r.search)
		if err != nil {
			return Grant{}, err
		}
		if !found {
			over := fresh.generation != r.campaign.generation || fresh.StateAt(r.bank.clock.Now()) != Open
			if r.campaign = fresh; over {
				continue
			}
			if grant, done, err := r.heldOr(ctx, ErrSoldOut); done || err != nil {
				return grant, err
			}
			continue
		}
		if race == 0 && r.shelf.repeats.readFirst() {
			if grant, done, err := r.peek(ctx); done || err != nil {
				r.shelf.page.putBack(pick)
				return grant, err
			}
		}
		grant, done, err := r.try(ctx, pick)
		if done || err != nil {
			return grant, err
		}
	}
	return Grant{}, fmt.Errorf("%w: %d times an item or a claim was changed first", ErrTryAgain, maxLostRaces)
}

// try asks for one candidate until it is the claimant's, somebody else's, or
// not needed. done = false: somebody else's.
func (r *request) try(ctx context.Context, pick candidate) (grant Grant, done bool, err error) {
	r.claim.Item, r.claim.ItemHash = pick.item.Value, pick.item.Hash
	for {
		found, err := r.bank.store.Take(ctx, pick.item, r.claim)
		if err != nil {
			return Grant{}, false, err
		}
		if found.Taken() {
			return Grant{Claim: claimOf(r.claim)}, true, nil
		}
		grant, done, err = r.weigh(ctx, found)
		switch {
		case found.ItemGone:
			r.shelf.page.lost(pick)
			return grant, done, err
		case done || err != nil:
			r.shelf.page.putBack(pick)
			return grant, done, err
		}
	}
}

// weigh reads the evidence of a Take that changed nothing, in the order that
// keeps the guarantees: a claim that exists is the answer, whatever happened to
// the item; after a conflict nothing is known of the row that had it; only then
// is a missing item just that.
func (r *request) weigh(ctx context.Context, found engine.TakeResult) (grant Grant, done bool, err error) {
	held := found.Held
	if held == nil && found.ClaimConflict {
		if held, err = r.bank.store.HeldClaim(ctx, r.claim.Scope, r.claim.Claimant); err != nil {
			return Grant{}, false, err
		}
	}
	if held != nil {
		return r.answer(ctx, *held)
	}
	if found.ClaimConflict || found.ItemConflict || found.Throttled {
		return Grant{}, false, r.wait(ctx, found)
	}
	return Grant{}, false, nil
}

// heldOr answers with the claim that the claimant holds, else with the refusal.
// The claim is read last: the item that emptied the bank may be the claimant's own.
// done = false: that claim had ended, and its item may be in the bank by now.
func (r *request) heldOr(ctx context.Context, refusal error) (grant Grant, done bool, err error) {
	held, err := r.bank.store.HeldClaim(ctx, r.claim.Scope, r.claim.Claimant)
	switch {
	case err != nil:
		return Grant{}, false, err
	case held == nil:
		return Grant{}, false, refusal
	}
	return r.answer(ctx, *held)
}

// answer makes the answer of a claim that was found. One with this request's
// own id was made by an earlier attempt of it, whose reply was lost. One that
// ended is closed, and is no answer: done = false.
func (r *request) answer(ctx context.Context, held engine.Claim) (grant Grant, done bool, err error) {
	if closable(held, r.bank.now()) {
		released, err := r.bank.closeEnded(ctx, held)
		if err == nil && released.Already { // somebody else has changed it; the next look says how
			err = r.wait(ctx, engine.TakeResult{ClaimConflict: true})
		}
		return Grant{}, false, err
	}
	if held.Campaign != r.claim.Campaign {
		return Grant{}, true, &ClaimedElsewhereError{held.Campaign}
	}
	return Grant{Claim: claimOf(held), Replayed: held.ID != r.claim.ID}, true, nil
}

// wait backs off, a bounded number of times in a request.
func (r *request) wait(ctx context.Context, found engine.TakeResult) error {
	r.waits++
	return r.bank.backOff(ctx, r.waits-1, maxWaits, fmt.Sprintf("the store was busy (claim %t, item %t, throttled %t)",
		found.ClaimConflict, found.ItemConflict, found.Throttled))
}

// backOff waits before try number tries is repeated, with full jitter, and gives
// up at most of them.
func (b *Bank) backOff(ctx context.Context, tries, most int, why string) error {
	if tries == most {
		return fmt.Errorf("%w: %d times %s", ErrTryAgain, most, why)
	}
	d, err := b.jitter(min(firstWait<<tries, longestWait))
	if err != nil {
		return err
	}
	return b.clock.Sleep(ctx, d)
}

func refusal(s State) error {
	if s == Scheduled {
		return ErrNotOpen
	}
	return ErrClosed
}
