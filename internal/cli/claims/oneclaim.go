package claims

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// oneClaim are the arguments and flags of the commands that change one claim.
type oneClaim struct {
	Campaign string `arg:"" help:"The campaign."`
	Claimant string `arg:"" help:"The claimant who holds the claim."`
	slotFlag
	ClaimID *string `help:"Change only the claim with this id, without asking." placeholder:"ID"`
}

var errNoTerminal = errors.New("there is no terminal to ask on; nothing was changed")

// run checks the flags and opens the store for a change.
func (c oneClaim) run(ctx context.Context, a *cli.App, change func(context.Context, *cli.App, *itembank.Operator) error) error {
	if c.ClaimID != nil && *c.ClaimID == "" {
		return cli.BadUsage(errors.New("--claim-id is empty; nothing was changed"), "")
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return change(ctx, a, b) })
}

// held returns the claim that the claimant has now.
func (c oneClaim) held(ctx context.Context, b *itembank.Operator) (itembank.Claim, error) {
	return b.HeldClaim(ctx, c.Campaign, c.Claimant, c.option())
}

// explain says that the claimant has no claim, or holds another one than the claim with an id.
func (c oneClaim) explain(err error, id string) error {
	switch {
	case errors.Is(err, itembank.ErrNoClaim):
		return noClaim(err, c.Campaign, c.Claimant)
	case errors.Is(err, itembank.ErrClaimEnded):
		hint := fmt.Sprintf("`oncebox claim show %s %q` shows that claim and its id.", c.Campaign, c.Claimant)
		return cli.WithHint(fmt.Errorf("claim %s of %s in %s: %w", id, c.Claimant, c.Campaign, err), hint)
	}
	return err
}
