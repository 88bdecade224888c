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

type replaceCommand struct{ oneClaim }

func (replaceCommand) Help() string {
	return `Gives the claimant another free item, for example for a code that does not work, and prints it. The old item ends as
"replaced": no claimant gets it again, whatever --on-end of the campaign says. Both happen or neither does: if the
campaign is sold out, the claimant keeps the claim, and the exit code is 3. The new claim has the end of the old one, if
it had one. A claim of several items cannot be replaced. The campaign must be open.

If codes are used by claims of a second campaign, withdraw the code there first, for example with "oncebox withdraw
spring-used FILE", and replace it only if that prints no "held 1": an order has then used the code. See "Generated
codes, and codes that are used once" in docs/claims.md.

Shows the claim and asks. Without a terminal it needs --claim-id. It replaces the claim that it showed and no other.
If the answer is not yes, or if the claimant has no claim, nothing is changed and the exit code is 3.

For scripts: --claim-id takes the claim_id that "oncebox --output json claim" prints, also with "claim show". It is
safe to repeat: if that claim was replaced before, the command prints the item that the claimant has now.

Examples:
  oncebox replace spring customer-17
  oncebox replace spring customer-17 --claim-id "$ID"`
}

func (c replaceCommand) Run(ctx context.Context, a *cli.App) error {
	if c.ClaimID == nil && !a.CanAsk() {
		return cli.BadUsage(errNoTerminal, fmt.Sprintf(
			"Say --claim-id ID to replace only that claim: `oncebox claim show %s %q` prints the id.", c.Campaign, c.Claimant))
	}
	return c.run(ctx, a, c.replace)
}

func (c replaceCommand) replace(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	if c.ClaimID != nil {
		return c.exchange(ctx, a, b, *c.ClaimID)
	}
	claim, err := c.held(ctx, b)
	if err != nil {
		return c.explain(err, claim.ID)
	}
	const form = "%s holds in %s:\n%s\nEnd the item, and give %s another one?"
	yes, err := a.Ask(ctx, fmt.Sprintf(form, c.Claimant, c.Campaign, describeClaim(claim), c.Claimant))
	if err != nil {
		return err
	}
	if !yes {
		return cli.ErrUnconfirmed
	}
	return c.exchange(ctx, a, b, claim.ID)
}

// exchange replaces exactly this claim.
func (c replaceCommand) exchange(ctx context.Context, a *cli.App, b *itembank.Operator, id string) error {
	grant, err := b.Replace(ctx, c.Campaign, c.Claimant, id, c.option())
	if err != nil && (errors.Is(err, itembank.ErrTryAgain) || ctx.Err() != nil) {
		const hint = "The claim may have been replaced. To repeat this without replacing it twice, say --claim-id "
		return cli.WithHint(err, hint+id+".")
	}
	if err != nil {
		return c.explain(err, id)
	}
	if grant.Replayed {
		a.Remark("claim %s was replaced before; this is the item that %s has now", id, c.Claimant)
	}
	return a.Print(claimapi.NewClaimBody(grant), strings.Join(itemsOf(grant.Claim, itemLine), "\n"))
}

// explain adds to a refusal what the claimant has, and where to look.
func (c replaceCommand) explain(err error, id string) error {
	switch {
	case errors.Is(err, itembank.ErrSoldOut):
		return fmt.Errorf("%s: %w; %s keeps the claim", c.Campaign, err, c.Claimant)
	case errors.Is(err, itembank.ErrNotOpen), errors.Is(err, itembank.ErrClosed):
		hint := fmt.Sprintf("`oncebox campaign show %s` shows its times.", c.Campaign)
		return cli.WithHint(fmt.Errorf("%s: %w; %s keeps the claim", c.Campaign, err, c.Claimant), hint)
	}
	return unblockHint(c.oneClaim.explain(err, id), c.Campaign, c.Claimant)
}
