package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type sweepCommand struct {
	Campaign string `arg:"" help:"The campaign."`
}

func (sweepCommand) Help() string {
	return `Closes the claims that ended more than 10 seconds ago, and takes free items out of
the bank whose own life has ended. Requests do the same with what they meet; a sweep
brings items back sooner, and makes the counts right. It reads all claims of the scope
and the whole bank. Safe to repeat, to interrupt, and to run several times at once.

Prints how many items of ended claims were returned to the bank, and how many items
have expired, free ones and those that ended with their claims. A claim whose rows
contradict each other stays as it is and is named; all else is swept, and the exit
code is 4. oncebox reconcile shows what is wrong with it.

Example:
  oncebox sweep spring`
}

func (c sweepCommand) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, func(b *itembank.Bank) error { return c.sweep(ctx, a, b) })
}

func (c sweepCommand) sweep(ctx context.Context, a *app, b *itembank.Bank) error {
	progress, over := a.counting("sweeping "+c.Campaign, "rows")
	report, err := b.Sweep(ctx, c.Campaign, progress)
	over()
	text := fmt.Sprintf("returned %d, expired %d", report.Returned, report.Expired)
	switch {
	case errors.Is(err, itembank.ErrInconsistent): // the sweep is done all the same
	case err != nil && report == (itembank.SweepReport{}):
		return err
	case err != nil:
		return &cutError{text, err}
	}
	return errors.Join(err, a.print(report, text))
}
