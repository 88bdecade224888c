package claims

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type claimsCommand struct {
	List   claimsList   `cmd:"" help:"List claims of a campaign."`
	Export claimsExport `cmd:"" help:"Write all claims of a campaign as CSV or NDJSON."`
}

type claimsList struct {
	Campaign string `arg:"" help:"The campaign."`
	Limit    int    `help:"List so many claims at most. Default: ${default}." default:"100" placeholder:"N"`
	rateFlag
}

func (claimsList) Help() string {
	return `The claims come in an order of the store's own, which stays the same. The items of a claim with several have a |
between them. A remark says if there are more.

It reads the claims of the scope until it has as many as --limit. On DynamoDB a claim is about a twentieth of a read
unit, and each of 256 partition keys at least one. In a campaign with columns each item is a read unit more.

Examples:
  oncebox claims list spring
  oncebox claims list spring --limit 1000
  oncebox --output json claims list spring`
}

func (c claimsList) Run(ctx context.Context, a *cli.App) error {
	if c.Limit < 1 {
		return cli.BadUsage(fmt.Errorf("--limit %d: must be at least 1", c.Limit), "")
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.list(ctx, a, b) }, c.option())
}

// claimJSON is a claim in lists and exports. replay reads the same members.
type claimJSON struct {
	Campaign string `json:"campaign"`
	Claimant string `json:"claimant"`
	Slot     int    `json:"slot"`
	ClaimID  string `json:"claim_id"`

	claimapi.ItemBody                     // the first item
	Items             []claimapi.ItemBody `json:"items,omitempty"` // all items, of a claim with several

	ClaimedAt string `json:"claimed_at"`
	EndsAt    string `json:"ends_at,omitempty"`
}

func toClaimJSON(c itembank.Claim) claimJSON {
	items := claimapi.ItemsOf(c)
	j := claimJSON{
		Campaign: c.Campaign, Claimant: c.Claimant, Slot: c.Slot, ClaimID: c.ID, ItemBody: items[0],
		ClaimedAt: exactTime(c.ClaimedAt), EndsAt: exactTime(c.EndsAt),
	}
	if len(items) > 1 {
		j.Items = items
	}
	return j
}

// exactTime writes a time with its milliseconds. It returns "" for the zero time.
func exactTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// claimListJSON is the result of claims list.
type claimListJSON struct {
	Claims []claimJSON `json:"claims"`
	More   bool        `json:"more"`
}

func (c claimsList) list(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	var claims []itembank.Claim
	for from, first := "", true; (first || from != "") && len(claims) <= c.Limit; first = false {
		page, err := b.ListClaims(ctx, c.Campaign, from)
		if err != nil {
			return err
		}
		claims, from = append(claims, page.Claims...), page.Next
	}
	list := claimListJSON{Claims: []claimJSON{}, More: len(claims) > c.Limit}
	if list.More {
		claims = claims[:c.Limit]
	}
	for _, claim := range claims {
		list.Claims = append(list.Claims, toClaimJSON(claim))
	}
	if err := a.Print(list, describeClaims(claims)); err != nil {
		return err
	}
	if list.More {
		a.Remark("there are more; --limit N lists more, and `oncebox claims export %s` writes all", c.Campaign)
	}
	return nil
}

func describeClaims(claims []itembank.Claim) string {
	return cli.Table(func(row func(...string)) {
		row("CLAIMANT", "SLOT", "ITEM", "SINCE", "ENDS", "CLAIM ID")
		for _, c := range claims {
			row(c.Claimant, strconv.Itoa(c.Slot), strings.Join(itemsOf(c, itemText), " | "), cli.TimeOr(c.ClaimedAt, "-"), cli.TimeOr(c.EndsAt, "-"), c.ID)
		}
	})
}
