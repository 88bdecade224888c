package itembank

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// A block is a claim row without a campaign and an item, in each slot of the claimant. The put of a claim tests that
// its key is absent, so it finds the block, and a claim reads and writes no more than without blocks. The number of
// slots of a scope never changes. So a block in each slot leaves the claimant no slot.
//
// All code compares the campaign of a claim row with its own. A block has none, so lists, counts, sweeps, Reconcile
// and LookUp pass over it.

// blockRest is how long the blocks of a scope stay after the last of its campaigns has closed. An operator who extends
// a campaign does so before.
const blockRest = 30 * 24 * time.Hour

// BlockReport is the result of a Block or an Unblock.
type BlockReport struct {
	Scope    string
	Claimant string  // as the scope stores it
	Slots    int     // the slots of a claimant in the scope
	Changed  int     // the slots that the call blocked or unblocked
	Held     []Claim // the claims that stay: their slots are not blocked
	// PurgedAfter is the time after which PurgeBlocks deletes the blocks of the scope; zero: they stay.
	PurgedAfter time.Time
}

// Block blocks a claimant in a scope: Claim returns ErrNotEligible. A claim that the claimant holds stays, and its slot
// is not blocked. Release it and repeat Block, or call Forget, which does both in one transaction.
//
// Block is safe to repeat.
//
// Errors: *InvalidError; ErrNoCampaign if the scope has no campaign; ErrMoved and ErrRestored if a campaign of the scope
// has that mark; ErrTryAgain. After an error the report has the results up to then.
func (b *Operator) Block(ctx context.Context, scope, claimant string) (BlockReport, error) {
	isFree := func(held *engine.Claim) bool { return held == nil }
	return b.changeBlocks(ctx, scope, claimant, isFree, func(key engine.ClaimKey, _ *engine.Claim) (bool, error) {
		return b.putBlock(ctx, key)
	})
}

// Unblock deletes the blocks of a claimant in a scope, so that the claimant can claim again. It is safe to repeat.
//
// Errors: as Block.
func (b *Operator) Unblock(ctx context.Context, scope, claimant string) (BlockReport, error) {
	isBlock := func(held *engine.Claim) bool { return held != nil && held.IsBlock() }
	return b.changeBlocks(ctx, scope, claimant, isBlock, func(_ engine.ClaimKey, held *engine.Claim) (bool, error) {
		return b.deleteBlock(ctx, *held)
	})
}

// IsBlocked reports whether a claimant is blocked in a slot of the scope of a campaign. It reads each slot, and changes
// nothing.
//
// Errors: *InvalidError; ErrNoCampaign; ErrTryAgain.
func (b *Operator) IsBlocked(ctx context.Context, campaign, claimant string) (bool, error) {
	keys, err := b.slotKeys(ctx, campaign, claimant)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if held, err := b.heldClaim(ctx, key); err != nil || held != nil && held.IsBlock() {
			return err == nil, err
		}
	}
	return false, nil
}

// changeBlocks changes each slot of a claimant that is to be changed, and reports what it changed.
func (b *Operator) changeBlocks(
	ctx context.Context, scope, claimant string,
	toChange func(*engine.Claim) bool, change func(engine.ClaimKey, *engine.Claim) (done bool, err error),
) (BlockReport, error) {
	report := BlockReport{Scope: scope, Claimant: claimant}
	keys, campaigns, err := b.slotsIn(ctx, scope, claimant)
	if err != nil {
		return report, err
	}
	marks := scopeMarks{b, scope, campaigns, b.clock.Now()}
	report.Claimant, report.Slots, report.PurgedAfter = keys[0].Claimant, len(keys), b.purgedAfter(campaigns)
	for _, key := range keys {
		if err := marks.check(ctx); err != nil {
			return report, err
		}
		held, changed, err := b.changeSlot(ctx, key, toChange, change)
		if err != nil {
			return report, err
		}
		switch {
		case changed:
			report.Changed++
		case held != nil && !held.IsBlock():
			report.Held = append(report.Held, claimOf(*held))
		}
	}
	return report, nil
}

// changeSlot changes a slot if it is to be changed. If another request changes it meanwhile, it reads the slot again: a
// claimant may have claimed since. held is the row that it read last.
func (b *Operator) changeSlot(
	ctx context.Context, key engine.ClaimKey,
	toChange func(*engine.Claim) bool, change func(engine.ClaimKey, *engine.Claim) (done bool, err error),
) (held *engine.Claim, changed bool, err error) {
	for range maxAttempts {
		if held, err = b.heldClaim(ctx, key); err != nil || !toChange(held) {
			return held, false, err
		}
		if changed, err = change(key, held); changed || err != nil {
			return held, changed, err
		}
	}
	return held, false, slotChanged()
}

// slotsIn returns the keys of all slots of a claimant in a scope, and the campaigns of the scope.
func (b *Operator) slotsIn(
	ctx context.Context, scope, claimant string,
) (keys []engine.ClaimKey, campaigns []engine.Campaign, err error) {
	if err := ValidateName("scope", scope); err != nil {
		return nil, nil, err
	}
	if err := ValidateClaimant(claimant); err != nil {
		return nil, nil, err
	}
	if campaigns, err = b.campaignsIn(ctx, scope); err != nil {
		return nil, nil, err
	}
	if len(campaigns) == 0 {
		return nil, nil, ErrNoCampaign
	}
	keys, err = campaignOf(campaigns[0]).slotsOf(claimant) // all campaigns of a scope have the same slots
	return keys, campaigns, err
}

