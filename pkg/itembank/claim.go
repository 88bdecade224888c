package itembank

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Limits of one request. Beyond them it ends with ErrTryAgain and has changed
// nothing, so that it does not spend a caller's time on a store that cannot follow.
const (
	maxWaits    = 8  // waits for busy rows or a throttled table
	maxAttempts = 64 // candidates that others took first, and ended claims of the claimant
)

// Claim says that a claimant holds an item.
type Claim struct {
	ID        string // random; never used again
	Campaign  string
	Scope     string // the name space in which the claimant holds at most one claim, or one in each slot
	Claimant  string
	Slot      int             // numbers the claims of the claimant, from 1
	Item      string          // the first of Items
	More      engine.ItemList // the others, of a claim of several chosen items
	Columns   ColumnsList     // of Items; "": they have none
	ClaimedAt time.Time       // UTC, whole milliseconds
	EndsAt    time.Time       // zero: never
}

// Items returns all items of the claim: one, or those that were chosen with Choosing.
func (c Claim) Items() []string { return append([]string{c.Item}, c.More.Items()...) }

// Grant is the answer to a claimant.
type Grant struct {
	Claim    Claim
	Replayed bool // the claim existed before this request
}

// Claim gives the claimant an item of the campaign. Every call returns the same
// claim until it is released or ends, also when no item is left or the campaign is
// closed. Claim is safe to repeat after any error.
//
// Errors: *InvalidError; ErrTryAgain; ErrInconsistent if the rows of the claimant's claim
// contradict each other, which repeating does not change (Reconcile finds them); and these of
// the family ErrRefused, which a claimant who holds an item of the campaign never gets:
// ErrNotOpen, ErrClosed, ErrSoldOut, ErrItemTaken, *ClaimedElsewhereError. ErrNoCampaign if the
// campaign does not exist.
func (b *Bank) Claim(ctx context.Context, campaign, claimant string, options ...ClaimOption) (Grant, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return Grant{}, err
	}
	started := b.clock.Now()
	c, rulesErr := b.campaignRules(ctx, campaign)
	if rulesErr != nil {
		known := false
		if c, known = b.rules.latest(campaign); !known {
			return Grant{}, rulesErr
		}
	}
	which := whichOf(options)
	key, err := c.claimKey(claimant, which.slot)
	if err != nil {
		return Grant{}, err
	}
	chosen, err := c.choose(which.items)
	if err != nil {
		return Grant{}, err
	}
	r, err := b.newRequest(c, key, started)
	switch {
	case err != nil:
		return Grant{}, err
	case rulesErr != nil: // a scope never changes, so the old copy is good enough to find the claim
		grant, err := r.unlessHeld(ctx, rulesErr)
		return r.finish(ctx, grant, err)
	}
	r.chosen = chosen
	grant, err := r.run(ctx)
	if err == nil {
		b.rules.sawClaim(grant.Claim.Campaign, b.clock.Now())
	}
	r.memory.repeats.count(grant.Replayed)
	return r.finish(ctx, grant, err)
}

// finish adds the columns to a grant. Without them there is no answer: the claim stays, and the next request
// gets it.
func (r *request) finish(ctx context.Context, grant Grant, err error) (Grant, error) {
	if err != nil {
		return Grant{}, err
	}
	if grant.Claim, err = r.bank.withColumns(ctx, r.campaign, grant.Claim); err != nil {
		return Grant{}, err
	}
	return grant, nil
}

// request is one call of Bank.Claim.
type request struct {
	bank     *Bank
	memory   *campaignMemory
	search   search
	campaign Campaign
	claim    engine.Claim // to be put; its id is the same in every attempt
	waits    int

	chosen    []engine.FreeItem // the items that the request names; nil: any item will do
	dueClosed bool              // for the chosen items
}

func (b *Bank) newRequest(c Campaign, key engine.ClaimKey, started time.Time) (*request, error) {
	id, err := b.newClaimID()
	if err != nil {
		return nil, err
	}
	now := b.serverNow()
	return &request{
		bank: b, memory: b.memoryOf(c.Name), search: search{started: started}, campaign: c,
		claim: engine.Claim{
			ID: id, Campaign: c.Name, Scope: key.Scope, Claimant: key.Claimant, Slot: key.Slot,
			ClaimedAt: now, EndsAt: c.endOfClaim(now),
		},
	}, nil
}

// stepResult says how a step of a request ended, where it did not end with an error. A
// refusal is an error.
type stepResult struct {
	outcome outcome
	grant   Grant // with answered
}

type outcome int

const (
	noClaim   outcome = iota // the claimant holds no claim
	itemTaken                // another claimant has the candidate: try another one
	lookAgain                // a row was busy or throttled, the rules changed, or an ended claim was closed: try again
	answered                 // the grant is the answer
)

