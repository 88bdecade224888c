package itembank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A claim ends in only one way: one transaction deletes its row by its id, and returns its item to the bank or marks
// the item's row. All code that ends claims calls closeOnce, mostly by closeClaim: Release, ReleaseHold, Forget, Replace,
// requests that find an ended claim, and sweeps. Forget puts a block in the place of the row, and Replace another claim.

// Released is the result of a release. One of Already, Returned and Ended is set.
type Released struct {
	// Already: the claimant does not hold this claim. It was released before, has ended, or never existed. Nothing
	// was changed.
	Already  bool
	Returned bool // the item went back to the bank; of several items, all did
	// Ended says how the item ended: "burned", "expired" (its own life was over) or "withdrawn". Of several items, it
	// is the end of the first item that did not go back.
	Ended string
	// Items has the result for each item of a claim with several; "": the claim had one item.
	Items ItemEnds
}

// ItemEnd is the result for one item of a claim that was released.
type ItemEnd struct {
	Item  string
	Ended string // as in Released; "": the item went back to the bank
}

// ItemEnds are the results for the items of one claim, in its order, as one comparable value.
type ItemEnds string

// NewItemEnds makes ItemEnds.
func NewItemEnds(ends ...ItemEnd) ItemEnds {
	var texts []string
	for _, e := range ends {
		texts = append(texts, e.Item, e.Ended)
	}
	return ItemEnds(engine.NewItemList(texts...))
}

// All returns the ends.
func (e ItemEnds) All() (ends []ItemEnd) {
	for pair := range slices.Chunk(engine.ItemList(e).Items(), 2) {
		ends = append(ends, ItemEnd{Item: pair[0], Ended: pair[1]})
	}
	return ends
}

// closedClaim is the result of closing a claim.
type closedClaim struct {
	Released
	items     SweepReport // counts the items that returned, expired or were withdrawn
	throttled bool        // nothing was closed, because the engine asked for fewer requests
	itemGone  bool        // nothing was closed, because the item of the next claim was not free
}

func alreadyClosed() closedClaim { return closedClaim{Released: Released{Already: true}} }

// ReleaseHold ends a hold for its holder: its item goes back to the bank. A confirmed hold stays. ReleaseHold is safe
// to repeat: it then reports Already.
//
// Only campaigns with Hold allow it. In a campaign that burns items, a claimant who claims, looks and releases could
// empty the bank.
//
// Errors: *InvalidError, also if the campaign has no holds; ErrConfirmed; ErrRestored; and the errors of Release.
func (b *Bank) ReleaseHold(
	ctx context.Context, campaign, claimant, claimID string, options ...ClaimOption,
) (Released, error) {
	c, key, err := b.holdKeyOf(ctx, campaign, claimant, options)
	if err != nil {
		return Released{}, err
	}
	if err := b.notMarked(ctx, campaign); err != nil {
		return Released{}, err
	}
	held, err := b.heldForRelease(ctx, c, key, claimID)
	switch {
	case err != nil || held == nil:
		return Released{Already: err == nil}, err
	case held.EndsAt.IsZero():
		return Released{}, ErrConfirmed
	}
	closed, err := b.closeClaim(ctx, c, *held, closeTerms{state: engine.Burned, ifHold: true})
	if err != nil || !closed.Already {
		return closed.Released, err
	}
	// Another request closed or confirmed the claim.
	held, err = b.heldForRelease(ctx, c, key, claimID)
	if err == nil && held != nil {
		return Released{}, ErrConfirmed
	}
	return Released{Already: err == nil}, err
}

// heldForRelease reads the claim to release. It returns nil if the claimant does not hold it.
func (b *Bank) heldForRelease(
	ctx context.Context, c Campaign, key engine.ClaimKey, claimID string,
) (*engine.Claim, error) {
	held, err := b.heldClaim(ctx, key)
	switch {
	case err != nil || held == nil || held.ID != claimID || held.IsBlock():
		return nil, err
	case held.Campaign != c.Name:
		return nil, &ClaimedElsewhereError{held.Campaign}
	}
	return held, nil
}

