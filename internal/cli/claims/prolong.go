package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type prolongCommand struct {
	Campaign string `arg:"" help:"The campaign. It was created with --hold and --max-hold."`
	Claimant string `arg:"" help:"The claimant whose hold is prolonged."`
	slotFlag
	ClaimID *string `help:"Change only the hold with this id." placeholder:"ID"`
}

func (prolongCommand) Help() string {
	return `Moves the end of a hold: it then ends --hold from now, but no later than --max-hold after its claim. The end
never moves back. Prints the end.

A hold can be prolonged until it is closed, also in the seconds after its end, and while the campaign is closed. If it
was closed, nothing is changed and the exit code is 3. A confirmed claim has no end and stays as it is. A repeated
command counts from its own time.

Example:
  oncebox prolong seats customer-17`
}

func (c prolongCommand) Run(ctx context.Context, a *cli.App) error {
	if c.ClaimID != nil && *c.ClaimID == "" {
		return cli.BadUsage(errors.New("--claim-id is empty; nothing was changed"), "")
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.prolong(ctx, a, b) })
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
	claim, err := b.HeldClaim(ctx, c.Campaign, c.Claimant, c.option())
	id := cmp.Or(valueOf(c.ClaimID), claim.ID)
	switch {
	case err != nil:
	case claim.ID != id:
		err = itembank.ErrClaimEnded
	case !claim.EndsAt.IsZero():
		claim, err = b.Prolong(ctx, c.Campaign, c.Claimant, id, claim.EndsAt, c.option())
	}
	if err != nil {
		return aboutHold(err, c.Campaign, c.Claimant, id)
	}
	text := "ends " + cli.TimeOr(claim.EndsAt, "never: the claim is confirmed")
	if claim.EndsAt.Equal(claim.ClaimedAt.Add(campaign.MaxHold)) {
		text += ", and cannot be prolonged any more"
	}
	return a.Print(claimapi.NewClaimBody(itembank.Grant{Claim: claim, Replayed: true}), text)
}