// run makes attempts until there is an answer.
func (r *request) run(ctx context.Context) (Grant, error) {
	for n := range maxAttempts {
		result, err := r.attempt(ctx, n == 0)
		switch {
		case err != nil:
			return r.unlessHeld(ctx, err)
		case result.outcome == answered:
			return result.grant, nil
		}
	}
	return r.unlessHeld(ctx, fmt.Errorf("%w: %d times another request was faster", ErrTryAgain, maxAttempts))
}

// unlessHeld answers with the claim that the claimant holds, and otherwise with the failure: a
// holder is answered whatever failed. A refusal was given after the claim was read, or says that there
// is no such campaign.
func (r *request) unlessHeld(ctx context.Context, failure error) (Grant, error) {
	if errors.Is(failure, ErrRefused) || errors.Is(failure, ErrInconsistent) || ctx.Err() != nil {
		return Grant{}, failure
	}
	result, err := r.readHeld(ctx)
	if err != nil || result.outcome != answered {
		return Grant{}, failure
	}
	return result.grant, nil
}

// attempt goes through the life of a claim once: the rules, a candidate, the
// transaction.
func (r *request) attempt(ctx context.Context, first bool) (stepResult, error) {
	if state := r.campaign.StateAt(r.bank.serverNow()); state != Open {
		return r.refuse(ctx, refusal(state))
	}
	if r.campaign.knownSoldOut(r.search.started) {
		return r.refuse(ctx, ErrSoldOut)
	}
	if first && r.memory.repeats.frequent() && r.memory.free.unknown(r.campaign, &r.search) > 0 {
		if held := r.bank.peek(ctx, r.campaign, r.claim.Key()); held != nil {
			return r.replay(*held), nil
		}
	}
	if r.chosen != nil {
		return r.takeChosen(ctx)
	}
	found, held, err := r.find(ctx, first)
	switch {
	case held != nil:
		return r.replay(*held), nil
	case err != nil:
		return stepResult{}, err
	}
	switch found.outcome {
	case campaignChanged:
		r.campaign = found.campaign
		return stepResult{outcome: lookAgain}, nil
	case nothingFree:
		r.campaign = found.campaign
		return r.refuse(ctx, ErrSoldOut)
	}
	return r.take(ctx, found.candidate)
}

func refusal(s State) error {
	if s == Scheduled {
		return ErrNotOpen
	}
	return ErrClosed
}

// find looks for a candidate. While that takes more than one read, it reads the claim too: a
// claimant who holds one does not wait for the proof that the bank is empty. Then held is the
// claim, and the search ends. Later attempts do not read it: the first transaction found none.
func (r *request) find(ctx context.Context, first bool) (found lookup, held *engine.Claim, err error) {
	if !first {
		r.search.slow = nil
		found, err = r.memory.free.find(ctx, r.campaign, &r.search)
		return found, nil, err
	}
	searching, stop := context.WithCancel(ctx)
	var peek sync.WaitGroup
	r.search.slow = sync.OnceFunc(func() {
		peek.Go(func() {
			if held = r.bank.peek(searching, r.campaign, r.claim.Key()); held != nil {
				stop()
			}
		})
	})
	found, err = r.memory.free.find(searching, r.campaign, &r.search)
	stop()
	peek.Wait()
	if held != nil && err == nil && found.outcome == itemFree {
		r.memory.free.putBack(found.candidate)
	}
	return found, held, err
}

// peek reads the claimant's claim before the transaction, and returns it only if it is a sure
// answer; the transaction finds all others. Where items are burned, an eventually consistent read
// is enough: it can show a claim that has just ended, but never an item that another claimant holds.
func (b *Bank) peek(ctx context.Context, c Campaign, key engine.ClaimKey) *engine.Claim {
	read := b.store.HeldClaimEventuallyConsistent
	if c.OnEnd == Return {
		read = b.heldClaim
	}
	held, err := read(ctx, key)
	if err != nil || held == nil || held.Campaign != c.Name || closable(*held, b.closersNow()) {
		return nil
	}
	return held
}

// replay answers with a claim of the campaign that exists. A claim with this request's own id was
// made by an earlier attempt whose reply was lost.
func (r *request) replay(held engine.Claim) stepResult {
	return stepResult{answered, Grant{Claim: claimOf(held), Replayed: held.ID != r.claim.ID}}
}

