package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type forgetCommand struct {
	Name     string `arg:"" help:"A scope, or a campaign of the scope."`
	Claimant string `arg:"" help:"The claimant."`
	Yes      bool   `help:"Do it without asking."`
}

func (forgetCommand) Help() string {
	return `Releases all claims that the claimant has in the scope, each by the rules of its campaign: the item goes back to
the bank or is burned. After that no row of the store names the claimant. A burned item does not say who held it.

Shows the claims and asks. Without a terminal it needs --yes. Safe to repeat: if the claimant has no claim, the
command says so, and the exit code is 0. The exit code is 4 if the rows of a claim contradict each other, so that it
cannot be released: "oncebox reconcile" shows them.

The command names the copies that it cannot reach, such as backups. End the claimant's access first: a claimant who
claims again is in the store again.

Examples:
  oncebox forget spring ann@example.com
  oncebox forget spring-term customer-17 --yes`
}

func (c forgetCommand) Run(ctx context.Context, a *app) error {
	if !c.Yes && !a.canAsk() {
		return &usageError{errors.New("there is no terminal to ask on; nothing was changed"), "Say --yes to forget the claimant."}
	}
	return a.withBank(ctx, c.Name, func(b *itembank.Bank) error { return c.forget(ctx, a, b) })
}

func (c forgetCommand) forget(ctx context.Context, a *app, b *itembank.Bank) error {
	scope, err := c.scope(ctx, b)
	if err != nil {
		return err
	}
	held, err := b.ScopeClaims(ctx, scope, c.Claimant)
	if err != nil {
		return err
	}
	if shown := c.describe(scope, held); c.Yes {
		a.remark("%s", shown)
	} else if len(held) > 0 {
		yes, err := a.ask(ctx, shown+"\nRelease them?")
		if err != nil {
			return err
		}
		if !yes {
			return errUnconfirmed
		}
	}
	report, err := b.Forget(ctx, scope, c.Claimant)
	if err != nil {
		return err
	}
	return a.forgotten(report)
}

// scope returns the scope that the argument names.
func (c forgetCommand) scope(ctx context.Context, b *itembank.Bank) (string, error) {
	campaigns, err := b.Campaigns(ctx)
	if err != nil {
		return "", err
	}
	scope := ""
	for _, campaign := range campaigns {
		switch {
		case campaign.Name != c.Name && campaign.Scope != c.Name:
		case scope != "" && scope != campaign.Scope:
			return "", &usageError{
				fmt.Errorf("%q is a campaign of one scope, and the name of another scope", c.Name),
				"Name another campaign of the scope that you mean, or its scope. `oncebox campaign list` shows them.",
			}
		default:
			scope = campaign.Scope
		}
	}
	if scope == "" {
		return "", itembank.ErrNoCampaign
	}
	return scope, nil
}

func (c forgetCommand) describe(scope string, held []itembank.Claim) string {
	if len(held) == 0 {
		return fmt.Sprintf("%s has no claim in the scope %s.", c.Claimant, scope)
	}
	texts := []string{fmt.Sprintf("%s holds in the scope %s:", c.Claimant, scope)}
	for _, claim := range held {
		texts = append(texts, "  in campaign "+claim.Campaign, describeClaim(claim))
	}
	return strings.Join(texts, "\n")
}

// forgetJSON is the result of forget.
type forgetJSON struct {
	Scope    string        `json:"scope"`
	Claimant string        `json:"claimant"`
	Released []releaseJSON `json:"released"`
	Kept     []keptJSON    `json:"kept"`
	Copies   []string      `json:"copies"` // the places that may still name the claimant
}

// keptJSON is a claim that could not be released.
type keptJSON struct {
	Campaign string `json:"campaign"`
	ClaimID  string `json:"claim_id"`
	Reason   string `json:"reason"`
}

func (a *app) forgotten(r itembank.ForgetReport) error {
	result := forgetJSON{Scope: r.Scope, Claimant: r.Claimant, Released: []releaseJSON{}, Kept: []keptJSON{}, Copies: a.copies()}
	text := []string{fmt.Sprintf("released %s", quantity(int64(len(r.Released)), "claim"))}
	for _, f := range r.Released {
		released := toReleaseJSON(f.Claim.Campaign, f.Claim.Claimant, f.Claim, f.Released)
		result.Released = append(result.Released, released)
		if len(released.Items) == 0 {
			text = append(text, fmt.Sprintf("  %s: the item is %s", released.Campaign, released.Outcome))
		}
		for _, item := range released.Items {
			text = append(text, fmt.Sprintf("  %s: %s is %s", released.Campaign, item.Item, item.Outcome))
		}
	}
	for _, f := range r.Kept {
		result.Kept = append(result.Kept, keptJSON{f.Claim.Campaign, f.Claim.ID, f.Err.Error()})
		text = append(text, fmt.Sprintf("  %s: NOT released: %v", f.Claim.Campaign, f.Err))
	}
	text = append(text, "These may still name the claimant:")
	for _, place := range result.Copies {
		text = append(text, "  "+place)
	}
	err := a.print(result, strings.Join(text, "\n"))
	if n := len(r.Kept); n > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %s cannot be released, since the rows contradict each other; `oncebox reconcile` shows them",
			errLook, quantity(int64(n), "claim")))
	}
	return err
}

// copies lists the places outside the rows of the store that may hold claimants.
func (a *app) copies() []string {
	copies := []string{
		"files with claims that were exported or kept for `oncebox replay`",
		"files of personal links, which have claimants in them",
		"your own systems, and what you sent to the claimant",
	}
	if _, ok, _ := a.sqlitePath(); ok {
		return append([]string{
			"backups and other copies of the file " + strings.TrimPrefix(a.Store, sqlitePrefix),
			"unused pages of the file, until `VACUUM` in the sqlite3 shell rewrites it",
		}, copies...)
	}
	return append([]string{
		"point-in-time recovery of the tables, for up to 35 days",
		"on-demand backups, exports and streams of the tables",
		"logs of other systems in front of the API; the functions and the access log of the stack write no claimants",
	}, copies...)
}
