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
	Claimant string  `arg:"" help:"The claimant whose claim is released."`
	ClaimID  *string `help:"Release only the claim with this id, without asking." placeholder:"ID"`
	Yes      bool    `help:"Release the claim that there is, without asking."`
}

func (releaseCommand) Help() string {
	return `Ends the claim. The campaign's --on-end decides whether the item goes back to the bank or is burned. Nobody gets a
burned item again. The claimant may claim again afterwards.

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

// errUnconfirmed says that the answer was not yes.
var errUnconfirmed = errors.New("not released: the answer was not yes; nothing was changed")

func (c releaseCommand) Run(ctx context.Context, a *app) error {
	switch {
	case c.ClaimID != nil && *c.ClaimID == "":
		return &usageError{errors.New("--claim-id is empty; nothing was changed"), ""}
	case c.ClaimID == nil && !c.Yes && !a.canAsk():
		return &usageError{
			errors.New("there is no terminal to ask on; nothing was changed"),
			"Say --claim-id ID to release only that claim, or --yes to release the claim that there is.",
		}
	}
	return a.withBank(ctx, c.Campaign, func(b *itembank.Bank) error { return c.release(ctx, a, b) })
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
		return fmt.Errorf("%w: %s holds no item of %s", err, c.Claimant, c.Campaign)
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
	Item     string `json:"item,omitempty"` // absent with --claim-id, where the claim is not read
	Outcome  string `json:"outcome"`        // already, or what happened to the item: returned, burned, expired, withdrawn
}

// end releases one claim and no other.
func (c releaseCommand) end(ctx context.Context, a *app, b *itembank.Bank, claim itembank.Claim) error {
	done, err := b.Release(ctx, c.Campaign, c.Claimant, claim.ID)
	if err != nil && (errors.Is(err, itembank.ErrTryAgain) || ctx.Err() != nil) {
		hint := "The claim may have been released. To repeat this for the same claim only, say --claim-id " + claim.ID + "."
		return &hintError{err, hint}
	}
	if err != nil {
		return err
	}
	outcome, text := done.Ended, "released; the item is burned, nobody gets it again"
	switch {
	case done.Already:
		outcome, text = "already", fmt.Sprintf("nothing to release: %s has no claim %s in %s; it may have been released before", c.Claimant, claim.ID, c.Campaign)
	case done.Returned:
		outcome, text = "returned", "released; the item is in the bank again"
	case done.Ended == "expired":
		text = "released; the item has expired, nobody gets it again"
	case done.Ended == "withdrawn":
		text = "released; the item was withdrawn before, nobody gets it again"
	}
	return a.print(releaseJSON{c.Campaign, c.Claimant, claim.ID, claim.Item, outcome}, text)
}

// canAsk reports whether a person can answer: stdin is a terminal, and so is stderr, where questions go.
func (a *app) canAsk() bool { return isTerminal(a.stdin) && isTerminal(a.stderr) }

// ask asks a question. Only a line of y or yes is a yes.
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
