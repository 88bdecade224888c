package claims

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type confirmCommand struct{ oneClaim }

func (confirmCommand) Help() string {
	return `Makes a hold permanent: it has no end any more. Safe to repeat. Prints the item. The campaign has --hold.

A hold can be confirmed until it is closed, also in the seconds after its end. If that has happened, nothing is
changed and the exit code is 3.

Use --claim-id when a customer has paid for a claim: it takes the claim_id that the customer got. Without it the command
confirms the claim that the claimant has now, which may be a later one.

Examples:
  oncebox confirm seats customer-17
  oncebox confirm seats customer-17 --claim-id "$ID"`
}

func (c confirmCommand) Run(ctx context.Context, a *cli.App) error {
	return c.run(ctx, a, c.confirm)
}

func (c confirmCommand) confirm(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	switch {
	case err != nil:
		return err
	case campaign.Hold == 0:
		return cli.BadUsage(
			fmt.Errorf("campaign %q has no holds, so there is nothing to confirm", c.Campaign),
			"Holds need a campaign that was created with --hold.",
		)
	}
	id, err := c.idOfClaim(ctx, b)
	var claim itembank.Claim
	if err == nil {
		claim, err = b.Confirm(ctx, c.Campaign, c.Claimant, id, c.option())
	}
	if err != nil {
		return c.explain(err, id)
	}
	return a.Print(claimapi.NewClaimBody(itembank.Grant{Claim: claim, Replayed: true}), strings.Join(claim.Items, "\n"))
}

// idOfClaim returns --claim-id, or the id of the claimant's claim.
func (c confirmCommand) idOfClaim(ctx context.Context, b *itembank.Operator) (string, error) {
	if c.ClaimID != nil {
		return *c.ClaimID, nil
	}
	claim, err := c.held(ctx, b)
	return claim.ID, err
}
