package itembank

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Limits of one request. If a request reaches one, it returns ErrTryAgain and has changed nothing. So it does not use
// up the caller's time on a store that is too slow.
const (
	maxWaits    = 16 // waits for busy rows or for a throttled table: 2.3 s on average, 4.6 s at most
	maxAttempts = 64 // candidates that other requests took first, and ended claims of the claimant
)

// Claim says that a claimant holds an item.
type Claim struct {
	ID        string // random; never used again
	Campaign  string
	Scope     string // the name space in which the claimant holds at most one claim, or one in each slot
	Claimant  string
	Slot      int       // which of the claimant's claims this is, from 1
	Items     []string  // one, or those that were chosen with Choosing; copies of a Claim share it
	Columns   []Columns // of each of Items; nil: the campaign has no columns
	ClaimedAt time.Time // UTC, whole milliseconds
	EndsAt    time.Time // zero: never
}

// FirstID returns the id of the first claim in a row of replacements: if Bank.Replace has made the claim, the id of the
// claim that it replaced, or of the one before that; otherwise the claim's own id. It is the right reference for a
// payment, which stays the same payment when an operator replaces the item.
func (c Claim) FirstID() string {
	first, _, _ := strings.Cut(c.ID, ".")
	return first
}

// ColumnsOf returns the columns of the item at place i of Items, from 0.
func (c Claim) ColumnsOf(i int) Columns {
	if c.Columns == nil {
		return ""
	}
	return c.Columns[i]
}

// Grant is the answer to a claimant.
type Grant struct {
	Claim    Claim
	Replayed bool // the claim existed before this request
}

// Claim gives the claimant an item of the campaign. Until the claim is released or ends, every call returns the same
// claim, also when no item is left or the campaign is closed. Claim is safe to repeat after any error.
//
// Errors:
//   - *InvalidError
//   - ErrNoCampaign if the campaign does not exist
//   - ErrTryAgain
//   - ErrInconsistent if the rows of the claimant's claim contradict each other. A repeat returns the same error;
//     Reconcile finds all such rows.
//   - Of the family ErrRefused: ErrNotOpen, ErrClosed, ErrSoldOut, ErrItemTaken, ErrNotEligible,
//     *ClaimedElsewhereError. A claimant who holds an item of the campaign never gets one of these.
//   - ErrMoved, ErrRestored: also for a claimant who holds an item.
func (b *Bank) Claim(ctx context.Context, campaign, claimant string, options ...ClaimOption) (Grant, error) {
	if err := validateRequest(campaign, claimant); err != nil {
		return Grant{}, err
	}
	selection, started := selectionOf(options), b.clock.Now()
	for tries := 0; ; tries++ {
		c, err := b.campaignRules(ctx, campaign)
		if err == nil {
			return b.claimBy(ctx, c, claimant, selection, started)
		}
		grant, err := b.heldWithoutRules(ctx, campaign, claimant, selection, err)
		if !errors.Is(err, engine.ErrThrottled) || tries == maxRetries {
			return grant, err
		}
		if err := b.backOff(ctx, tries, maxRetries, "the campaign could not be read"); err != nil {
			return Grant{}, err
		}
	}
}

// claimBy gives the claimant an item by the rules of the campaign.
func (b *Bank) claimBy(
	ctx context.Context, c Campaign, claimant string, selection claimSelection, started time.Time,
) (Grant, error) {
	r, err := b.newClaim(c, claimant, selection, started)
	if err != nil {
		return Grant{}, err
	}
	r.memory.free.claims.Add(1)
	defer r.memory.free.claims.Add(-1)
	grant, err := r.run(ctx)
	if err == nil {
		b.rules.sawClaim(grant.Claim.Campaign, b.clock.Now())
	}
	r.memory.repeats.Count(grant.Replayed)
	return r.finish(ctx, grant, err)
}

// heldWithoutRules returns the claim that the claimant holds in a campaign whose rules could not be read, and otherwise
// the failure. An old copy of the rules has the right scope, which is enough to find the claim.
func (b *Bank) heldWithoutRules(
	ctx context.Context, campaign, claimant string, selection claimSelection, failure error,
) (Grant, error) {
	c, known := b.rules.latest(campaign)
	if !known {
		return Grant{}, failure
	}
	r, err := b.newClaim(c, claimant, selection, b.clock.Now())
	if err != nil {
		return Grant{}, err
	}
	grant, err := r.heldOr(ctx, failure)
	return r.finish(ctx, grant, err)
}

// finish adds the columns to a grant. If they cannot be read, it returns the error without the grant: the claim
// stays, and the next request returns it.
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
	claim    engine.Claim // the claim to put; every attempt uses the same id
	waits    int

	chosen    []engine.FreeItem // the items that the request names; nil: any item will do
	dueClosed bool              // closeDueChosen ran
}

