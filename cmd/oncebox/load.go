package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/schollz/progressbar/v3"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type loadCommand struct {
	Campaign string  `arg:"" help:"The campaign."`
	File     string  `arg:"" help:"One item a line, or CSV with --column; - is stdin."`
	Column   *string `help:"Read CSV and take this column: a name from the first row, or a number from 1, and then there is no first row of names." placeholder:"NAME|N"`
	DryRun   bool    `help:"Check the file, say what a load would do, and change nothing."`
}

func (loadCommand) Help() string {
	return `The whole file is checked first: one bad line, and nothing is changed (exit
code 2). Empty lines are skipped. A load that was cut goes on where it was when the
same items are loaded again; items that the campaign knows are not added again,
also if they are claimed. Any number of loads may run at once.

Prints how many lines were added, known from another load, or repeated in this one.

With --dry-run it prints the numbers that a load would print. They are exact unless
somebody else loads into the campaign before the load is done.

Examples:
  oncebox load spring codes.txt
  oncebox load spring codes.csv --column code --dry-run
  oncebox load spring codes.csv --column code
  zcat codes.gz | oncebox load spring -`
}

func (c loadCommand) Run(ctx context.Context, a *app) error {
	source, remove, err := a.itemSource(ctx, c.File, c.Column)
	if err != nil {
		return err
	}
	defer remove()
	return a.withBank(ctx, func(b *itembank.Bank) error {
		if c.DryRun {
			return c.dryRun(ctx, a, b, source)
		}
		return c.load(ctx, a, b, source)
	})
}

func (c loadCommand) load(ctx context.Context, a *app, b *itembank.Bank, source itembank.Source) error {
	report, err := b.Load(ctx, c.Campaign, source, left(a.progress("loading "+c.Campaign)))
	switch {
	case err != nil && report.LoadID == "" && errors.Is(err, itembank.ErrInvalid):
		return badItems(c.File, err)
	case err != nil && report.LoadID == "":
		return err
	case errors.Is(err, itembank.ErrOvertaken): // the load is done all the same
	case err != nil:
		return &cutError{fmt.Sprintf("after %d lines", report.Rows), err}
	}
	if report.Resumed > 0 {
		a.remark("went on after %d lines that an earlier run had loaded", report.Resumed)
	}
	return errors.Join(err, a.print(report, fmt.Sprintf("added %d, known %d, repeated %d of %d lines",
		report.Added, report.Known, report.Repeated, report.Rows)))
}

// dryRun prints what load would.
func (c loadCommand) dryRun(ctx context.Context, a *app, b *itembank.Bank, source itembank.Source) error {
	report, err := b.DryRun(ctx, c.Campaign, source)
	switch {
	case errors.Is(err, itembank.ErrInvalid):
		return badItems(c.File, err)
	case err != nil:
		return err
	}
	if report.Resumed > 0 {
		a.remark("it would go on after %d lines that an earlier run had done, which are counted here", report.Resumed)
	}
	return a.print(struct {
		DryRun bool `json:"dry_run"`
		itembank.LoadReport
	}{true, report}, fmt.Sprintf("would add %d, known %d, repeated %d of %d lines; nothing was changed",
		report.Added, report.Known, report.Repeated, report.Rows))
}

// badItems says which file is to be repaired.
func badItems(file string, err error) error {
	return fmt.Errorf("%s: %w; nothing was changed", file, err)
}

// cutError says that a command stopped on its way, after it had changed something.
type cutError struct {
	after string // what was done, as in "after 50 lines"
	err   error
}

func (e *cutError) Error() string {
	if errors.Is(e.err, itembank.ErrInconsistent) {
		return fmt.Sprintf("%s: %v", e.after, e.err)
	}
	return fmt.Sprintf("%s: %v; the same command goes on from there", e.after, e.err)
}

func (e *cutError) Unwrap() error { return e.err }

// left tells of the lines that are left to do: those of an earlier run would spoil
// the rate.
func left(progress itembank.Progress) itembank.Progress {
	if progress == nil {
		return nil
	}
	begun := int64(-1)
	return func(done, total int64) {
		if begun < 0 {
			begun = done
		}
		if total > begun {
			progress(done-begun, total-begun)
		}
	}
}

// progress draws a bar on a terminal, and nothing elsewhere.
func (a *app) progress(what string) itembank.Progress {
	if !a.showsProgress() {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		if bar == nil {
			bar = a.bar(total, what, progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("lines"))
			bar.StartWithoutRender()
		}
		if done > 0 { // there is a rate
			_ = bar.Set64(done) // a bar that cannot be drawn is no reason to stop
		}
	}
}
