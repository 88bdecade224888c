package itembank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// These rules protect the row of a campaign:
//
//   - A change reads the row, and replaces it only if its Version and EmptyVersion have not changed since. To open or
//     to close a campaign is a change, too. The condition on EmptyVersion prevents that a change removes the note that
//     containers believe the bank empty: without this note the next load would not wait for them (soldout.go).
//   - If the row has changed, the change is tried again only if no other operator has changed the campaign meanwhile
//     (onlyLoads). A close is always tried again. A change adds changeStep to the Version, and a load adds 1. So a
//     close is told from a load even if the campaign was closed before, in the same mode.
//   - The first load row of a campaign is put in one transaction with the next version of the campaign. A deletion
//     reads the version and then the loads. So if both run at once, one of them fails.
//   - The row of a deleted campaign is never removed. A new campaign of that name continues with its version, and is
//     created with the row of its scope in one transaction, like every campaign (operator_scope.go). For DrainTime after the
//     deletion a Bank may still use a copy of the old rules: it would look for claims in the old scope, and return
//     items to the old shards. So the name is free again only after DrainTime.

// CampaignChange names the settings that ChangeCampaign changes. A nil field stays as it is.
type CampaignChange struct {
	OpensAt  *time.Time // the zero time: at once
	ClosesAt *time.Time // the zero time: never
	PageSize *int       // 1 to 1000
	ByTimes  bool       // OpensAt and ClosesAt decide again, not OpenCampaign or CloseCampaign
}

// changeStep is what a change adds to the Version of a campaign. Loads and repairs add 1. So Version / changeStep
// counts the changes. A campaign that was changed by an earlier version of oncebox, which added 1, has just a lower
// count. If loads and repairs ever add changeStep in total, this looks like a change, which is safe: an opening or a
// change is refused once.
const changeStep = 1_000_000_000

// onlyLoads reports whether between two reads of a campaign row no operator changed the campaign. Then loads, repairs
// and notes that the bank is empty are the only differences.
func onlyLoads(before, now engine.Campaign) bool {
	unchanged := before.Version/changeStep == now.Version/changeStep
	before.Version, before.EmptyVersion = now.Version, now.EmptyVersion
	return unchanged && before == now
}

// maxChanges limits the tries of a change while loads raise the version of the campaign. Each load raises it two or
// three times.
const maxChanges = 16

// ChangeCampaign changes the settings that CampaignChange names. The other settings are fixed when the campaign is
// created, because claims, items and other Banks use copies of them for an unlimited time. Other Banks follow when
// their copies of the rules expire (DefaultCampaignCache). ChangeCampaign is safe to repeat.
//
// Errors: *InvalidError; ErrNoCampaign; ErrMoved and ErrRestored for ByTimes; ErrChanged; ErrTryAgain.
func (b *Operator) ChangeCampaign(ctx context.Context, name string, change CampaignChange) (Campaign, error) {
	if err := ValidateName("campaign", name); err != nil {
		return Campaign{}, err
	}
	var first engine.Campaign
	var changed Campaign
	for try := range maxChanges {
		row, err := b.presentCampaign(ctx, name)
		if err != nil {
			return Campaign{}, err
		}
		if change.ByTimes {
			if err := b.scopeNotMarked(ctx, row.Scope, ""); err != nil {
				return Campaign{}, err
			}
		}
		if try == 0 {
			first = *row
			if changed, err = change.apply(campaignOf(first)); err != nil {
				return Campaign{}, err
			}
		}
		switch {
		case onlyLoads(first, *row):
		case campaignOf(*row) == changed: // by an earlier try, whose reply was lost
			return changed, nil
		default:
			return Campaign{}, ErrChanged
		}
		replaced, err := b.replaceCampaign(ctx, *row, changed.row())
		if err != nil || replaced {
			return changed, err
		}
	}
	return Campaign{}, fmt.Errorf("%w: loads changed the campaign %d times", ErrTryAgain, maxChanges)
}

// apply returns the campaign with the changes.
func (change CampaignChange) apply(c Campaign) (Campaign, error) {
	if change.OpensAt != nil {
		c.OpensAt = wholeMillis(*change.OpensAt)
	}
	if change.ClosesAt != nil {
		c.ClosesAt = wholeMillis(*change.ClosesAt)
	}
	if change.PageSize != nil {
		c.PageSize = *change.PageSize
	}
	if change.ByTimes {
		if c.UntilReconciled {
			return c, &InvalidError{"by-times", "the campaign stays closed until it is reconciled; open it or close it first"}
		}
		c.Override = ""
	}
	return c, c.validate()
}