// newClaim returns the request of a claimant who asks for a claim.
func (b *Bank) newClaim(c Campaign, claimant string, selection claimSelection, started time.Time) (*request, error) {
	key, err := c.claimKey(claimant, selection.slot)
	if err != nil {
		return nil, err
	}
	chosen, err := c.choose(selection.items)
	if err != nil {
		return nil, err
	}
	r, err := b.newRequest(c, key, started)
	if err != nil {
		return nil, err
	}
	r.chosen = chosen
	return r, nil
}

func (b *Bank) newRequest(c Campaign, key engine.ClaimKey, started time.Time) (*request, error) {
	id, err := b.newClaimID()
	if err != nil {
		return nil, err
	}
	return &request{
		bank: b, memory: b.memoryOf(c.Name), search: search{started: started}, campaign: c,
		claim: engine.Claim{ID: id, Campaign: c.Name, Scope: key.Scope, Claimant: key.Claimant, Slot: key.Slot},
	}, nil
}

// begins lets the claim begin now. It is called just before each transaction. A time from before the search may be
// later than the server's time during the search, because that may step back. Then the search would find an item that
// has not ended, and the transaction would find that it has, again and again.
func (r *request) begins() {
	r.claim.ClaimedAt = r.bank.serverNow()
	r.claim.EndsAt = r.campaign.endOfClaim(r.claim.ClaimedAt)
}

// stepResult says how a step of a request ended if it returned no error. A refusal is an error.
type stepResult struct {
	outcome outcome
	grant   Grant // with answered
}

type outcome int

const (
	noClaim   outcome = iota // the claimant holds no claim
	itemTaken                // another claimant has the candidate: try another one
	tryAgain                 // a row was busy or throttled, the rules changed, or an ended claim was closed
	answered                 // the grant is the answer
)

// run makes attempts until there is an answer.
func (r *request) run(ctx context.Context) (Grant, error) {
	for n := range maxAttempts {
		result, err := r.attempt(ctx, n == 0)
		switch {
		case err != nil:
			return r.heldOr(ctx, err)
		case result.outcome == answered:
			return result.grant, nil
		}
	}
	return r.heldOr(ctx, fmt.Errorf("%w: %d times another request was faster", ErrTryAgain, maxAttempts))
}

// heldOr returns the claim that the claimant holds, and failure if there is none. So a holder gets the claim whatever
// failed. It does not read the claim after a refusal: the claim was read before that, or there is no such campaign.
func (r *request) heldOr(ctx context.Context, failure error) (Grant, error) {
	if errors.Is(failure, ErrRefused) || errors.Is(failure, ErrInconsistent) || ctx.Err() != nil {
		return Grant{}, failure
	}
	result, err := r.readHeld(ctx)
	if err != nil || result.outcome != answered {
		return Grant{}, failure
	}
	return result.grant, nil
}

