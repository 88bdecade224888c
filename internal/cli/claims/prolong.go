package claims

import (
	"cmp"
	"context"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type prolongCommand struct{ oneClaim }

func (prolongCommand) Help() string {
	return `Moves the end of a hold: it then ends --hold from now, but no later than --max-hold after its claim. The end
never moves back. Prints the end. The campaign has --hold and --max-hold.

A hold can be prolonged until it is closed, also in the seconds after its end, and while the campaign is closed. If it
was closed, nothing is changed and the exit code is 3. A confirmed claim has no end and stays as it is. A repeated
command counts from its own time.

Example:
  oncebox prolong seats customer-17`
}

func (c prolongCommand) Run(ctx context.Context, a *cli.App) error {
	return c.run(ctx, a, c.prolong)
}

func (c prolongCommand) prolong(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	switch {
	case err != nil:
		return err
	case campaign.MaxHold == 0:
		return cli.BadUsage(
			fmt.Errorf("campaign %q has no holds that can be prolonged", c.Campaign),
			"These need a campaign that was created with --hold and --max-hold.",
		)
	}
	claim, err := c.held(ctx, b)
	id := cmp.Or(valueOf(c.ClaimID), claim.ID)
	switch {
	case err != nil:
	case claim.ID != id:
		err = itembank.ErrClaimEnded
	case !claim.EndsAt.IsZero():
		claim, err = b.Prolong(ctx, c.Campaign, c.Claimant, id, claim.EndsAt, c.option())
	}
	if err != nil {
		return c.explain(err, id)
	}
	text := "ends " + cli.TimeOr(claim.EndsAt, "never: the claim is confirmed")
	if claim.EndsAt.Equal(claim.ClaimedAt.Add(campaign.MaxHold)) {
		text += ", and cannot be prolonged any more"
	}
	return a.Print(claimapi.NewClaimBody(itembank.Grant{Claim: claim, Replayed: true}), text)
}
