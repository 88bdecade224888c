package itembank

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Choosing names the items of a claim, in a campaign whose claimants may choose (Settings.Choice). Claim takes all of
// them or none: one to Settings.MaxItems. Several items are one claim, with one id and one end. It is confirmed,
// released and closed as a whole.
//
// Choosing() without items allows any item.
//
// If one of the items is not free, Claim returns ErrItemTaken and changes nothing. If the claimant already holds a
// claim, Claim returns that claim, even if it has other items: compare Claim.Items.
func Choosing(items ...string) ClaimOption { return func(s *claimSelection) { s.items = items } }

// ErrItemTaken says that one of the items that a claim names is held, has ended, or was never loaded. It does not say
// which of the three, because that would reveal more about codes than a claim does.
var ErrItemTaken = member(ErrRefused, "the item is not free")

// choose returns the items that a call names, or nil if it names none.
func (c Campaign) choose(items []string) ([]engine.FreeItem, error) {
	if len(items) == 0 {
		return nil, nil
	}
	if err := c.mayChoose(); err != nil {
		return nil, err
	}
	if err := validateItems(items); err != nil {
		return nil, err
	}
	if len(items) > c.MaxItems {
		const form = "must be at most %d in campaign %q, are %d; `max-items` is set when a campaign is created"
		return nil, &InvalidError{"items", fmt.Sprintf(form, c.MaxItems, c.Name, len(items))}
	}
	var chosen []engine.FreeItem
	for _, item := range items {
		h := engine.HashItem(item)
		chosen = append(chosen, engine.FreeItem{Shard: c.shardOf(h), Hash: h, Value: item})
	}
	return chosen, nil
}

// mayChoose returns an error unless claimants may name items. Only such claims can have several items.
func (c Campaign) mayChoose() error {
	if c.Choice {
		return nil
	}
	const form = "cannot be chosen in campaign %q; `choice` is set when a campaign is created"
	return &InvalidError{"items", fmt.Sprintf(form, c.Name)}
}

// validateItems checks the items of a claim.
func validateItems(items []string) error {
	if len(items) == 0 {
		return &InvalidError{"items", "are missing"}
	}
	if len(items) > engine.MaxClaimItems {
		return &InvalidError{"items", fmt.Sprintf("must be at most %d, are %d", engine.MaxClaimItems, len(items))}
	}
	for i, item := range items {
		if err := ValidateItem(item); err != nil {
			return err
		}
		if slices.Contains(items[:i], item) {
			return &InvalidError{"items", "has an item twice"}
		}
	}
	return nil
}

// takeChosen takes the items that the request names. If one of them is not free, it first closes claims that are due,
// because one of these may hold the item. Then it refuses the request: there is no other candidate.
func (r *request) takeChosen(ctx context.Context) (stepResult, error) {
	r.claim.Item, r.claim.ItemHash, r.claim.More = r.chosen[0].Value, r.chosen[0].Hash, ""
	for _, item := range r.chosen[1:] {
		r.claim.More += engine.NewItemList(item.Value)
	}
	r.begins()
	taken, err := r.bank.store.Take(ctx, r.chosen, r.claim)
	switch {
	case err != nil:
		return stepResult{}, err
	case taken.Taken():
		return stepResult{answered, Grant{Claim: claimOf(r.claim)}}, nil
	}
	counted := taken
	counted.ItemGone = false // no other candidate is tried, so this is no lost race
	r.bank.contention.count(counted)
	result, err := r.decide(ctx, taken)
	if err != nil || result.outcome != itemTaken {
		return result, err
	}
	if r.closeDueChosen(ctx) {
		return stepResult{outcome: tryAgain}, nil
	}
	return r.refuse(ctx, ErrItemTaken)
}

// closeDueChosen closes claims that are due in the shards of the chosen items, once a request. It may miss the claim
// that holds a chosen item, because the index has a claim under the shard of its first item. The sweeps find that
// claim. Errors do not fail the request.
func (r *request) closeDueChosen(ctx context.Context) (closed bool) {
	if !r.campaign.claimsEnd() || r.campaign.OnEnd != Return || r.dueClosed {
		return false
	}
	r.dueClosed = true
	var shards []int
	for _, item := range r.chosen {
		shards = append(shards, item.Shard.Number)
	}
	due := r.memory.free.dueAgain(shards, r.bank.clock.Now())
	if len(due) == 0 {
		return false
	}
	n, _ := r.bank.closeDueIn(ctx, r.campaign, due, r.bank.serverNow())
	return n > 0
}

// dueAgain returns the shards whose index was not read for chosen items in the last second, each once. It notes that
// they are read now.
func (l *freeList) dueAgain(shards []int, now time.Time) (again []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range shards {
		if sought, ok := l.chosenSought[n]; !ok || elapsed(sought, now) >= emptyFor {
			l.chosenSought[n] = now
			again = append(again, n)
		}
	}
	return again
}