// attempt tries once to make the claim: it checks the rules, finds a candidate, and runs the transaction.
func (r *request) attempt(ctx context.Context, first bool) (stepResult, error) {
	if err := r.campaign.marked(); err != nil {
		return stepResult{}, err
	}
	if state := r.campaign.StateAt(r.bank.serverNow()); state != Open {
		return r.refuse(ctx, refusal(state))
	}
	if r.campaign.knownSoldOut(r.search.started) {
		return r.refuse(ctx, ErrSoldOut)
	}
	if first && r.memory.repeats.Frequent() && r.memory.free.unknown(r.campaign, &r.search) > 0 {
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
		return stepResult{outcome: tryAgain}, nil
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

// find looks for a candidate. If that takes more than one read, it reads the claimant's claim at the same time: a
// claimant who holds one does not wait for the proof that the bank is empty. If it finds the claim, it returns it as
// held and ends the search. Later attempts do not read the claim, because the first transaction found none.
func (r *request) find(ctx context.Context, first bool) (found lookup, held *engine.Claim, err error) {
	if !first {
		r.search.onSlow = nil
		found, err = r.memory.free.find(ctx, r.campaign, &r.search)
		return found, nil, err
	}
	searching, stop := context.WithCancel(ctx)
	var peek sync.WaitGroup
	r.search.onSlow = sync.OnceFunc(func() {
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

// peek reads the claimant's claim before the transaction. It returns the claim only if that is certainly the answer;
// the transaction finds all other claims. If items are burned, an eventually consistent read is enough: it can return
// a claim that has just ended, but never an item that another claimant holds.
func (b *Bank) peek(ctx context.Context, c Campaign, key engine.ClaimKey) *engine.Claim {
	read := b.latestClaim
	if c.OnEnd == Return {
		read = b.heldClaim
	}
	held, err := read(ctx, key)
	if err != nil || held == nil || held.Campaign != c.Name || closable(*held, b.serverNow()) {
		return nil
	}
	return held
}

// latestClaim reads a claim row with the store's cheapest read.
func (b *Bank) latestClaim(ctx context.Context, key engine.ClaimKey) (*engine.Claim, error) {
	held, _, err := b.store.HeldClaim(ctx, key, engine.Eventual)
	return held, err
}

// replay returns an existing claim of the campaign. If the claim has this request's own id, an earlier attempt made
// it and its reply was lost.
func (r *request) replay(held engine.Claim) stepResult {
	return stepResult{answered, Grant{Claim: claimOf(held), Replayed: held.ID != r.claim.ID}}
}

// take takes the candidate from the store. It returns itemTaken if the request has to try another candidate.
func (r *request) take(ctx context.Context, item candidate) (stepResult, error) {
	r.claim.Item, r.claim.ItemHash = item.free.Value, item.free.Hash
	for {
		r.begins()
		taken, err := r.bank.store.Take(ctx, []engine.FreeItem{item.free}, r.claim)
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
			r.memory.free.discardPage(item)
			return result, err
		case err != nil || result.outcome == answered:
			r.memory.free.putBack(item)
			return result, err
		}
	}
}

// decide finds out why a Take changed nothing. The order keeps the guarantees. A claim that exists is the answer,
// whatever happened to the item. After a conflict the state of the row is unknown. Only after that does a missing
// item mean that another claimant has it.
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
		return stepResult{outcome: tryAgain}, r.wait(ctx, taken)
	}
	return stepResult{outcome: itemTaken}, nil
}

// refuse returns the claim that the claimant holds, and the refusal if there is none. It reads the claim last: the
// item that emptied the bank may be the claimant's own.
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

// answer returns an existing claim as the answer. If the claim has ended, it closes it and returns tryAgain: the item
// may now be in the bank.
func (r *request) answer(ctx context.Context, held engine.Claim) (stepResult, error) {
	if closable(held, r.bank.serverNow()) {
		released, err := r.bank.closeEnded(ctx, held)
		if err == nil && released.Already { // another request changed the claim
			err = r.wait(ctx, engine.TakeResult{ClaimConflict: true})
		}
		return stepResult{outcome: tryAgain}, err
	}
	if held.IsBlock() {
		return stepResult{}, ErrNotEligible
	}
	if held.Campaign != r.claim.Campaign {
		return stepResult{}, &ClaimedElsewhereError{held.Campaign}
	}
	return r.replay(held), nil
}

// wait waits before the next attempt, up to maxWaits times.
func (r *request) wait(ctx context.Context, taken engine.TakeResult) error {
	r.waits++
	return r.bank.backOff(ctx, r.waits-1, maxWaits, fmt.Sprintf("the store was busy (claim %t, item %t, throttled %t)",
		taken.ClaimConflict, taken.ItemConflict, taken.ClaimThrottled || taken.ItemThrottled))
}

// HeldClaim returns the claim that the claimant holds in the campaign. It changes
// nothing.
//
// Errors: *InvalidError, ErrNoCampaign, ErrNoClaim, ErrNotEligible, ErrTryAgain.
func (b *Bank) HeldClaim(ctx context.Context, campaign, claimant string, options ...ClaimOption) (Claim, error) {
	c, key, err := b.keyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Claim{}, err
	}
	held, err := b.heldClaim(ctx, key)
	if err != nil {
		return Claim{}, err
	}
	switch {
	case held != nil && held.IsBlock():
		return Claim{}, ErrNotEligible
	case held == nil || held.Campaign != campaign:
		return Claim{}, ErrNoClaim
	}
	return b.withColumns(ctx, c, claimOf(*held))
}

// heldClaim reads a claim row. If a transaction is working on the row, or its key range is throttled, it waits and reads
// again, up to maxWaits times. The SDK does not repeat a throttled read in a transaction.
func (b *Bank) heldClaim(ctx context.Context, key engine.ClaimKey) (*engine.Claim, error) {
	held, err := whileBusy(ctx, b, claimBusy, func() (held *engine.Claim, busy bool, err error) {
		held, busy, err = b.store.HeldClaim(ctx, key, engine.Strong)
		if errors.Is(err, engine.ErrThrottled) {
			return nil, true, nil
		}
		return held, busy, err
	})
	if held != nil {
		b.rules.sawClaim(held.Campaign, b.clock.Now())
	}
	return held, err
}

// claimOf converts a row to a Claim without columns.
func claimOf(row engine.Claim) Claim {
	return Claim{
		ID: row.ID, Campaign: row.Campaign, Scope: row.Scope, Claimant: row.Claimant, Slot: row.Slot,
		Items: row.Items(), ClaimedAt: row.ClaimedAt, EndsAt: row.EndsAt,
	}
}