// closeTerms says when a claim may be closed, and the state of its item if it does not return.
type closeTerms struct {
	endedBy time.Time // the claim must have ended before this time; zero: its end does not matter
	ifHold  bool      // the claim must be a hold that is not confirmed
	state   engine.ItemState
	// ends says for items how they end, whatever the rules of the campaign; "": the item returns.
	ends     map[engine.Hash]engine.ItemState
	next     *engine.Claim    // replaces the claim row; nil: the row is deleted
	nextItem *engine.FreeItem // the item of next; nil: next is a block
}

// closeEnded closes a claim that ended more than endGrace ago, by the rules of its own
// campaign. It leaves a claim of a campaign that is marked, and returns ErrMoved or ErrRestored.
func (b *Bank) closeEnded(ctx context.Context, claim engine.Claim) (closedClaim, error) {
	c, err := b.campaignRules(ctx, claim.Campaign)
	if errors.Is(err, ErrNoCampaign) {
		return closedClaim{}, &InconsistentError{noCampaign, fmt.Sprintf("claim %s of campaign %q", claim.ID, claim.Campaign)}
	}
	if err == nil {
		err = c.marked()
	}
	if err != nil {
		return closedClaim{}, err
	}
	return b.closeClaim(ctx, c, claim, endedTerms(b.serverNow()))
}

// endedTerms are the terms for closing a claim that has ended.
func endedTerms(now time.Time) closeTerms {
	return closeTerms{endedBy: now.Add(-endGrace), state: engine.Expired}
}

// closeClaim closes a claim of campaign c. Each of its items returns if the campaign returns items and the item's own
// life is not over. Otherwise the item ends. While the rows are busy it tries again, up to maxWaits times.
func (b *Bank) closeClaim(ctx context.Context, c Campaign, claim engine.Claim, terms closeTerms) (closedClaim, error) {
	return whileBusy(ctx, b, rowsBusy, func() (closed closedClaim, busy bool, err error) {
		return b.closeOnce(ctx, c, claim, terms)
	})
}

// closeOnce tries once to close a claim. busy: nothing was changed, and the state of the claim is unknown.
func (b *Bank) closeOnce(
	ctx context.Context, c Campaign, claim engine.Claim, terms closeTerms,
) (done closedClaim, busy bool, err error) {
	closing := engine.CloseRequest{
		Claim: claim, EndedBy: terms.endedBy, IfHold: terms.ifHold, Next: terms.next, NextItem: terms.nextItem,
	}
	items, hashes := claim.Items(), claim.Hashes()
	rows, busy, err := b.loadedRows(ctx, c, hashes)
	if err != nil || busy {
		return closedClaim{}, busy, err
	}
	for i, h := range hashes {
		row := rows[i]
		switch {
		case row == nil:
			return b.inconsistentUnlessClosed(ctx, claim, heldNotLoaded)
		case row.State != "" && !terms.endedBy.IsZero(): // only a release settles this, because it names the claim
			return b.inconsistentUnlessClosed(ctx, claim, heldAndEnded)
		}
		free := engine.FreeItem{Shard: c.shardOf(h), Hash: h, Value: items[i], EndsAt: row.EndsAt}
		item := b.closeItem(c, free, *row, terms)
		if i == 0 {
			closing.Row, closing.Return, closing.State = item.Row, item.Return, item.State
		} else {
			closing.More = append(closing.More, item)
		}
	}
	closed, err := b.store.CloseClaim(ctx, closing)
	for _, item := range closing.Items() {
		if item.Return != nil { // also after an error: this close or another may have returned the item
			b.memoryOf(c.Name).free.itemReturned(item.Return.Shard)
		}
	}
	switch {
	case err != nil:
		return closedClaim{}, false, err
	case closed.Closed():
		return closedResult(closing), false, nil
	case closed.ClaimChanged:
		return alreadyClosed(), false, nil
	case closed.ItemGone:
		return closedClaim{itemGone: true}, false, nil
	case closed.Conflict || closed.Throttled:
		// The state of a busy row is unknown. If another close of this claim is not finished, the item may be
		// returned while the claim still exists.
	case closed.ItemFree:
		return b.inconsistentUnlessClosed(ctx, claim, heldAndFree)
	}
	return closedClaim{throttled: closed.Throttled}, true, nil
}

