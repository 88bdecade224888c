package itembank

import (
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Each scope has a row of its own with the settings that are fixed when its first campaign is created. The
// transaction that creates this campaign writes the row. Every later campaign is created only if it agrees with the
// row. So if two campaigns are created at once, one of them decides.
//
// The row stays when the campaigns of the scope are deleted, because a campaign may be created in it at any moment.

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