// DeleteCampaign deletes a campaign that was never loaded, with its page. A campaign that was ever loaded is not
// deleted: a request may be making a claim at any moment, and without the campaign that claim could be neither
// released nor swept.
//
// DeleteCampaign also counts the rows of the campaign and the claims of its scope, because a restored table may have
// some without a load.
//
// Errors: *InvalidError; ErrNoCampaign, also if an earlier call deleted the campaign and its reply was lost; ErrLoaded;
// ErrBlocksLeft; ErrChanged; ErrTryAgain.
func (b *Operator) DeleteCampaign(ctx context.Context, name string) error {
	if err := ValidateName("campaign", name); err != nil {
		return err
	}
	var first engine.Campaign
	for try := range maxChanges {
		row, err := b.presentCampaign(ctx, name)
		if try > 0 && errors.Is(err, ErrNoCampaign) { // deleted by the try before, whose reply was lost
			return nil
		}
		if err != nil {
			return err
		}
		if try == 0 {
			first = *row
		}
		if !onlyLoads(first, *row) { // perhaps it is another campaign of that name
			return ErrChanged
		}
		if err := b.neverLoaded(ctx, *row); err != nil {
			return err
		}
		if err := b.noBlocksLeft(ctx, *row); err != nil {
			return err
		}
		deleted := *row
		deleted.Mode, deleted.ClosesAt = engine.Deleted, b.serverNow()
		if replaced, err := b.replaceCampaign(ctx, *row, deleted); err != nil || replaced {
			return err
		}
	}
	return fmt.Errorf("%w: others changed the campaign %d times", ErrTryAgain, maxChanges)
}

// neverLoaded returns an error if there is a load, an item or a claim of the campaign.
func (b *Operator) neverLoaded(ctx context.Context, c engine.Campaign) error {
	some, _, err := b.store.Loads(ctx, c.Name)
	switch {
	case err != nil:
		return err
	case some:
		return ErrLoaded
	}
	counts, err := b.store.Counts(ctx, c, engine.Strong)
	if err == nil && counts != (engine.Counts{}) {
		err = ErrLoaded
	}
	return err
}

// putCampaign puts the row of a new campaign, or returns the existing rows that prevent it. It replaces the row of a
// deleted campaign when no Bank uses its rules any more.
func (b *Operator) putCampaign(ctx context.Context, c Campaign) (engine.CreateResult, error) {
	row := c.row()
	for range maxChanges {
		result, err := b.store.CreateCampaign(ctx, row)
		old := result.Existing
		if err != nil || old == nil || old.Mode != engine.Deleted {
			return result, err
		}
		if again := old.ClosesAt.Add(DrainTime).Sub(b.serverNow()); again > 0 {
			return result, fmt.Errorf("%w; its name can be used again in %.0f s", ErrDeleted, again.Seconds()+1)
		}
		row.Version, row.EmptyVersion = old.Version+1, old.EmptyVersion
	}
	return engine.CreateResult{}, fmt.Errorf("%w: others changed the campaign %d times", ErrTryAgain, maxChanges)
}

// presentCampaign reads the row of a campaign that is not deleted.
func (b *Operator) presentCampaign(ctx context.Context, name string) (*engine.Campaign, error) {
	row, err := b.store.Campaign(ctx, name)
	if err == nil && (row == nil || row.Mode == engine.Deleted) {
		err = ErrNoCampaign
	}
	return row, err
}

// modeChange opens or closes a campaign, or marks it (operator_moved.go). Marks that it does not name stay.
type modeChange struct {
	mode            engine.Mode
	moved, restored bool // set this mark
	unmark          bool // clear both marks
}

// of returns the row after the change. While a campaign has a mark, a close keeps the condition that it is reconciled.
func (m modeChange) of(row engine.Campaign) engine.Campaign {
	row.Moved = m.moved || row.Moved && !m.unmark
	row.Restored = m.restored || row.Restored && !m.unmark
	marked := row.Moved || row.Restored
	if !marked || m.mode != engine.ClosedByHand || row.Mode != engine.ClosedUntilReconciled {
		row.Mode = m.mode
	}
	return row
}

// setMode changes the mode of a campaign whose row was read as first. If another operator changes the campaign
// meanwhile, it does not open it. It closes it in any case, and tries until it has done so or the end of ctx is near:
// loads and repairs may raise the version many times a second.
func (b *Operator) setMode(ctx context.Context, first engine.Campaign, change modeChange) error {
	row := first
	for tries := 0; ; tries = min(tries+1, maxWaits-1) {
		if replaced, err := b.replaceCampaign(ctx, row, change.of(row)); err != nil || replaced {
			return err
		}
		if err := b.backOff(ctx, tries, maxWaits, campaignBusy); err != nil {
			return err
		}
		now, err := b.presentCampaign(ctx, first.Name)
		if err != nil {
			return err
		}
		switch changed := !onlyLoads(first, *now); {
		case changed && change.sufficient(*now): // by another operator, or by an earlier try, whose reply was lost
			return nil
		case changed && change.mode == engine.OpenByHand:
			return ErrChanged
		}
		row = *now
	}
}

// sufficient reports whether a campaign that another operator has just changed needs no other change. A close does not
// remove the condition of a later CloseUntilReconciled.
func (m modeChange) sufficient(row engine.Campaign) bool {
	next := m.of(row)
	sameMarks := next.Moved == row.Moved && next.Restored == row.Restored
	return sameMarks && (row.Mode == m.mode || row.Mode == engine.ClosedUntilReconciled && m.mode == engine.ClosedByHand)
}

// replaceCampaign replaces the row old by next, with the next version.
func (b *Operator) replaceCampaign(ctx context.Context, old, next engine.Campaign) (replaced bool, err error) {
	next.Version, next.EmptyVersion = old.Version+changeStep, old.EmptyVersion
	replaced, err = b.store.ReplaceCampaign(ctx, old, next)
	b.rules.forget(next.Name)
	return replaced, err
}
