package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

type itemsCommand struct {
	List itemsList `cmd:"" help:"List the free items of a campaign, or the items of a file that have ended."`
}

type itemsList struct {
	Campaign string `arg:"" help:"The campaign."`
	Free     bool   `help:"List the free items."`
	Items    string `help:"The file that was loaded, because rows hold no texts of items; - is stdin." placeholder:"FILE"`
	itemFlags
	rateFlag
}

func (itemsList) Help() string {
	return `--free prints one item a line, in no particular order. If it has columns, they follow, each after a tab, as in price=40.
It reads the whole bank, and in a campaign with columns also the row of each item: --rate counts each. While claims are
made, the lines belong to slightly different moments.

--items prints the items of a file that no claimant can get any more, each with its end after a tab: burned, expired,
withdrawn, replaced or lost, as oncebox lookup has them. It prints each item once, in the order of the file, and not those
that are free or claimed. An item whose time is over is expired when a sweep has closed it. It reads a row for each line.

With --output json each line is an object. Codes on a screen are codes in the terminal's history: pipe them into a file.

Examples:
  oncebox items list hall --free
  oncebox items list hall --free --rate 5000   # beside a sale
  oncebox items list spring --items codes.txt | grep burned
  oncebox items list spring --items codes.csv --column code`
}

func (c itemsList) Run(ctx context.Context, a *cli.App) error {
	switch {
	case c.Free == (c.Items != ""):
		return cli.BadUsage(
			errors.New("name one of --free and --items"), "--free lists the free items, --items FILE the items of a file that have ended.",
		)
	case c.Free && c.isSet():
		return cli.BadUsage(errors.New("--column, --lines, --trim and --raw are for --items"), "")
	case c.Free:
		return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.list(ctx, a, b) }, c.option())
	}
	in, err := openItems(ctx, a, c.Items, c.itemFlags)
	if err != nil {
		return err
	}
	defer in.remove()
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.listEnded(ctx, a, b, in.Source) }, c.option())
}

// endedJSON is an item that no claimant gets any more, one a line.
type endedJSON struct {
	Item  string             `json:"item"`
	State itembank.ItemPlace `json:"state"`
}

// listEnded prints the items of a source that have ended.
func (c itemsList) listEnded(ctx context.Context, a *cli.App, b *itembank.Operator, source itembank.Source) error {
	seen, unknown := map[string]bool{}, int64(0)
	list := func(items []string) error {
		places, err := b.EndedItems(ctx, c.Campaign, items)
		for i, place := range places {
			switch {
			case place == itembank.PlaceUnknown:
				unknown++
			case place != "" && !seen[items[i]]:
				seen[items[i]] = true
				err = errors.Join(err, c.printEnded(a, endedJSON{items[i], place}))
			}
		}
		return err
	}
	var part []string
	for line, err := range source() {
		if err != nil {
			return err
		}
		if part = append(part, strings.Clone(line.Item)); len(part) == engine.MaxItemRows {
			if err := list(part); err != nil {
				return err
			}
			part = part[:0]
		}
	}
	if err := list(part); err != nil {
		return err
	}
	if len(seen) == 0 {
		a.Remark("no item of %s has ended in %s", c.Items, c.Campaign)
	}
	if unknown > 0 {
		a.Remark("never loaded into %s: %s of %s", c.Campaign, cli.Quantity(unknown, "line"), c.Items)
	}
	return nil
}

func (c itemsList) printEnded(a *cli.App, item endedJSON) error {
	if a.Output == cli.OutputJSON {
		return cli.NewEncoder(a.Stdout).Encode(item)
	}
	_, err := fmt.Fprintf(a.Stdout, "%s\t%s\n", item.Item, item.State)
	return err
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
