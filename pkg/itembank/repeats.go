package itembank

import (
	"context"
	"sync"
)

// A claimant who comes again costs 4 write units in a transaction that fails, and
// half a read unit where the claim is read first; a new one costs that read on top
// of the transaction. So reading first pays as soon as a few percent come again; it
// begins a little later, since it also makes a new claimant wait for two requests.
const (
	readFirstFrom = 0.1
	repeatWeight  = 1.0 / 16 // of the latest request in the share
)

// repeats measures how many of a campaign's requests, as this Bank sees them, come
// from claimants who hold a claim already.
type repeats struct {
	mu    sync.Mutex
	share float64
}

func (r *repeats) note(repeat bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.share *= 1 - repeatWeight
	if repeat {
		r.share += repeatWeight
	}
}

func (r *repeats) readFirst() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.share >= readFirstFrom
}

// peek looks for the claimant's claim before anything is tried. Where items are
// burned a little old answer is as good: it can show a claim that has just ended,
// but no item that somebody else has by now. done = false: the transaction decides.
func (r *request) peek(ctx context.Context) (grant Grant, done bool, err error) {
	read := r.bank.store.HeldClaimEventuallyConsistent
	if r.campaign.OnEnd == Return {
		read = r.bank.store.HeldClaim
	}
	held, err := read(ctx, r.claim.Scope, r.claim.Claimant)
	if err != nil || held == nil || held.Campaign != r.claim.Campaign {
		return Grant{}, false, err
	}
	return r.answer(ctx, *held)
}
