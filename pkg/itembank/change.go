package itembank

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// These rules keep the row of a campaign:
//
//   - A change reads the row and replaces it only if its Version and its EmptyVersion are the same since. Every change
//     and every load counts up the Version. Without the EmptyVersion a change could forget that containers believe the
//     bank empty, and the next load would not wait for them (soldout.go).
//   - The first load row of a campaign is put in one transaction with the next version of the campaign.
//     A deletion reads the version and then the loads. So one of the two fails.
//   - A deleted row stays for good, and a new campaign of that name goes on with its version. It is created
//     in the same transaction as any other, with the row of its scope (scope.go). A Bank
//     may use a copy of the old rules for DrainTime after the deletion: it would look for claims in the
//     old scope, and return items to the old shards. So the name is free again only after that.

// CampaignChange says what ChangeCampaign changes. A nil field stays as it is.
type CampaignChange struct {
	OpensAt  *time.Time // the zero time: at once
	ClosesAt *time.Time // the zero time: never
	PageSize *int       // 1 to 1000
	ByTimes  bool       // take back what OpenCampaign or CloseCampaign decided
}

// maxChanges is how often a change is tried while loads count up the version of the campaign. Each
// does so two or three times in all.
const maxChanges = 16

// ChangeCampaign changes settings of a campaign that may change. The others are fixed when it is
// created: copies of them are used without a limit in claims, items and other Banks. Other Banks
// follow when their copies of the rules are too old (DefaultCampaignCache). Safe to repeat.
//
// Errors: *InvalidError; ErrNoCampaign; ErrChanged; ErrTryAgain.
func (b *Bank) ChangeCampaign(ctx context.Context, name string, change CampaignChange) (Campaign, error) {
	if err := ValidateName("campaign", name); err != nil {
		return Campaign{}, err
	}
	var first, changed Campaign
	for try := range maxChanges {
		row, err := b.presentCampaign(ctx, name)
		if err != nil {
			return Campaign{}, err
		}
		c := campaignOf(*row)
		if try == 0 {
			first = c
			if changed, err = change.apply(c); err != nil {
				return Campaign{}, err
			}
		}
		switch c {
		case first: // only the version may differ
		case changed: // by an earlier try, whose reply was lost
			return c, nil
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

// DeleteCampaign deletes a campaign that was never loaded, with its page. A campaign that was ever loaded stays: a
// claim of it may be under way at any moment, and a claim whose campaign is gone can be neither
// released nor swept.
//
// DeleteCampaign counts the rows of the campaign and the claims of its scope, to find those of a table
// that was restored.
//
// Errors: *InvalidError; ErrNoCampaign, also from a call that repeats one whose reply was lost; ErrLoaded;
// ErrTryAgain.
func (b *Bank) DeleteCampaign(ctx context.Context, name string) error {
	if err := ValidateName("campaign", name); err != nil {
		return err
	}
	for try := range maxChanges {
		row, err := b.presentCampaign(ctx, name)
		if try > 0 && errors.Is(err, ErrNoCampaign) { // deleted by the try before, whose reply was lost
			return nil
		}
		if err != nil {
			return err
		}
		if err := b.neverLoaded(ctx, *row); err != nil {
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
func (b *Bank) neverLoaded(ctx context.Context, c engine.Campaign) error {
	some, _, err := b.store.Loads(ctx, c.Name)
	switch {
	case err != nil:
		return err
	case some:
		return ErrLoaded
	}
	counts, err := b.store.Counts(ctx, c, true)
	if err == nil && counts != (engine.Counts{}) {
		err = ErrLoaded
	}
	return err
}

// putCampaign puts the row of a new campaign, or returns the rows that are in the way. The row of a
// deleted campaign is not, once no Bank uses its rules.
func (b *Bank) putCampaign(ctx context.Context, c Campaign) (engine.CreateResult, error) {
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
func (b *Bank) presentCampaign(ctx context.Context, name string) (*engine.Campaign, error) {
	row, err := b.store.Campaign(ctx, name)
	if err == nil && (row == nil || row.Mode == engine.Deleted) {
		err = ErrNoCampaign
	}
	return row, err
}

// replaceCampaign writes the row now in place of old, with the next version.
func (b *Bank) replaceCampaign(ctx context.Context, old, now engine.Campaign) (replaced bool, err error) {
	now.Version, now.EmptyVersion = old.Version+1, old.EmptyVersion
	replaced, err = b.store.ReplaceCampaign(ctx, old, now)
	b.rules.forget(now.Name)
	return replaced, err
}
