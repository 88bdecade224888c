package claims

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type auditCommand struct {
	Campaign string  `arg:"" help:"The campaign."`
	Claimant *string `help:"What the store knows of this claimant." xor:"about" required:"" placeholder:"C"`
	Item     *string `help:"What the store knows of this item." xor:"about" required:"" placeholder:"I"`
	rateFlag
}

func (auditCommand) Help() string {
	return `Prints all that the rows of the store show, and then lists what they cannot show. It needs --claimant or --item,
not both. --claimant shows all claims of the claimant in the scope of the campaign, in all slots.

The rows show the present and little of the past: a claim that was released or has ended is deleted. So the store does
not know earlier claims of a claimant, nor earlier holders of an item. It knows how often an item came back to the bank.
Other places may know more: a copy of the store at an earlier moment, the replies that your systems have kept, and files
of "oncebox claims export".

The exit code is 3 if the claimant has no claim, or if the item was never loaded. --item reads as much as oncebox lookup
does.

Examples:
  oncebox audit spring --claimant customer-17
  oncebox audit spring --item SAVE-0001`
}

// UsageHint is for a user who gives a claimant or an item without its flag.
func (auditCommand) UsageHint(words []string) string {
	campaign, about := "CAMPAIGN", "..."
	if len(words) > 0 {
		campaign = words[0]
	}
	if len(words) > 1 {
		about = strconv.Quote(words[1])
	}
	return fmt.Sprintf("Say what it is about: `oncebox audit %s --claimant %s` or `oncebox audit %[1]s --item %[2]s`.", campaign, about)
}

func (c auditCommand) Run(ctx context.Context, a *cli.App) error {
	if c.Item != nil {
		if err := checkItem(*c.Item); err != nil {
			return err
		}
		return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.item(ctx, a, b) }, c.option())
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.claimant(ctx, a, b) }, c.option())
}

// auditJSON is the result of audit.
type auditJSON struct {
	Campaign string               `json:"campaign"`
	Claimant string               `json:"claimant,omitempty"`
	Claims   []claimapi.ClaimBody `json:"claims"`
	Items    []itemJSON           `json:"items"`             // without their claims
	Blocked  bool                 `json:"blocked,omitempty"` // the claimant is blocked in a slot of the scope
	NotKnown []string             `json:"not_known"`
	SeeAlso  []string             `json:"see_also"`
}

// add adds the report of an item.
func (r *auditJSON) add(report itembank.ItemReport) {
	report.Claim = nil
	r.Items = append(r.Items, toItemJSON(report))
}

// seeAlso names other places with data about a claimant.
func seeAlso(store string) []string {
	earlier := "A copy of both tables as they were at a moment of the last 35 days (docs/operations.md, \"Restore a table to a point in time\"): run this command on it."
	if store != cli.DynamoDBStore {
		earlier = "Earlier copies of the file, as `oncebox backup` makes them: `oncebox --store sqlite:COPY audit` runs this command on one."
	}
	return []string{
		earlier,
		"The replies and logs of the systems that called the API: a reply has claim_id, item and claimed_at. The logs of oncebox hold no claimants and no items.",
		"Files of `oncebox claims export`, with the claims of their time.",
	}
}

// claimant audits a claimant: all claims of the scope, whatever their campaigns and slots.
func (c auditCommand) claimant(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	result := auditJSON{
		Campaign: c.Campaign, Claimant: *c.Claimant, Claims: []claimapi.ClaimBody{}, Items: []itemJSON{}, SeeAlso: seeAlso(a.Store),
		NotKnown: []string{
			"Earlier claims of this claimant: a claim that was released or has ended is deleted.",
			"Requests that were refused, and who asked for a claim again.",
		},
	}
	claims, err := b.ClaimsOf(ctx, c.Campaign, *c.Claimant)
	if err != nil {
		return err
	}
	if result.Blocked, err = b.IsBlocked(ctx, c.Campaign, *c.Claimant); err != nil {
		return err
	}
	if len(claims) == 0 {
		text := fmt.Sprintf("%s has no claim in %s now", *c.Claimant, c.Campaign)
		if result.Blocked {
			text += ", and is blocked in its scope"
		}
		const hint = "If %q is an item: `oncebox audit %s --item %[1]q` says what is known of it."
		none := fmt.Errorf("%w: %s holds no item of %s, nor of another campaign of its scope", itembank.ErrNoClaim, *c.Claimant, c.Campaign)
		return errors.Join(a.Print(result, result.describe(text)), cli.WithHint(none, fmt.Sprintf(hint, *c.Claimant, c.Campaign)))
	}
	var known []string
	for _, claim := range claims {
		reports, err := b.ItemsOfClaim(ctx, claim)
		if err != nil {
			return err
		}
		result.Claims = append(result.Claims, claimapi.NewClaimBody(itembank.Grant{Claim: claim, Replayed: true}))
		known = append(known, fmt.Sprintf("%s holds %s of %s", claim.Claimant, anItem(len(reports)), claim.Campaign), describeClaim(claim))
		for _, report := range reports {
			result.add(report)
			if len(reports) > 1 {
				known = append(known, "  "+report.Item+":")
			}
			known = append(known, describePast(report))
		}
	}
	if result.Blocked {
		known = append(known, *c.Claimant+" is blocked in the other slots of the scope")
	}
	return a.Print(result, result.describe(strings.Join(known, "\n")))
}

func anItem(n int) string {
	if n == 1 {
		return "an item"
	}
	return cli.Quantity(int64(n), "item")
}

func (c auditCommand) item(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	report, err := b.LookUp(ctx, c.Campaign, *c.Item)
	if err != nil {
		return err
	}
	if report.Place == itembank.PlaceUnknown {
		return unknownItem(*c.Item, c.Campaign)
	}
	result := auditJSON{Campaign: c.Campaign, Claims: []claimapi.ClaimBody{}, SeeAlso: seeAlso(a.Store), NotKnown: []string{
		"When the item was loaded.",
		"Earlier holders: a claim that was released or has ended is deleted.",
	}}
	if report.Claim != nil {
		result.Claims = append(result.Claims, claimapi.NewClaimBody(itembank.Grant{Claim: *report.Claim, Replayed: true}))
	}
	result.add(report)
	if report.Returns > 0 {
		result.NotKnown[1] = fmt.Sprintf("The holders before the item came back (%s): their claims are deleted.", times(report.Returns))
	}
	switch report.Place {
	case itembank.PlaceBurned, itembank.PlaceExpired, itembank.PlaceWithdrawn, itembank.PlaceReplaced, itembank.PlaceLost:
		result.NotKnown = append(result.NotKnown, fmt.Sprintf("When the item ended as %s, who had it then, and who did it.", report.Place))
	}
	return a.Print(result, result.describe(describeItem(report)+"\n"+describePast(report)))
}

// describe returns the text of an audit: the known facts, and the unknown ones.
func (r auditJSON) describe(known string) string {
	return known + "\nthe rows cannot tell:\n  " + strings.Join(r.NotKnown, "\n  ") + "\nsee also:\n  " + strings.Join(r.SeeAlso, "\n  ")
}

// describePast describes the past and the end of an item, from its row.
func describePast(r itembank.ItemReport) string {
	return cli.Table(func(row func(...string)) {
		row("  loaded as", fmt.Sprintf("row %d of load %s", r.Row, r.LoadID))
		row("  came back", times(r.Returns))
		row("  item ends", cli.TimeOr(r.EndsAt, "never"))
		if r.Withdraw {
			row("  withdrawn", "yes, with the end of the claim")
		}
	})
}

func times(n int) string {
	switch n {
	case 0:
		return "never"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
