package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type releaseCommand struct {
	Campaign string  `arg:"" help:"The campaign."`
	Claimant string  `arg:"" help:"Whose claim."`
	ClaimID  *string `help:"Release the claim with this id and no other, without asking." placeholder:"ID"`
	Yes      bool    `help:"Release whatever claim there is, without asking."`
}

func (releaseCommand) Help() string {
	return `Ends the claim. By the campaign's --on-end its item goes back to the bank, or is
burned, and then nobody gets it again. The claimant may claim again afterwards.

Shows the claim and asks; where nobody can be asked it wants --yes or --claim-id.
It releases the claim that it showed: if that is another one by then, nothing is
changed. Without a yes nothing is changed either, and the exit code is 3, as it is
if the claimant holds no claim.

For scripts: --claim-id, with the claim_id that claim prints, is safe to repeat. If
the claim is gone it says "already released" and the exit code is 0. --yes repeated
would also release a claim that was made in between.

Examples:
  oncebox release spring customer-17
  oncebox release spring customer-17 --claim-id "$ID"`
}

// errUnconfirmed: nobody said yes.
var errUnconfirmed = errors.New("not released: the answer was not yes; nothing was changed")

func (c releaseCommand) Run(ctx context.Context, a *app) error {
	switch {
	case c.ClaimID != nil && *c.ClaimID == "":
		return &usageError{errors.New("--claim-id is empty; nothing was changed"), ""}
	case c.ClaimID == nil && !c.Yes && !a.canAsk():
		return &usageError{errors.New("nobody can be asked here; say --claim-id ID to release that claim, or --yes to release the one that there is"), ""}
	}
	return a.withBank(ctx, func(b *itembank.Bank) error { return c.release(ctx, a, b) })
}

func (c releaseCommand) release(ctx context.Context, a *app, b *itembank.Bank) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	if c.ClaimID != nil {
		return c.end(ctx, a, b, itembank.Claim{ID: *c.ClaimID})
	}
	claim, err := b.HeldClaim(ctx, c.Campaign, c.Claimant)
	if errors.Is(err, itembank.ErrNoClaim) {
		return fmt.Errorf("%w: %s holds nothing in %s; it was released already, or never made", err, c.Claimant, c.Campaign)
	}
	if err != nil {
		return err
	}
	shown := fmt.Sprintf("%s holds in %s:\n%s", c.Claimant, c.Campaign, describeClaim(claim))
	if c.Yes {
		a.remark("%s", shown)
		return c.end(ctx, a, b, claim)
	}
	what := "burn the item"
	if campaign.OnEnd == itembank.Return {
		what = "return the item to the bank"
	}
	yes, err := a.ask(ctx, fmt.Sprintf("%s\nRelease the claim and %s?", shown, what))
	if err != nil {
		return err
	}
	if !yes {
		return errUnconfirmed
	}
	return c.end(ctx, a, b, claim)
}

func describeClaim(c itembank.Claim) string {
	return table(func(row func(...string)) {
		row("  item", c.Item)
		row("  since", timeOr(c.ClaimedAt, "unknown"))
		row("  ends", timeOr(c.EndsAt, "never"))
		row("  claim id", c.ID)
	})
}

// releaseJSON is the result of a release.
type releaseJSON struct {
	Campaign string `json:"campaign"`
	Claimant string `json:"claimant"`
	ClaimID  string `json:"claim_id"`
	Item     string `json:"item,omitempty"` // not with --claim-id, where the claim is not read
	Outcome  string `json:"outcome"`        // already, or what became of the item: returned, burned, expired, withdrawn
}

// end releases one claim and no other.
func (c releaseCommand) end(ctx context.Context, a *app, b *itembank.Bank, claim itembank.Claim) error {
	done, err := b.Release(ctx, c.Campaign, c.Claimant, claim.ID)
	if err != nil && (errors.Is(err, itembank.ErrTryAgain) || ctx.Err() != nil) {
		return fmt.Errorf("%w; to repeat it for this claim and no other, say --claim-id %s", err, claim.ID)
	}
	if err != nil {
		return err
	}
	outcome, text := done.Ended, "released; the item is burned, nobody gets it again"
	switch {
	case done.Already:
		outcome, text = "already", fmt.Sprintf("already released: %s has no claim %s in %s", c.Claimant, claim.ID, c.Campaign)
	case done.Returned:
		outcome, text = "returned", "released; the item is in the bank again"
	case done.Ended == "expired":
		text = "released; the item has expired with its own life, nobody gets it again"
	case done.Ended == "withdrawn":
		text = "released; the item was withdrawn before, nobody gets it again"
	}
	return a.print(releaseJSON{c.Campaign, c.Claimant, claim.ID, claim.Item, outcome}, text)
}

// canAsk reports that a person is there to answer: stdin is a terminal, and so is
// stderr, where questions go.
func (a *app) canAsk() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// ask asks a question. Everything but a line of y or yes is a no, also the end of
// the input.
func (a *app) ask(ctx context.Context, question string) (yes bool, err error) {
	fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	line, err := bufio.NewReader(interruptible(ctx, a.stdin)).ReadString('\n')
	switch {
	case errors.Is(err, io.EOF):
		fmt.Fprintln(a.stderr)
		return false, nil
	case err != nil:
		return false, err
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	return answer == "y" || answer == "yes", nil
}
