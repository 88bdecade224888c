package claims

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type sweepCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	rateFlag
}

func (sweepCommand) Help() string {
	return `Closes holds and claims that ended more than 10 seconds ago, and takes items out of the bank whose item life has
ended. Requests do the same with the claims and items that they meet; a sweep does it sooner and makes the counts
right. Safe to repeat, to interrupt, and to run several times at once.

An index names the claims that are due, so that a sweep reads only these. Free items have no such index: in a
campaign with --item-life a sweep reads all claims of the scope and the whole bank.

Also deletes the blocks of "oncebox forget" and "oncebox claim block", 30 days after each campaign of the scope has
closed by its times. The sweep function does not delete them. In a SQLite store the command then rewrites the file, as
"oncebox forget" does.

Prints how many items were returned to the bank, have expired, and have ended as withdrawn. A claim whose rows
contradict each other stays as it is and is named; the rest is swept, and the exit code is 4. "oncebox
reconcile" shows what is wrong.

Examples:
  oncebox sweep spring
  oncebox sweep spring --rate 500   # beside a sale`
}

func (c sweepCommand) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.sweep(ctx, a, b) }, c.option())
}

func (c sweepCommand) sweep(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	sweep := b.SweepDue
	if campaign.ItemLife > 0 {
		sweep = b.Sweep
	}
	progress, finish := a.Counting("sweeping "+c.Campaign, "rows")
	report, err := sweep(ctx, c.Campaign, progress)
	finish()
	text := fmt.Sprintf("returned %d, expired %d, withdrawn %d", report.Returned, report.Expired, report.Withdrawn)
	switch {
	case errors.Is(err, itembank.ErrInconsistent): // the rest was swept
	case err != nil && report == (itembank.SweepReport{}):
		return err
	case err != nil:
		return cli.Stopped("("+text+")", err)
	}
	blocks, purgeErr := b.PurgeBlocks(ctx, campaign.Scope)
	if blocks > 0 {
		text += fmt.Sprintf(", blocks deleted %d", blocks)
		const hint = "The blocks are deleted. Their text stays in the file until `oncebox claim unblock` or `oncebox forget` " +
			"rewrites it, also for a claimant without a block."
		purgeErr = errors.Join(purgeErr, eraseDeleted(ctx, a, hint))
	}
	return errors.Join(err, purgeErr, a.Print(sweepJSON{report, blocks}, text))
}

// sweepJSON is the result of sweep.
type sweepJSON struct {
	itembank.SweepReport
	Blocks int64 `json:"blocks_deleted,omitempty"`
}
