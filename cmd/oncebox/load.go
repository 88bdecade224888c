package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

type loadCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	File     string `arg:"" help:"One item a line, or CSV with --column; - is stdin."`
	itemFlags
	With []string `help:"Load these columns of the CSV with the items, by their names in the first row. They come back with the item, to every claimant who gets it. Needs --column NAME, and a campaign with --columns." placeholder:"NAME,..."`
	rateFlag
	DryRun bool `help:"Check the file, show its first items, print what a load would do, and change nothing."`
}

func (loadCommand) Help() string {
	return `Checks the whole file first. If one line is bad, nothing is changed and the exit code is 2. Bad lines have white
space around the item, invisible characters, or control characters. Blank lines are skipped.

A file that looks like CSV needs --column, or --lines if every line is one item.

An item that the campaign knows is not added again, also if a claimant holds it. After an interruption the same command
goes on where it stopped. Several loads may run at once. With --rate a line counts as a row, and a second time if it is
looked up first.

With --with the items of a campaign with --columns have columns, such as a price, a row or an address. They come back
with the item in every answer, so name only columns that customers may see. An item has up to 10 columns, and at most
1,024 bytes of names and values. It keeps the columns of its first load. Lines with the same item need the same
columns.

Prints how many lines were added, known from another load, or repeated in this one. With --dry-run it prints the numbers
of the load that would follow; they are exact unless another load adds items to the campaign in between.

Examples:
  oncebox load spring codes.txt
  oncebox load spring codes.csv --column code --dry-run
  oncebox load spring codes.csv --column code
  oncebox load hall seats.csv --column seat --with price,row
  oncebox load spring more-codes.txt --rate 200   # beside a sale
  zcat codes.gz | oncebox load spring -`
}

func (c loadCommand) Run(ctx context.Context, a *app) error {
	if err := c.checkWith(); err != nil {
		return err
	}
	in, err := a.openItems(ctx, c.File, c.itemFlags, c.With...)
	if err != nil {
		return err
	}
	defer in.remove()
	return a.withBank(ctx, c.Campaign, func(b *itembank.Bank) error {
		if err := c.checkCampaign(ctx, b); err != nil {
			return err
		}
		if c.DryRun {
			return c.dryRun(ctx, a, b, in)
		}
		return c.load(ctx, a, b, in)
	}, c.option())
}

// checkWith checks the flags of columns.
func (c loadCommand) checkWith() error {
	switch {
	case len(c.With) == 0:
		return nil
	case c.Lines:
		return &usageError{errors.New("--with and --lines cannot be used together: only CSV has columns"), ""}
	case c.Column == nil:
		return &usageError{errors.New("--with needs --column NAME, the column of the items"), ""}
	case len(c.With) > engine.MaxColumns:
		return &usageError{fmt.Errorf("--with names %d columns, at most %d are allowed", len(c.With), engine.MaxColumns), ""}
	}
	return nil
}

// checkCampaign refuses columns for a campaign that has none.
func (c loadCommand) checkCampaign(ctx context.Context, b *itembank.Bank) error {
	if len(c.With) == 0 {
		return nil
	}
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err == nil && !campaign.Columns {
		return &usageError{
			fmt.Errorf("--with: %s was created without --columns, which is fixed; nothing was changed", c.Campaign),
			"Create another campaign with --columns, or load without --with.",
		}
	}
	return err
}

// loadJSON is the result of a load.
type loadJSON struct {
	itembank.LoadReport
	Blank int64 `json:"blank"` // lines that were skipped; not among the rows
}

func (c loadCommand) load(ctx context.Context, a *app, b *itembank.Bank, in *items) error {
	report, err := b.Load(ctx, c.Campaign, in.Source, left(a.progress("loading "+c.Campaign)))
	switch {
	case err != nil && report.LoadID == "" && errors.Is(err, itembank.ErrInvalid):
		return badItems(c.File, c.itemFlags, err)
	case err != nil && report.LoadID == "":
		return err
	case err != nil:
		return &cutError{"after " + quantity(report.Rows, "line"), err}
	}
	if report.Resumed > 0 {
		a.remark("went on after %s that an earlier run had loaded", quantity(report.Resumed, "line"))
	}
	c.remarkColumns(a, report)
	return a.print(loadJSON{report, in.Blank}, fmt.Sprintf("added %d, known %d, repeated %d of %s%s",
		report.Added, report.Known, report.Repeated, quantity(report.Rows, "line"), skipped(in.Blank)))
}

// remarkColumns says that known items keep their columns.
func (c loadCommand) remarkColumns(a *app, report itembank.LoadReport) {
	if n := report.OtherColumns; n > 0 {
		a.remark("warning: the items of %s are known with other columns than %s has; items keep the columns of their first load",
			quantity(n, "line"), c.File)
	}
}

// dryRunJSON is the result of a dry run.
type dryRunJSON struct {
	DryRun bool `json:"dry_run"`
	loadJSON
	FirstItems   []string           `json:"first_items"`
	FirstColumns []itembank.Columns `json:"first_columns,omitempty"` // of these items, with --with
}

// dryRun prints what load would print.
func (c loadCommand) dryRun(ctx context.Context, a *app, b *itembank.Bank, in *items) error {
	report, err := b.DryRun(ctx, c.Campaign, in.Source)
	switch {
	case errors.Is(err, itembank.ErrInvalid):
		return badItems(c.File, c.itemFlags, err)
	case err != nil:
		return err
	}
	if report.Resumed > 0 {
		a.remark("it would go on after %s of an earlier run, which are counted here", quantity(report.Resumed, "line"))
	}
	c.remarkColumns(a, report)
	return a.print(dryRunJSON{true, loadJSON{report, in.Blank}, in.First, in.Columns}, fmt.Sprintf(
		"first items: %s\nwould add %d, known %d, repeated %d of %s%s; nothing was changed",
		strings.Join(in.firstTexts(), ", "), report.Added, report.Known, report.Repeated, quantity(report.Rows, "line"), skipped(in.Blank)))
}

// firstTexts writes the first items, with their columns.
func (in items) firstTexts() (texts []string) {
	for i, item := range in.First {
		text := strconv.Quote(item)
		if len(in.Columns) > 0 {
			text = itemText(text, in.Columns[i])
		}
		texts = append(texts, text)
	}
	return texts
}

func quotedList(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = fmt.Sprintf("%q", text)
	}
	return strings.Join(quoted, ", ")
}

// skipped is the end of a summary.
func skipped(blank int64) string {
	if blank == 0 {
		return ""
	}
	return ", skipped " + quantity(blank, "blank line")
}

// quantity writes a number of things: 1 line, 2 lines.
func quantity(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
