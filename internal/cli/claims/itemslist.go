package claims

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type itemsCommand struct {
	List itemsList `cmd:"" help:"List the free items of a campaign."`
}

type itemsList struct {
	Campaign string `arg:"" help:"The campaign."`
	Free     bool   `help:"List the free items. Required: items that are held or have ended are not listed."`
	rateFlag
}

func (itemsList) Help() string {
	return `Prints one item a line, in no particular order. If it has columns, they follow, each after a tab, as in price=40. With
--output json it prints one object a line. It reads the whole bank, and in a campaign with columns also the row of each
item: --rate counts each. While claims are made, the lines belong to slightly different moments.

Codes on a screen are codes in the terminal's history: pipe them into a file.

Examples:
  oncebox items list hall --free
  oncebox items list hall --free --rate 5000   # beside a sale`
}

func (c itemsList) Run(ctx context.Context, a *cli.App) error {
	if !c.Free {
		return cli.BadUsage(errors.New("there is nothing to list"), "Say --free for the free items.")
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.list(ctx, a, b) }, c.option())
}

func (c itemsList) list(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	for cursor, more := "", true; more; more = cursor != "" {
		page, err := b.FreeItems(ctx, c.Campaign, cursor, itembank.MaxItemPage)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := c.print(a, item); err != nil {
				return err
			}
		}
		cursor = page.Next
	}
	return nil
}

func (c itemsList) print(a *cli.App, item itembank.PageItem) error {
	if a.Output != cli.OutputJSON {
		_, err := fmt.Fprintln(a.Stdout, itemLine(item.Item, item.Columns))
		return err
	}
	return cli.NewEncoder(a.Stdout).Encode(claimapi.ItemBody(item))
}
