package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

type loadCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	File     string `arg:"" help:"One item a line, or CSV with --column; - is stdin. With --give-up: the id of a load."`
	itemFlags
	With []string `help:"Load these columns of the CSV with the items, by their names in the first row. They come back with the item, to every claimant who gets it. Needs --column NAME, and a campaign with --columns." placeholder:"NAME,..."`
	rateFlag
	DryRun bool `help:"Check the file, show its first items, print what a load would do, and change nothing."`
	GiveUp bool `help:"End an unfinished load whose file will not be loaded again. Its id stands in place of FILE."`
}

func (loadCommand) Help() string {
	return fmt.Sprintf(`Checks the whole file first. If one line is bad, nothing is changed and the exit code is 2. Bad lines have white
space around the item, invisible characters, or control characters. Blank lines are skipped.

A file that looks like CSV needs --column, or --lines if every line is one item. Commas, semicolons, tabs or pipes (|)
may separate the columns. The text is UTF-8: "iconv -f ISO-8859-1 -t UTF-8 FILE" converts Latin-1.

No name of a column becomes an item by mistake. A file named .csv or .tsv needs --column or --lines, also with one
column. So does any file whose first line is made of words such as "code", "voucher", "coupon" or "serial", or has no
digit while all of the next lines have digits and another length. --column N refuses such a first row, too.

An item that the campaign knows is not added again, also if a claimant holds it. After an interruption the same command
goes on where it stopped. Several loads may run at once. With --rate a line counts as a row, and a second time if it is
looked up first.

With --with the items of a campaign with --columns have columns, such as a price, a row or an address. They come back
with the item in every answer, so name only columns that customers may see. An item has up to 10 columns, and at most
1,024 bytes of names and values. It keeps the columns of its first load. Lines with the same item need the same
columns.

Prints how many lines were added, known from another load, or repeated in this one. With --dry-run it prints the numbers
of the load that would follow; they are exact unless another load adds items to the campaign in between.

If a load was stopped because its file was wrong, load the corrected file, and end the first load with --give-up and the
id that status prints. Until then functions never stop reading the whole bank when the campaign is sold out. The items
that it added stay. It waits %.0f seconds, for requests of the load that are still under way. It is safe to repeat.

Examples:
  oncebox load spring codes.txt
  oncebox load spring codes.csv --column code --dry-run
  oncebox load spring codes.csv --column code
  oncebox load hall seats.csv --column seat --with price,row
  oncebox load spring more-codes.txt --rate 200   # beside a sale
  zcat codes.gz | oncebox load spring -
  oncebox load --give-up spring b71d7a9ec5b1f1d11eea7a5ebbc9bb3c#000001`, itembank.DrainTime.Seconds())
}

func (c loadCommand) Run(ctx context.Context, a *cli.App) error {
	if c.GiveUp {
		return c.giveUp(ctx, a)
	}
	if err := c.checkWith(); err != nil {
		return err
	}
	in, err := openItems(ctx, a, c.File, c.itemFlags, c.With...)
	if err != nil {
		return err
	}
	defer in.remove()
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error {
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
		return cli.BadUsage(errors.New("--with and --lines cannot be used together: only CSV has columns"), "")
	case c.Column == nil:
		return cli.BadUsage(errors.New("--with needs --column NAME, the column of the items"), "")
	case len(c.With) > engine.MaxColumns:
		return cli.BadUsage(fmt.Errorf("--with names %d columns, at most %d are allowed", len(c.With), engine.MaxColumns), "")
	}
	return nil
}

// checkCampaign refuses columns for a campaign that has none.
func (c loadCommand) checkCampaign(ctx context.Context, b *itembank.Operator) error {
	if len(c.With) == 0 {
		return nil
	}
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err == nil && !campaign.Columns {
		return cli.BadUsage(
			fmt.Errorf("--with: %s was created without --columns, which is fixed; nothing was changed", c.Campaign),
			"Create another campaign with --columns, or load without --with.",
		)
	}
	return err
}

// loadJSON is the result of a load.
type loadJSON struct {
	itembank.LoadReport
	Blank int64 `json:"blank"` // lines that were skipped; not among the rows
}

