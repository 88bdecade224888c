package main

import (
	"context"
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

Prints how many items of ended claims were returned to the bank or burned with their
claims, and how many free items have expired.

Example:
  oncebox sweep spring`
}

func (c sweepCommand) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, func(b *itembank.Bank) error { return c.sweep(ctx, a, b) })
}

func (c sweepCommand) sweep(ctx context.Context, a *app, b *itembank.Bank) error {
	report, err := b.Sweep(ctx, c.Campaign)
	text := fmt.Sprintf("returned %d, burned %d, expired %d", report.Returned, report.Burned, report.Expired)
	switch {
	case err != nil && report == (itembank.SweepReport{}):
		return err
	case err != nil:
		return &cutError{text, err}
	}
	return a.print(report, text)
}