// campaignsIn returns the campaigns of a scope. No row of the scope names them, so it reads the list of all campaigns. It
// returns an error if a campaign of the scope cannot be read: it may be moved or restored, or have more slots.
func (b *Operator) campaignsIn(ctx context.Context, scope string) ([]engine.Campaign, error) {
	all, err := b.campaignRows(ctx)
	if unreadable, ok := errors.AsType[*UnreadableError](err); ok && !unreadable.In(scope) {
		err = nil
	}
	return slices.DeleteFunc(all, func(c engine.Campaign) bool { return c.Scope != scope }), err
}

// putBlock blocks a slot that is free. done is false if the slot is not free.
func (b *Operator) putBlock(ctx context.Context, key engine.ClaimKey) (done bool, err error) {
	block, err := b.newBlock(key)
	if err != nil {
		return false, err
	}
	return b.putBlockRow(ctx, block)
}

// putBlockRow puts a block. done is false if its slot is not free.
func (b *Operator) putBlockRow(ctx context.Context, block engine.Claim) (done bool, err error) {
	return whileBusy(ctx, b.Bank, claimBusy, func() (done, busy bool, err error) {
		taken, err := b.store.Take(ctx, nil, block)
		return err == nil && taken.Taken(), !taken.Taken() && taken.Held == nil, err
	})
}

func (b *Operator) newBlock(key engine.ClaimKey) (engine.Claim, error) {
	id, err := b.newClaimID()
	return engine.Claim{
		ID: id, Scope: key.Scope, Claimant: key.Claimant, Slot: key.Slot, ClaimedAt: b.serverNow(),
	}, err
}

// deleteBlock deletes a block. done is false if the row has changed.
func (b *Operator) deleteBlock(ctx context.Context, block engine.Claim) (done bool, err error) {
	return whileBusy(ctx, b.Bank, claimBusy, func() (done, busy bool, err error) {
		closed, err := b.store.CloseClaim(ctx, engine.CloseRequest{Claim: block})
		return err == nil && closed.Closed(), !closed.Closed() && !closed.ClaimChanged, err
	})
}

// PurgeBlocks deletes the blocks of a scope that are older than 30 days, if each of its campaigns closed by its times
// more than 30 days ago. Before that, and if a campaign has no time at which it closes or was opened or closed by hand,
// it deletes nothing and reads one list of campaigns. Otherwise it reads all claims of the scope, at the rate of
// WithRate. PurgeBlocks is safe to repeat and to interrupt.
//
// The campaigns decide when it is called, not when the claimant was blocked. So a campaign that is extended keeps its
// blocks.
//
// Errors: *InvalidError; ErrTryAgain. purged is the number of deleted blocks, also after an error.
func (b *Operator) PurgeBlocks(ctx context.Context, scope string) (purged int64, err error) {
	if err := ValidateName("scope", scope); err != nil {
		return 0, err
	}
	campaigns, err := b.campaignsIn(ctx, scope)
	if err != nil {
		return 0, err
	}
	if end := blocksEnd(campaigns); end.IsZero() || !end.Before(b.serverNow()) {
		return 0, nil
	}
	err = b.eachClaim(ctx, scope, func(claim engine.Claim) error {
		// A block that is newer may have been made since that moment, after the campaign was extended.
		if !claim.IsBlock() || claim.ClaimedAt.Add(blockRest).After(b.serverNow()) {
			return nil
		}
		done, err := b.deleteBlock(ctx, claim)
		if done {
			purged++
		}
		return err
	})
	return purged, err
}

// purgedAfter returns the time after which a block that is made now may be deleted, in a scope with these campaigns; the
// zero time: it stays.
func (b *Operator) purgedAfter(campaigns []engine.Campaign) time.Time {
	end := blocksEnd(campaigns)
	if rest := b.serverNow().Add(blockRest); !end.IsZero() && end.Before(rest) {
		end = rest
	}
	return end
}

// blocksEnd returns the time after which old blocks may be deleted in a scope with these campaigns; the zero time: they
// stay.
func blocksEnd(campaigns []engine.Campaign) (end time.Time) {
	for _, c := range campaigns {
		if c.Mode != engine.ByTimes || c.ClosesAt.IsZero() {
			return time.Time{}
		}
		if closed := c.ClosesAt.Add(blockRest); end.Before(closed) {
			end = closed
		}
	}
	return end
}

var errBlock = errors.New("a block")

// noBlocksLeft returns ErrBlocksLeft if a campaign is the last of its scope and claimants are blocked there. Without a
// campaign no command could find these blocks. A later campaign of the same name could have more slots than are
// blocked. A block that is put between this check and the deletion is not found, nor is a deletion of the other campaign
// of the scope at the same time (docs/adr/0042-marks-of-a-restore.md).
func (b *Operator) noBlocksLeft(ctx context.Context, c engine.Campaign) error {
	campaigns, err := b.campaignsIn(ctx, c.Scope)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(campaigns, func(other engine.Campaign) bool { return other.Name != c.Name }) {
		return nil
	}
	var blocked string
	err = b.eachClaim(ctx, c.Scope, func(claim engine.Claim) error {
		if claim.IsBlock() {
			blocked = claim.Claimant
			return errBlock
		}
		return nil
	})
	if errors.Is(err, errBlock) {
		return fmt.Errorf("%w, such as %q: unblock them first, or close the campaign instead", ErrBlocksLeft, blocked)
	}
	return err
}
