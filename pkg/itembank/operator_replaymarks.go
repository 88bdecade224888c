package itembank

import (
	"context"
	"slices"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// The parts of a ReplayStore that are about a whole scope: its blocks, and the marks of its campaigns (operator_moved.go).

// MarkOutcome says what a ReplayStore did with the mark Restored of the new store's campaign.
type MarkOutcome string

// The outcomes. Unless the mark was cleared, it stays, and the campaign cannot be opened.
const (
	MarkCleared MarkOutcome = "cleared"
	MarkRefused MarkOutcome = "refused"   // the replay refused a line
	MarkUnmoved MarkOutcome = "not-moved" // not all campaigns of the scope were Moved in the old store when it began
	MarkChanged MarkOutcome = "changed"   // somebody changed the campaign in the new store meanwhile
)

// replayedMarks is what a ReplayStore read about marks before it waited.
type replayedMarks struct {
	row engine.Campaign   // in the new store
	old []engine.Campaign // the campaigns of the scope in the old store
}

// readMarks reads the marks in both stores.
func (r *storeReplay) readMarks(ctx context.Context) error {
	row, err := r.bank.presentCampaign(ctx, r.campaign.Name)
	if err != nil {
		return err
	}
	r.marks.row = *row
	if r.marks.old, err = r.old.campaignsIn(ctx, r.campaign.Scope); err != nil {
		err = inOldStore(err)
	}
	return err
}

// clearMark clears the mark Restored of the campaign, if the old store was at rest and everything was replayed.
func (r *storeReplay) clearMark(ctx context.Context) error {
	mark := &r.report.Store.Mark
	now, err := r.old.campaignsIn(ctx, r.campaign.Scope)
	switch {
	case err != nil:
		return inOldStore(err)
	case !stoodStill(r.marks.old, now):
		*mark = MarkUnmoved
	case r.report.Refused > 0:
		*mark = MarkRefused
	case r.report.DryRun:
		*mark = MarkCleared
	default:
		*mark, err = r.bank.clearRestored(ctx, r.marks.row)
	}
	return err
}

// stoodStill reports whether all campaigns of a scope were Moved in the old store during the replay. If one is not, its
// claims may be made and closed, and they decide what the claimants of the scope may claim.
func stoodStill(before, now []engine.Campaign) bool {
	return slices.EqualFunc(before, now, func(before, now engine.Campaign) bool {
		return before.Moved && onlyLoads(before, now)
	})
}

// clearRestored clears the mark of a campaign whose row was read as first, unless somebody has changed the campaign
// since. Loads may have raised its version.
func (b *Operator) clearRestored(ctx context.Context, first engine.Campaign) (MarkOutcome, error) {
	for tries := 0; ; tries++ {
		row, err := b.presentCampaign(ctx, first.Name)
		if err != nil {
			return "", err
		}
		if !onlyLoads(first, *row) {
			return MarkChanged, nil
		}
		next := *row
		next.Restored = false
		if replaced, err := b.replaceCampaign(ctx, *row, next); err != nil || replaced {
			return MarkCleared, err
		}
		if err := b.backOff(ctx, tries, maxWaits, campaignBusy); err != nil {
			return "", err
		}
	}
}

// changeBlocks blocks the slots that are blocked in the old store, and no others. The slot of a claim that it closed is
// blocked already. The slot of a claim of another campaign is left to the replay of that campaign.
func (r *storeReplay) changeBlocks(ctx context.Context) error {
	for key, block := range r.is.blocks {
		if _, ok := r.was.blocks[key]; ok {
			continue
		}
		if err := r.unblock(ctx, block); err != nil {
			return err
		}
	}
	for key, block := range r.was.blocks {
		_, blocked := r.is.blocks[key]
		_, held := r.is.claims[key]
		if blocked || held {
			continue
		}
		if err := r.block(ctx, block); err != nil {
			return err
		}
	}
	return nil
}

func (r *storeReplay) unblock(ctx context.Context, block engine.Claim) error {
	if !r.report.DryRun {
		if err := r.bank.pace(ctx, 1); err != nil {
			return err
		}
		if done, err := r.bank.deleteBlock(ctx, block); err != nil || !done {
			return err
		}
	}
	r.gone[block.ID] = true
	r.report.Store.Unblocked++
	return nil
}

func (r *storeReplay) block(ctx context.Context, block engine.Claim) error {
	if !r.report.DryRun {
		if err := r.bank.pace(ctx, 1); err != nil {
			return err
		}
		if done, err := r.bank.putBlockRow(ctx, block); err != nil || !done {
			return err
		}
	}
	r.report.Store.Blocked++
	return nil
}
