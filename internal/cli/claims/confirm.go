package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type confirmCommand struct {
	Campaign string `arg:"" help:"The campaign. It was created with --hold."`
	Claimant string `arg:"" help:"The claimant whose hold is confirmed."`
	slotFlag
	ClaimID *string `help:"Change only the hold with this id." placeholder:"ID"`
}

func (confirmCommand) Help() string {
	return `Makes a hold permanent: it has no end any more. Safe to repeat. Prints the item.

A hold can be confirmed until it is closed, also in the seconds after its end. If that has happened, nothing is
changed and the exit code is 3.

Use --claim-id when a customer has paid for a claim: it takes the claim_id that the customer got. Without it the command
confirms the claim that the claimant has now, which may be a later one.

Examples:
  oncebox confirm seats customer-17
  oncebox confirm seats customer-17 --claim-id "$ID"`
}

func (c confirmCommand) Run(ctx context.Context, a *cli.App) error {
	if c.ClaimID != nil && *c.ClaimID == "" {
		return cli.BadUsage(errors.New("--claim-id is empty; nothing was changed"), "")
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.confirm(ctx, a, b) })
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
		return aboutHold(err, c.Campaign, c.Claimant, id)
	}
	return a.Print(claimapi.NewClaimBody(itembank.Grant{Claim: claim, Replayed: true}), strings.Join(claim.Items, "\n"))
}

// aboutHold names the hold in the error of a command that changes it.
func aboutHold(err error, campaign, claimant, id string) error {
	switch {
	case errors.Is(err, itembank.ErrNoClaim):
		return noClaim(err, campaign, claimant)
	case errors.Is(err, itembank.ErrClaimEnded):
		return claimEnded(err, campaign, claimant, id)
	}
	return err
}

// idOfClaim returns --claim-id, or the id of the claimant's claim.
func (c confirmCommand) idOfClaim(ctx context.Context, b *itembank.Operator) (string, error) {
	if c.ClaimID != nil {
		return *c.ClaimID, nil
	}
	claim, err := b.HeldClaim(ctx, c.Campaign, c.Claimant, c.option())
	return claim.ID, err
}