func (c loadCommand) load(ctx context.Context, a *cli.App, b *itembank.Operator, in *items) error {
	report, err := b.Load(ctx, c.Campaign, in.Source, left(a.Progress("loading "+c.Campaign)))
	switch {
	case err != nil && report.LoadID == "" && errors.Is(err, itembank.ErrInvalid):
		return badItems(c.File, err)
	case err != nil && report.LoadID == "":
		return err
	case err != nil:
		return c.cut(report, err)
	}
	if report.Resumed > 0 {
		a.Remark("went on after %s that an earlier run had loaded", cli.Quantity(report.Resumed, "line"))
	}
	c.remarkReport(a, report)
	return a.Print(loadJSON{report, in.Blank}, fmt.Sprintf("added %d, known %d, repeated %d of %s%s",
		report.Added, report.Known, report.Repeated, cli.Quantity(report.Rows, "line"), skipped(in.Blank)))
}

// cut returns the error of a load that stopped after it had begun, with advice.
func (c loadCommand) cut(report itembank.LoadReport, err error) error {
	hint := fmt.Sprintf("If the file was wrong, `%s` ends the load.", giveUpCommand(c.Campaign, report.LoadID))
	switch {
	case errors.Is(err, itembank.ErrLoadGivenUp):
		hint = "To add the other items too, load the file again: that is another load."
	case errors.Is(err, itembank.ErrInputChanged):
		hint = "The first file goes on from there. " + hint
	default:
		hint = cli.Continues + " " + hint
	}
	return cli.WithHint(cli.Stopped("after "+cli.Quantity(report.Rows, "line"), err), hint)
}

// giveUpCommand is the command that ends a load.
func giveUpCommand(campaign, load string) string {
	return fmt.Sprintf("oncebox load --give-up %s %s", campaign, load)
}

// giveUp ends a load.
func (c loadCommand) giveUp(ctx context.Context, a *cli.App) error {
	if c.DryRun || len(c.With) > 0 || c.isSet() || c.Rate > 0 {
		return cli.BadUsage(errors.New("--give-up cannot be used with other flags of load"), "")
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.end(ctx, a, b) })
}

// end gives the load up, and waits until it is over.
func (c loadCommand) end(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	loads, err := b.UnfinishedLoads(ctx, c.Campaign)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(loads, func(l itembank.UnfinishedLoad) bool { return l.LoadID == c.File }) {
		a.Remark("waiting %.0f s for requests of the load that are still under way", itembank.DrainTime.Seconds())
	}
	given, err := b.GiveUpLoad(ctx, c.Campaign, c.File)
	switch {
	case errors.Is(err, itembank.ErrInvalid):
		const hint = "`oncebox status %s` prints the ids of unfinished loads."
		return cli.BadUsage(fmt.Errorf("%s has no load %q", c.Campaign, c.File), fmt.Sprintf(hint, c.Campaign))
	case err != nil && given.LoadID != "":
		return cli.Stopped("before the load was over", err)
	case err != nil:
		return err
	case given.Already:
		return a.Print(given, fmt.Sprintf("load %s was over already; nothing was changed", given.LoadID))
	}
	return a.Print(given, fmt.Sprintf("gave up load %s; the items that it added stay", given.LoadID))
}

// remarkReport says that known items keep their columns, and that a file is unusual.
func (c loadCommand) remarkReport(a *cli.App, report itembank.LoadReport) {
	if report.Repeated > report.Rows/2 {
		a.Remark("warning: %d of %s of %s repeat the item of another line; is it the right file, and the right --column?",
			report.Repeated, cli.Quantity(report.Rows, "line"), c.File)
	}
	if n := report.OtherColumns; n > 0 {
		a.Remark("warning: the items of %s are known with other columns than %s has; items keep the columns of their first load",
			cli.Quantity(n, "line"), c.File)
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
func (c loadCommand) dryRun(ctx context.Context, a *cli.App, b *itembank.Operator, in *items) error {
	report, err := b.DryRun(ctx, c.Campaign, in.Source)
	switch {
	case errors.Is(err, itembank.ErrInvalid):
		return badItems(c.File, err)
	case err != nil:
		return err
	}
	if report.Resumed > 0 {
		a.Remark("it would go on after %s of an earlier run, which are counted here", cli.Quantity(report.Resumed, "line"))
	}
	c.remarkReport(a, report)
	return a.Print(dryRunJSON{true, loadJSON{report, in.Blank}, in.First, in.Columns}, fmt.Sprintf(
		"first items: %s\nwould add %d, known %d, repeated %d of %s%s; nothing was changed",
		strings.Join(in.firstTexts(), ", "), report.Added, report.Known, report.Repeated, cli.Quantity(report.Rows, "line"), skipped(in.Blank)))
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

// skipped is the end of a summary.
func skipped(blank int64) string {
	if blank == 0 {
		return ""
	}
	return ", skipped " + cli.Quantity(blank, "blank line")
}

// left reports the progress of the remaining lines. The lines of an earlier run would make the rate too high.
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
