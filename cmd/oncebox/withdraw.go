package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type withdrawCommand struct {
	Campaign string  `arg:"" help:"The campaign."`
	File     string  `arg:"" optional:"" help:"The items, one a line, or CSV with --column; - is stdin."`
	Column   *string `help:"Read CSV and take this column: a name from the first row, or a number from 1, and then there is no first row of names." placeholder:"NAME|N"`
	All      bool    `help:"Withdraw all free items of the campaign; wants --yes."`
	Yes      bool    `help:"Withdraw all free items without further question."`
}

func (withdrawCommand) Help() string {
	return `Takes free items out of the bank for good: nobody gets them, and they are not
loaded again. Items that somebody holds stay with their holders.

The whole file is checked first: one bad line, and nothing is changed (exit code 2).
Safe to repeat: the same command goes on where it was cut, and then counts as
"already" what it had withdrawn.

Prints how many items were withdrawn now, had ended already, are held, or are unknown
to the campaign. Exit code 4 if some are held or unknown.

Examples:
  oncebox withdraw spring recalled.txt
  oncebox withdraw spring recalled.csv --column code
  oncebox withdraw spring --all --yes`
}

func (c withdrawCommand) Run(ctx context.Context, a *app) error {
	if err := c.check(); err != nil {
		return err
	}
	if c.All {
		return a.withBank(ctx, func(b *itembank.Bank) error { return c.all(ctx, a, b) })
	}
	source, remove, err := a.itemSource(ctx, c.File, c.Column)
	if err != nil {
		return err
	}
	defer remove()
	return a.withBank(ctx, func(b *itembank.Bank) error { return c.items(ctx, a, b, source) })
}

func (c withdrawCommand) check() error {
	switch {
	case c.All && (c.File != "" || c.Column != nil):
		return &usageError{errors.New("name a file, or say --all, not both"), ""}
	case c.All && !c.Yes:
		return &usageError{errors.New("--all takes every free item out of the bank, for good; say --yes if that is meant"), ""}
	case !c.All && c.File == "":
		return &usageError{errors.New("name a file of items, or say --all --yes"), ""}
	}
	return nil
}

func (c withdrawCommand) all(ctx context.Context, a *app, b *itembank.Bank) error {
	progress, over := a.counting("withdrawing from "+c.Campaign, "items")
	report, err := b.WithdrawAll(ctx, c.Campaign, progress)
	over()
	return a.withdrawn(report, err)
}

func (c withdrawCommand) items(ctx context.Context, a *app, b *itembank.Bank, source itembank.Source) error {
	report, err := b.Withdraw(ctx, c.Campaign, watched(source, a.progress("withdrawing from "+c.Campaign)))
	if errors.Is(err, itembank.ErrInvalid) && report == (itembank.WithdrawReport{}) {
		return badItems(c.File, err)
	}
	return a.withdrawn(report, err)
}

func (a *app) withdrawn(r itembank.WithdrawReport, err error) error {
	text := fmt.Sprintf("withdrawn %d, already %d, held %d, unknown %d", r.Withdrawn, r.Already, r.Held, r.Unknown)
	switch {
	case err != nil && r == (itembank.WithdrawReport{}):
		return err
	case err != nil:
		return &cutError{text, err}
	case r.Held+r.Unknown > 0:
		err = fmt.Errorf("%w: held, and left with their holders: %d; never loaded: %d", errLook, r.Held, r.Unknown)
	}
	return errors.Join(a.print(r, text), err)
}
