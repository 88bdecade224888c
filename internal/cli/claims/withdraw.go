package claims

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type withdrawCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	File     string `arg:"" optional:"" help:"The items, one a line, or CSV with --column; - is stdin."`
	itemFlags
	rateFlag
	All bool `help:"Withdraw all free items of the campaign. Needs --yes."`
	Yes bool `help:"Confirm --all."`
}

func (withdrawCommand) Help() string {
	return `Takes items out of the campaign for good: no claimant gets them, and they cannot be loaded again. An item
that is held stays with its claimant. It ends as withdrawn when the claim ends or is released.

Checks the whole file first, as load does. If one line is bad, nothing is changed and the exit code is 2. Safe to
repeat: after an interruption the same command does the rest.

Prints how many items were withdrawn now, had ended before ("already"), are held by a claimant, or are unknown to
the campaign. The exit code is 4 if some are held or unknown.

--all withdraws the items that are free now. Held items are not marked: if they come back later, they are free.

Examples:
  oncebox withdraw spring recalled.txt
  oncebox withdraw spring recalled.csv --column code
  oncebox withdraw spring --all --yes`
}

func (c withdrawCommand) Run(ctx context.Context, a *cli.App) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.All {
		return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.all(ctx, a, b) }, c.option())
	}
	in, err := openItems(ctx, a, c.File, c.itemFlags)
	if err != nil {
		return err
	}
	defer in.remove()
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.file(ctx, a, b, in.Source) }, c.option())
}

func (c withdrawCommand) check() error {
	switch {
	case c.All && (c.File != "" || c.isSet()):
		return cli.BadUsage(errors.New("name a file or say --all, not both"), "")
	case c.All && !c.Yes:
		return cli.BadUsage(errors.New("--all takes every free item out of the bank for good"), "Say --all --yes to do that.")
	case !c.All && c.File == "":
		return cli.BadUsage(errors.New("there is nothing to withdraw"), "Name a file of items, or say --all --yes.")
	}
	return nil
}

func (c withdrawCommand) all(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	progress, finish := a.Counting("withdrawing from "+c.Campaign, "items")
	report, err := b.WithdrawAll(ctx, c.Campaign, progress)
	finish()
	return withdrawn(a, report, err)
}

func (c withdrawCommand) file(ctx context.Context, a *cli.App, b *itembank.Operator, source itembank.Source) error {
	report, err := b.Withdraw(ctx, c.Campaign, watched(source, a.Progress("withdrawing from "+c.Campaign)))
	if errors.Is(err, itembank.ErrInvalid) && report == (itembank.WithdrawReport{}) {
		return badItems(c.File, err)
	}
	return withdrawn(a, report, err)
}

func withdrawn(a *cli.App, r itembank.WithdrawReport, err error) error {
	text := fmt.Sprintf("withdrawn %d, already %d, held %d, unknown %d", r.Withdrawn, r.Already, r.Held, r.Unknown)
	switch {
	case err != nil && r == (itembank.WithdrawReport{}):
		return err
	case err != nil:
		return cli.Stopped("("+text+")", err)
	case r.Held+r.Unknown > 0:
		err = fmt.Errorf("%w: %s held by claimants until their claims end, %s never loaded",
			cli.ErrLook, cli.Quantity(r.Held, "item"), cli.Quantity(r.Unknown, "item"))
	}
	return errors.Join(a.Print(r, text), err)
}
