package claims

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type claimCommand struct {
	Make claimMake `cmd:"" default:"withargs" help:"Claim an item for a claimant and print it; a repeated claim prints the same item. The word make can be left out."`
	Show claimShow `cmd:"" help:"Show the claim that a claimant has. Makes none."`

	Block   claimBlock   `cmd:"" help:"Refuse all later claims of a claimant in a scope."`
	Unblock claimUnblock `cmd:"" help:"Let a claimant claim again, after claim block or forget."`
}

func (claimCommand) Help() string {
	return `oncebox claim CAMPAIGN CLAIMANT is short for oncebox claim make CAMPAIGN CLAIMANT.

Examples:
  oncebox claim spring customer-17
  oncebox claim show spring customer-17   # never claims
  oncebox claim block spring customer-17`
}

type claimMake struct {
	Campaign string `arg:"" help:"The campaign."`
	Claimant string `arg:"" help:"Who gets the item: 1 to 256 bytes without control characters."`
	slotFlag
	Item []string `help:"Claim this item, in a campaign with --choice. Repeat the flag for several items in one claim, all or none." placeholder:"ITEM" sep:"none"`
}

func (claimMake) Help() string {
	return `Prints the item. If it has columns, they follow, each after a tab, as in price=40.

The same claimant gets the same item every time. The exit code is 3 if the answer is no: the campaign is sold out,
empty, not open yet or closed, the claimant is blocked or holds an item of another campaign of the scope, or an item of
--item is not free. A claimant who holds a claim gets that one, whatever --item says.

The word make is needed only for a campaign that is named show, block or unblock.

Examples:
  oncebox claim spring customer-17
  oncebox --output json claim spring customer-17
  oncebox claim tickets customer-17 --slot 2
  oncebox claim hall customer-17 --item 12A --item 12B
  oncebox claim make show customer-17`
}

func (c claimMake) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.claim(ctx, a, b) })
}

func (c claimMake) claim(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	grant, err := b.Claim(ctx, c.Campaign, c.Claimant, c.option(), itembank.Choosing(c.Item...))
	switch {
	case errors.Is(err, itembank.ErrSoldOut):
		return soldOutOrEmpty(ctx, b, c.Campaign, err)
	case errors.Is(err, itembank.ErrNotOpen), errors.Is(err, itembank.ErrClosed):
		hint := fmt.Sprintf("`oncebox campaign show %s` shows its times.", c.Campaign)
		return cli.WithHint(fmt.Errorf("%s: %w", c.Campaign, err), hint)
	case errors.Is(err, itembank.ErrItemTaken):
		return c.taken(err)
	case err != nil:
		return unblockHint(err, c.Campaign, c.Claimant)
	}
	return a.Print(claimapi.NewClaimBody(grant), strings.Join(itemsOf(grant.Claim, itemLine), "\n"))
}

// taken names the items of which one is not free, and says where to look.
func (c claimMake) taken(err error) error {
	is, item := "is not free", c.Item[0]
	if len(c.Item) > 1 {
		is, item = "are not all free", "ITEM"
	}
	hint := fmt.Sprintf("`oncebox lookup %s --item %q` says where it is. `oncebox items list %[1]s --free` lists the free items.", c.Campaign, item)
	return cli.WithHint(cli.Plain(fmt.Sprintf("%s: %s %s; nothing was claimed", c.Campaign, strings.Join(c.Item, ", "), is), nil, err), hint)
}

// noClaim says that a claimant has no claim. People often have only the item.
func noClaim(err error, campaign, claimant string) error {
	hint := fmt.Sprintf("If %q is an item: `oncebox lookup %s --item %[1]q` says who holds it.", claimant, campaign)
	return cli.WithHint(fmt.Errorf("%w: %s holds no item of %s", err, claimant, campaign), hint)
}

// slotFlag is the flag of the commands for one claim.
type slotFlag struct {
	Slot int `help:"Which claim of the claimant, in a campaign with --per-claimant: 1 to that number. Default: ${default}." default:"1" placeholder:"N"`
}

func (s slotFlag) option() itembank.ClaimOption { return itembank.InSlot(s.Slot) }

type claimShow struct {
	Campaign string `arg:"" help:"The campaign."`
	Claimant string `arg:"" help:"The claimant."`
	slotFlag
}

func (claimShow) Help() string {
	return `Prints the item or items, since when the claimant has them, when the claim ends, and its id. Never claims.

If the claimant has no claim, the exit code is 3. It is 3 as well if the claimant is blocked, and if the claimant holds
an item of another campaign of the scope; the message names that campaign.

Examples:
  oncebox claim show spring customer-17
  oncebox claim show tickets customer-17 --slot 2
  oncebox --output json claim show spring customer-17`
}

func (c claimShow) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error {
		claim, err := b.FindClaim(ctx, c.Campaign, c.Claimant, c.option())
		if err != nil {
			return c.noClaim(err)
		}
		return a.Print(claimapi.NewClaimBody(itembank.Grant{Claim: claim, Replayed: true}), describeClaim(claim))
	})
}

// noClaim returns the error for a claimant without a claim, or with another claim.
func (c claimShow) noClaim(err error) error {
	var elsewhere *itembank.ClaimedElsewhereError
	switch {
	case errors.Is(err, itembank.ErrNoClaim) && c.Slot > 1:
		return fmt.Errorf("%w: %s holds no item of %s in slot %d", err, c.Claimant, c.Campaign, c.Slot)
	case errors.Is(err, itembank.ErrNoClaim):
		return noClaim(err, c.Campaign, c.Claimant)
	case errors.As(err, &elsewhere):
		hint := fmt.Sprintf("`oncebox claim show %s %q` shows that claim.", elsewhere.Campaign, c.Claimant)
		text := fmt.Sprintf("%s holds no item of %s, but one of %s, which shares the scope", c.Claimant, c.Campaign, elsewhere.Campaign)
		return cli.WithHint(cli.Plain(text, nil, err), hint)
	}
	return unblockHint(err, c.Campaign, c.Claimant)
}

// soldOutOrEmpty returns the reason why there is no item.
func soldOutOrEmpty(ctx context.Context, b *itembank.Operator, campaign string, soldOut error) error {
	_, state, err := b.State(ctx, campaign)
	if err == nil && state == itembank.Empty {
		hint := fmt.Sprintf("`oncebox load %s FILE` loads items.", campaign)
		return cli.WithHint(fmt.Errorf("%s: %w", campaign, cli.ErrEmpty), hint)
	}
	return fmt.Errorf("%s: %w", campaign, soldOut)
}