// closeItem decides what happens to an item of a claim. An item that was withdrawn while the claim held it ends. If
// the item's row says that the item ended, the item stays as it is.
func (b *Bank) closeItem(c Campaign, item engine.FreeItem, row engine.ItemRow, terms closeTerms) engine.CloseItem {
	closing := engine.CloseItem{Hash: item.Hash, Row: row, State: terms.state}
	end, told := terms.ends[item.Hash]
	switch {
	case row.State != "":
		closing.State = row.State
	case told && end != "":
		closing.State = end
	case row.Withdraw:
		closing.State = engine.Withdrawn
	case told:
		closing.Return, closing.State = &item, ""
	case hasEnded(item, b.serverNow()):
		closing.State = engine.Expired
	case c.OnEnd == Return:
		closing.Return, closing.State = &item, ""
	}
	return closing
}

// closedResult returns the result of a successful close.
func closedResult(r engine.CloseRequest) (done closedClaim) {
	done.Returned = true
	texts, items := r.Claim.Items(), r.Items()
	if len(items) > 1 {
		ends := make([]ItemEnd, len(items))
		for i, item := range items {
			ends[i] = ItemEnd{texts[i], string(item.State)}
		}
		done.Items = NewItemEnds(ends...)
	}
	for _, item := range items {
		switch {
		case item.Return != nil:
			done.items.Returned++
			continue
		case item.State == engine.Expired:
			done.items.Expired++
		case item.State == engine.Withdrawn:
			done.items.Withdrawn++
		}
		if done.Returned {
			done.Returned, done.Ended = false, string(item.State)
		}
	}
	return done
}

// loadedRows reads the item rows of a claim, each as loadedRow does. One request reads several rows, but not at one
// moment. So the close tests that each row has not changed since.
func (b *Bank) loadedRows(ctx context.Context, c Campaign, hashes []engine.Hash) (rows []*engine.ItemRow, busy bool, err error) {
	if len(hashes) == 1 {
		row, busy, err := b.loadedRow(ctx, c, hashes[0])
		return []*engine.ItemRow{row}, busy, err
	}
	rows, err = b.store.ItemRows(ctx, c.Name, hashes, engine.Strong)
	for i := 0; i < len(rows) && err == nil && !busy; i++ {
		if rows[i] == nil {
			rows[i], busy, err = b.isolatedRow(ctx, c, hashes[i])
		}
	}
	return rows, busy, err
}

// loadedRow reads the item row of a claimed item. While a load runs, a bank row may be visible before its item row,
// so that an item can be claimed whose item row is not visible yet. So only an isolated read proves that there is no
// item row. busy: a transaction is working on the rows.
func (b *Bank) loadedRow(ctx context.Context, c Campaign, h engine.Hash) (row *engine.ItemRow, busy bool, err error) {
	row, err = b.store.ItemRow(ctx, c.Name, h)
	if err != nil || row != nil {
		return row, false, err
	}
	return b.isolatedRow(ctx, c, h)
}

func (b *Bank) isolatedRow(ctx context.Context, c Campaign, h engine.Hash) (row *engine.ItemRow, busy bool, err error) {
	reads, err := b.store.ReadItems(ctx, []engine.FreeItem{{Shard: c.shardOf(h), Hash: h}})
	if err != nil {
		return nil, false, err
	}
	return reads[0].Row, reads[0].Conflict, nil
}

// inconsistentUnlessClosed returns an error if the claim still exists. An engine need not report every condition that
// failed. So the reported one may have failed because another close of this claim succeeded. A scratch campaign loses
// its claims together with its item rows.
func (b *Bank) inconsistentUnlessClosed(
	ctx context.Context, claim engine.Claim, kind string,
) (done closedClaim, busy bool, err error) {
	held, err := b.heldClaim(ctx, claim.Key())
	switch {
	case err != nil:
		return closedClaim{}, false, err
	case held == nil || held.ID != claim.ID:
		return alreadyClosed(), false, nil
	}
	return closedClaim{}, false, inconsistentClaim(kind, claim)
}

func inconsistentClaim(kind string, claim engine.Claim) error {
	return &InconsistentError{kind, "claim " + claim.ID}
}
