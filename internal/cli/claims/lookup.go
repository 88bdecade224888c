package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type lookupCommand struct {
	Campaign string `arg:"" optional:"" help:"The campaign. Default: all campaigns that know the item."`
	Item     string `required:"" help:"The item, exactly as it was loaded." placeholder:"CODE"`
	rateFlag
}

func (lookupCommand) Help() string {
	return `Prints where the item is:

  free        it is in the bank
  claimed     by whom, since when, and until when if the claim ends
  held        the same, and the claim is not confirmed yet
  burned      its claim was released, and no claimant gets it again
  expired     its own life ended, or the life of its claim
  withdrawn   an operator took it out of the campaign
  replaced    its claimant got another item for it
  lost        a repair found it in no place, and no claimant gets it again
  unknown     it was never loaded into the campaign
  missing     it was loaded and is in no place: see oncebox reconcile

The exit code is 3 if the item is unknown.

No row leads from an item to its holder. So for an item that is claimed or held the command reads the claims of the
scope until it finds the right one. On DynamoDB that is a read unit for about 20 claims, and at least one for each of
256 partition keys: a million claims are about 50,000 read units. --rate spreads them out.

Examples:
  oncebox lookup spring --item SAVE-0001
  oncebox lookup --item SAVE-0001
  oncebox lookup spring --item SAVE-0001 --rate 5000   # beside a sale`
}

// UsageHint is for a user who gives the item without its flag.
func (lookupCommand) UsageHint(words []string) string {
	campaign, item := "", "CODE"
	switch len(words) {
	case 0:
	case 1:
		item = strconv.Quote(words[0])
	default:
		campaign, item = words[0]+" ", strconv.Quote(words[1])
	}
	return fmt.Sprintf("The item has a flag: `oncebox lookup %s--item %s`.", campaign, item)
}

func (c lookupCommand) Run(ctx context.Context, a *cli.App) error {
	if err := checkItem(c.Item); err != nil {
		return err
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.lookUp(ctx, a, b) }, c.option())
}

// checkItem checks an item of the command line.
func checkItem(item string) error {
	invalid, ok := errors.AsType[*itembank.InvalidError](itembank.ValidateItem(item))
	if !ok {
		return nil
	}
	return cli.BadUsage(fmt.Errorf("--item %q: %s", item, invalid.Detail), "")
}

func (c lookupCommand) lookUp(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	names := []string{c.Campaign}
	var skipped error
	if c.Campaign == "" {
		campaigns, err := b.Campaigns(ctx)
		if skipped, err = cli.SkipUnreadable(err); err != nil {
			return err
		}
		names = nil
		for _, campaign := range campaigns {
			names = append(names, campaign.Name)
		}
	}
	found := []itemJSON{} // JSON shows [], not null
	var text string
	for _, name := range names {
		report, err := b.LookUp(ctx, name, c.Item)
		if c.Campaign == "" && errors.Is(err, itembank.ErrNoCampaign) {
			continue // it was deleted since it was listed
		}
		if err != nil {
			return err
		}
		if report.Place != itembank.PlaceUnknown || c.Campaign != "" {
			found, text = append(found, toItemJSON(report)), text+"\n"+describeItem(report)
		}
	}
	if len(found) == 0 || found[0].Place == itembank.PlaceUnknown {
		return cmp.Or(skipped, unknownItem(c.Item, c.Campaign))
	}
	return errors.Join(a.Print(found, text[1:]), skipped)
}

func unknownItem(item, campaign string) error {
	where := "any campaign"
	if campaign != "" {
		where = campaign
	}
	return cli.WithHint(
		fmt.Errorf("%w: %q was never loaded into %s", cli.ErrUnknownItem, item, where),
		"Upper and lower case, white space and invisible characters count.",
	)
}

// itemJSON is the store's data about an item.
type itemJSON struct {
	Campaign string `json:"campaign"`
	claimapi.ItemBody
	Place    itembank.ItemPlace  `json:"state"`
	Claim    *claimapi.ClaimBody `json:"claim,omitempty"`
	EndsAt   *time.Time          `json:"item_ends_at,omitempty"`
	LoadID   string              `json:"load_id,omitempty"`
	Row      int64               `json:"row,omitempty"`
	Returns  int                 `json:"returns"`
	Withdraw bool                `json:"ends_as_withdrawn"`
}

func toItemJSON(r itembank.ItemReport) itemJSON {
	j := itemJSON{
		Campaign: r.Campaign, ItemBody: claimapi.ItemBody{Item: r.Item, Columns: r.Columns}, Place: r.Place, EndsAt: cli.Optional(r.EndsAt), LoadID: r.LoadID, Row: r.Row,
		Returns: r.Returns, Withdraw: r.Withdraw,
	}
	if r.Claim != nil {
		body := claimapi.NewClaimBody(itembank.Grant{Claim: *r.Claim, Replayed: true})
		j.Claim = &body
	}
	return j
}

func describeItem(r itembank.ItemReport) string {
	text := fmt.Sprintf("%s in %s: %s", itemText(r.Item, r.Columns), r.Campaign, r.Place)
	if c := r.Claim; c != nil {
		text += " by " + c.Claimant
		if c.Slot > 1 {
			text += fmt.Sprintf(" in slot %d", c.Slot)
		}
		text += " since " + cli.TimeOr(c.ClaimedAt, "an unknown time")
		if !c.EndsAt.IsZero() {
			text += ", until " + cli.TimeOr(c.EndsAt, "")
		}
		text += fmt.Sprintf(" (claim %s", c.ID)
		if items := c.Items; len(items) > 1 {
			text += fmt.Sprintf(", of %d items", len(items))
		}
		text += ")"
	}
	if r.Withdraw && r.Claim != nil {
		text += "; it ends as withdrawn with the claim"
	}
	if r.Place == itembank.PlaceMissing {
		text += fmt.Sprintf("; `oncebox reconcile %s` says more", r.Campaign)
	}
	return text
}
