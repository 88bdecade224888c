package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type claimCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	Claimant string `arg:"" help:"Who gets the item: 1 to 256 bytes without control characters."`
}

func (claimCommand) Help() string {
	return `Prints the item. The same claimant gets the same item every time. The exit code is 3 if the answer is no: the
campaign is sold out, empty, not open yet or closed, or the claimant holds an item of another campaign of the
scope.

Examples:
  oncebox claim spring customer-17
  oncebox --output json claim spring customer-17`
}

func (c claimCommand) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, c.Campaign, func(b *itembank.Bank) error { return c.claim(ctx, a, b) })
}

func (c claimCommand) claim(ctx context.Context, a *app, b *itembank.Bank) error {
	grant, err := b.Claim(ctx, c.Campaign, c.Claimant)
	switch {
	case errors.Is(err, itembank.ErrSoldOut):
		return soldOutOrEmpty(ctx, b, c.Campaign, err)
	case errors.Is(err, itembank.ErrNotOpen), errors.Is(err, itembank.ErrClosed):
		hint := fmt.Sprintf("`oncebox campaign show %s` shows its times.", c.Campaign)
		return &hintError{fmt.Errorf("%s: %w", c.Campaign, err), hint}
	case err != nil:
		return err
	}
	return a.print(claimapi.NewClaimBody(grant), grant.Claim.Item)
}

// errEmpty says that nothing was ever loaded into the campaign.
var errEmpty = errors.New("the campaign is empty: no items were loaded")

// soldOutOrEmpty says why there is no item.
func soldOutOrEmpty(ctx context.Context, b *itembank.Bank, campaign string, soldOut error) error {
	_, state, err := b.State(ctx, campaign)
	if err == nil && state == itembank.Empty {
		hint := fmt.Sprintf("`oncebox load %s FILE` loads items.", campaign)
		return &hintError{fmt.Errorf("%s: %w", campaign, errEmpty), hint}
	}
	return fmt.Errorf("%s: %w", campaign, soldOut)
}

type statusCommand struct {
	Campaign   string `arg:"" help:"The campaign."`
	Consistent bool   `help:"Count with strongly consistent reads, at twice the price."`
}

func (statusCommand) Help() string {
	return `Counts the rows in the store, so it takes as long as reading the campaign. At rest loaded = free + claimed +
ended. While claims are made, the numbers belong to slightly different moments.

On DynamoDB the numbers may miss the last seconds. --consistent counts exactly, at twice the price.

Examples:
  oncebox status spring
  oncebox status spring --consistent`
}

func (c statusCommand) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, c.Campaign, func(b *itembank.Bank) error { return c.status(ctx, a, b) })
}

// stateByCounts is the state of a campaign whose items were counted.
func stateByCounts(state itembank.State, counts itembank.Counts) itembank.State {
	switch {
	case state != itembank.Open || counts.Free > 0:
		return state
	case counts.Loaded == 0:
		return itembank.Empty
	}
	return itembank.SoldOut
}

// statusJSON is the result of status.
type statusJSON struct {
	Campaign string         `json:"campaign"`
	State    itembank.State `json:"state"`
	itembank.Counts
}

func (c statusCommand) status(ctx context.Context, a *app, b *itembank.Bank) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	count := b.Counts
	if c.Consistent {
		count = b.ConsistentCounts
	}
	counts, err := count(ctx, c.Campaign)
	if err != nil {
		return err
	}
	state := stateByCounts(campaign.StateAt(time.Now()), counts)
	return a.print(statusJSON{c.Campaign, state, counts}, table(func(row func(...string)) {
		row("state", string(state))
		row("loaded", fmt.Sprint(counts.Loaded))
		row("free", fmt.Sprint(counts.Free))
		row("claimed", fmt.Sprint(counts.Claimed))
		row("ended", fmt.Sprint(counts.Ended))
	}))
}
