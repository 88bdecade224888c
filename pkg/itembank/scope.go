package itembank

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Each scope has a row of its own with the settings that are fixed when its first campaign is created. The
// transaction that creates this campaign writes the row. Every later campaign is created only if it agrees with the
// row. So if two campaigns are created at once, one of them decides.
//
// The row stays when the campaigns of the scope are deleted, because a campaign may be created in it at any moment.
//
// Scopes of earlier versions have no row. They are Exact, and get a row with their next campaign.

// checkScope refuses a campaign that does not agree with the campaigns of its scope. It is for scopes
// without a row; the transaction compares the row. All campaigns of a scope are alike, so that any of them
// will do. Earlier versions of oncebox, which write no row, take no part in a race: they refuse to
// create campaigns beside those that need one (dynamostore), or to open the store (sqlitestore).
func (b *Bank) checkScope(ctx context.Context, c Campaign) error {
	own := c.row().ScopeRow()
	if own == (engine.Scope{Name: c.Scope}) {
		return nil // as a scope without a row
	}
	if row, err := b.store.Scope(ctx, c.Scope); err != nil || row != nil {
		return err // the transaction compares the row, which is never deleted
	}
	all, err := b.store.Campaigns(ctx)
	if err != nil {
		return err
	}
	for _, row := range all {
		if row.Mode == engine.Deleted || row.Name == c.Name || row.Scope != c.Scope {
			continue
		}
		if other := row.ScopeRow(); other != own {
			return c.scopeDiffers(other)
		}
	}
	return nil
}

// scopeDiffers returns the error for a campaign that does not agree with the row of its scope.
func (c Campaign) scopeDiffers(s engine.Scope) error {
	switch own := c.row().ScopeRow(); {
	case s.Sole != "" && s.Sole != c.Name:
		const form = "%q is for campaign %q alone, whose claimants can have several claims; choose another scope"
		return &InvalidError{"scope", fmt.Sprintf(form, s.Name, s.Sole)}
	case s.Sole != "" && own.Sole == "": // the campaign was deleted
		const form = "%q was created for several claims a claimant, which is fixed; choose that or another scope"
		return &InvalidError{"scope", fmt.Sprintf(form, s.Name)}
	case own.Sole != s.Sole:
		const form = "several claims a claimant need a scope that no other campaign has; choose another one than %q"
		return &InvalidError{"per-claimant", fmt.Sprintf(form, s.Name)}
	}
	const form = "the scope %q compares claimants as %s, which is fixed; choose that or another scope"
	return &InvalidError{"claimant-as", fmt.Sprintf(form, s.Name, claimantAsOf(s.Claimants))}
}
