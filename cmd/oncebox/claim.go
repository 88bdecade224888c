package main

import (
	"context"
	"fmt"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type claimCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	Claimant string `arg:"" help:"Who asks: 1 to 256 bytes without control characters."`
}

func (claimCommand) Help() string {
	return `Prints the item. The same claimant gets the same item every time.
Exit code 3: the answer is no (sold out, not open, closed, claimed elsewhere).

Examples:
  oncebox claim spring customer-17
  oncebox --output json claim spring customer-17`
}

func (c claimCommand) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, func(b *itembank.Bank) error { return c.claim(ctx, a, b) })
}

func (c claimCommand) claim(ctx context.Context, a *app, b *itembank.Bank) error {
	grant, err := b.Claim(ctx, c.Campaign, c.Claimant)
	if err != nil {
		return err
	}
	return a.print(claimapi.NewClaimBody(grant), grant.Claim.Item)
}

type statusCommand struct {
	Campaign string `arg:"" help:"The campaign."`
}

func (statusCommand) Help() string {
	return `Counts the rows in the store, so it takes as long as reading the campaign.
At rest loaded = free + claimed + ended; while claims are made the numbers
belong to slightly different moments.`
}

func (c statusCommand) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, func(b *itembank.Bank) error {
		counts, err := b.Counts(ctx, c.Campaign)
		if err != nil {
			return err
		}
		return a.print(struct {
			Campaign string `json:"campaign"`
			itembank.Counts
		}{c.Campaign, counts}, table(func(row func(...string)) {
			row("loaded", fmt.Sprint(counts.Loaded))
			row("free", fmt.Sprint(counts.Free))
			row("claimed", fmt.Sprint(counts.Claimed))
			row("ended", fmt.Sprint(counts.Ended))
		}))
	})
}
