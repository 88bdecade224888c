package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type releaseCommand struct {
	oneClaim
	Yes bool `help:"Release the claim that there is, without asking."`
}

func (releaseCommand) Help() string {
	return `Ends the claim. The campaign's --on-end decides whether the item goes back to the bank or is burned. No
claimant gets a burned item again. The claimant may claim again afterwards. For a claim with several items the result
says what happened to each item: an item that was withdrawn meanwhile, or whose own life is over, does not return.

Shows the claim and asks. Without a terminal it needs --yes or --claim-id. It releases the claim that it showed
and no other. If the answer is not yes, or if the claimant has no claim, nothing is changed and the exit code is
3.

For scripts: --claim-id takes the claim_id that "oncebox --output json claim" prints. It is safe to repeat: if
there is no such claim, perhaps because it was released before, the command says so and the exit code is 0. A
repeated --yes would also release a claim that was made in between.

Examples:
  oncebox release spring customer-17
  oncebox release spring customer-17 --claim-id "$ID"`
}

func (c releaseCommand) Run(ctx context.Context, a *cli.App) error {
	if c.ClaimID == nil && !c.Yes && !a.CanAsk() {
		return cli.BadUsage(errNoTerminal, "Say --claim-id ID to release only that claim, or --yes to release the claim that there is.")
	}
	return c.run(ctx, a, c.release)
}

func (c releaseCommand) release(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	if c.ClaimID != nil {
		return c.end(ctx, a, b, itembank.Claim{ID: *c.ClaimID})
	}
	claim, err := c.held(ctx, b)
	if err != nil {
		return c.explain(err, "")
	}
	shown := fmt.Sprintf("%s holds in %s:\n%s", c.Claimant, c.Campaign, describeClaim(claim))
	if c.Yes {
		a.Remark("%s", shown)
		return c.end(ctx, a, b, claim)
	}
	what := "burn the item"
	if campaign.OnEnd == itembank.Return {
		what = "return the item to the bank"
	}
	yes, err := a.Ask(ctx, fmt.Sprintf("%s\nRelease the claim and %s?", shown, what))
	if err != nil {
		return err
	}
	if !yes {
		return cli.ErrUnconfirmed
	}
	return c.end(ctx, a, b, claim)
}

func describeClaim(c itembank.Claim) string {
	return cli.Table(func(row func(...string)) {
		for _, item := range itemsOf(c, itemText) {
			row("  item", item)
		}
		if c.Slot > 1 {
			row("  slot", fmt.Sprint(c.Slot))
		}
		row("  since", cli.TimeOr(c.ClaimedAt, "unknown"))
		row("  ends", cli.TimeOr(c.EndsAt, "never"))
		row("  claim id", c.ID)
	})
}

// releaseJSON is the result of a release.
type releaseJSON struct {
	Campaign string             `json:"campaign"`
	Claimant string             `json:"claimant"`
	ClaimID  string             `json:"claim_id"`
	Item     string             `json:"item,omitempty"`  // the first; absent with --claim-id, which does not read the claim
	Outcome  string             `json:"outcome"`         // already, mixed, or what happened to all items: see releasedItemJSON
	Items    []releasedItemJSON `json:"items,omitempty"` // all items, of a claim with several
}

// releasedItemJSON says what happened to an item of a claim.
type releasedItemJSON struct {
	Item    string `json:"item"`
	Outcome string `json:"outcome"` // returned, or how it ended, before or now: burned, expired, withdrawn, lost, replaced
}

func toReleaseJSON(campaign, claimant string, claim itembank.Claim, done itembank.Released) releaseJSON {
	result := releaseJSON{Campaign: campaign, Claimant: claimant, ClaimID: claim.ID, Outcome: outcomeOf(done.Ended)}
	if len(claim.Items) > 0 {
		result.Item = claim.Items[0]
	}
	if done.Already {
		result.Outcome = "already"
	}
	for _, e := range done.Items.All() {
		item := releasedItemJSON{e.Item, outcomeOf(e.Ended)}
		if item.Outcome != result.Outcome {
			result.Outcome = "mixed"
		}
		result.Items = append(result.Items, item)
	}
	return result
}

// outcomeOf names the outcome for an item that ended or returned.
func outcomeOf(ended string) string {
	if ended == "" {
		return "returned"
	}
	return ended
}

// outcomeTexts are the texts of the outcomes of an item.
var outcomeTexts = map[string]string{
	"returned":  "is in the bank again",
	"burned":    "is burned, no claimant gets it again",
	"expired":   "has expired, no claimant gets it again",
	"withdrawn": "was withdrawn before, no claimant gets it again",
	"lost":      "was marked as lost before, no claimant gets it again",
	"replaced":  "was replaced before, no claimant gets it again",
}

func (r releaseJSON) text() string {
	if len(r.Items) == 0 {
		return "released; the item " + outcomeTexts[r.Outcome]
	}
	lines := []string{"released:"}
	for _, item := range r.Items {
		lines = append(lines, "  "+item.Item+" "+outcomeTexts[item.Outcome])
	}
	return strings.Join(lines, "\n")
}

// end releases exactly this claim.
func (c releaseCommand) end(ctx context.Context, a *cli.App, b *itembank.Operator, claim itembank.Claim) error {
	done, err := b.Release(ctx, c.Campaign, c.Claimant, claim.ID, c.option())
	if err != nil && (errors.Is(err, itembank.ErrTryAgain) || ctx.Err() != nil) {
		hint := "The claim may have been released. To repeat this for the same claim only, say --claim-id " + claim.ID + "."
		return cli.WithHint(err, hint)
	}
	if err != nil {
		return err
	}
	result := toReleaseJSON(c.Campaign, c.Claimant, claim, done)
	if done.Already {
		const form = "nothing to release: %s has no claim %s in %s; it may have been released before"
		err := a.Print(result, fmt.Sprintf(form, c.Claimant, claim.ID, c.Campaign))
		a.Remark("`oncebox claim show %s %q` shows what the claimant holds now, with its id.", c.Campaign, c.Claimant)
		return err
	}
	return a.Print(result, result.text())
}