// take asks the store for the candidate, until there is an answer or another candidate has to be
// tried.
func (r *request) take(ctx context.Context, item candidate) (stepResult, error) {
	r.claim.Item, r.claim.ItemHash = item.free.Value, item.free.Hash
	for {
		taken, err := r.bank.store.Take(ctx, item.free, r.claim)
		if err != nil {
			return stepResult{}, err
		}
		if taken.Taken() {
			return stepResult{answered, Grant{Claim: claimOf(r.claim)}}, nil
		}
		r.bank.contention.count(taken)
		result, err := r.decide(ctx, taken)
		switch {
		case taken.ItemGone:
			r.memory.free.discardPage(item)
			return result, err
		case taken.ItemThrottled:
			r.memory.free.avoid(item)
			fallthrough
		case err != nil || result.outcome == answered:
			r.memory.free.putBack(item)
			return result, err
		}
	}
}

// decide reads why a Take changed nothing, in the order that keeps the guarantees. A
// claim that exists is the answer, whatever happened to the item. After a conflict
// nothing is known about the row. Only then does a missing item mean that another
// claimant has it.
func (r *request) decide(ctx context.Context, taken engine.TakeResult) (stepResult, error) {
	if taken.Held != nil {
		return r.answer(ctx, *taken.Held)
	}
	if taken.ClaimConflict {
		result, err := r.readHeld(ctx)
		if err != nil || result.outcome != noClaim {
			return result, err
		}
	}
	if taken.ClaimConflict || taken.ItemConflict || taken.ClaimThrottled || taken.ItemThrottled {
		return stepResult{outcome: lookAgain}, r.wait(ctx, taken)
	}
	return stepResult{outcome: itemTaken}, nil
}

// refuse answers with the claim that the claimant holds, and otherwise with the
// refusal. It reads the claim last: the item that emptied the bank may be the
// claimant's own.
func (r *request) refuse(ctx context.Context, refusal error) (stepResult, error) {
	result, err := r.readHeld(ctx)
	if err == nil && result.outcome == noClaim {
		err = refusal
	}
	return result, err
}

// readHeld reads the claimant's claim, isolated from running transactions, and answers with it.
func (r *request) readHeld(ctx context.Context) (stepResult, error) {
	held, err := r.bank.heldClaim(ctx, r.claim.Key())
	if err != nil || held == nil {
		return stepResult{outcome: noClaim}, err
	}
	return r.answer(ctx, *held)
}

// answer answers with a claim that exists. A claim that ended is closed and is no answer: its item
// may be in the bank now.
func (r *request) answer(ctx context.Context, held engine.Claim) (stepResult, error) {
	if closable(held, r.bank.closersNow()) {
		released, err := r.bank.closeEnded(ctx, held)
		if err == nil && released.Already { // another request changed it
			err = r.wait(ctx, engine.TakeResult{ClaimConflict: true})
		}
		return stepResult{outcome: lookAgain}, err
	}
	if held.Campaign != r.claim.Campaign {
		return stepResult{}, &ClaimedElsewhereError{held.Campaign}
	}
	return r.replay(held), nil
}

// wait waits before the request goes on, a limited number of times.
func (r *request) wait(ctx context.Context, taken engine.TakeResult) error {
	r.waits++
	return r.bank.backOff(ctx, r.waits-1, maxWaits, fmt.Sprintf("the store was busy (claim %t, item %t, throttled %t)",
		taken.ClaimConflict, taken.ItemConflict, taken.ClaimThrottled || taken.ItemThrottled))
}

// HeldClaim returns the claim that the claimant holds in the campaign. It changes
// nothing.
//
// Errors: *InvalidError, ErrNoCampaign, ErrNoClaim, ErrTryAgain.
func (b *Bank) HeldClaim(ctx context.Context, campaign, claimant string, options ...ClaimOption) (Claim, error) {
	c, key, err := b.keyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Claim{}, err
	}
	held, err := b.heldClaim(ctx, key)
	if err != nil {
		return Claim{}, err
	}
	if held == nil || held.Campaign != campaign {
		return Claim{}, ErrNoClaim
	}
	return b.withColumns(ctx, c, claimOf(*held))
}

// heldClaim reads a claim row. While a transaction works on the row it waits, a limited number
// of times.
func (b *Bank) heldClaim(ctx context.Context, key engine.ClaimKey) (*engine.Claim, error) {
	held, err := whileBusy(ctx, b, claimBusy, func() (held *engine.Claim, conflict bool, err error) {
		return b.store.HeldClaim(ctx, key)
	})
	if held != nil {
		b.rules.sawClaim(held.Campaign, b.clock.Now())
	}
	return held, err
}

// claimOf returns the claim of a row, without columns.
func claimOf(row engine.Claim) Claim {
	return Claim{
		ID: row.ID, Campaign: row.Campaign, Scope: row.Scope, Claimant: row.Claimant, Slot: row.Slot,
		Item: row.Item, More: row.More, ClaimedAt: row.ClaimedAt, EndsAt: row.EndsAt,
	}
}
