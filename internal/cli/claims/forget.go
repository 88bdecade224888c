package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

type forgetCommand struct {
	Name      string `arg:"" help:"A scope, or a campaign of the scope. With --all-scopes: the claimant."`
	Claimant  string `arg:"" optional:"" help:"The claimant."`
	AllScopes bool   `help:"Forget the claimant in every scope."`
	NoBlock   bool   `help:"Leave no block, and delete the blocks that exist. The claimant can then claim again."`
	Yes       bool   `help:"Do it without asking."`
}

func (forgetCommand) Help() string {
	return `Releases all claims that the claimant has in the scope, each by the rules of its campaign: the item goes back to
the bank or is burned. A burned item does not say who held it.

Leaves a block in the scope, so that the claimant gets no other item with an old link: every request of the claimant is
refused as "not eligible". The block is put in the place of the claim, in one transaction. It is the only row that names
the claimant. "oncebox claim unblock" undoes it, and "oncebox sweep" deletes it 30 days after the last campaign of the
scope has closed by its times. With --no-block no row names the claimant. Then end the claimant's access first: a
claimant who claims again is in the store again.

Shows the claims and asks. Without a terminal it needs --yes. Safe to repeat, also after an interruption: if the
claimant has no claim, the command says so, and the exit code is 0. The exit code is 4 if the rows of a claim contradict
each other, so that it cannot be released: "oncebox reconcile" shows them. It is also 4 if a campaign cannot be read,
for example because a later version of oncebox made it: the command names it, and releases nothing in its scope. The
command names the copies that it cannot reach, such as backups.

In a SQLite store the command then rewrites the file, so that neither the file nor its -wal file has the text of deleted
rows. That needs up to twice the size of the file on the disk. Meanwhile no other process writes: requests to a server
that take longer than 5 seconds fail with 503, so choose a quiet hour for a large file. If another process reads the
file for longer than 5 seconds, the exit code is 1: the claims are released, and the text may be in the -wal file until
the command is repeated.

Examples:
  oncebox forget spring ann@example.com
  oncebox forget spring-term customer-17 --yes
  oncebox forget ann@example.com --all-scopes`
}

func (c forgetCommand) Run(ctx context.Context, a *cli.App) error {
	switch {
	case c.AllScopes && c.Claimant != "":
		return cli.BadUsage(errors.New("--all-scopes takes only the claimant; nothing was changed"), "")
	case c.AllScopes:
		c.Name, c.Claimant = "", c.Name
	case c.Claimant == "":
		return cli.BadUsage(errors.New("there is no claimant; nothing was changed"), "Name a scope and then the claimant, or say --all-scopes.")
	}
	if !c.Yes && !a.CanAsk() {
		return cli.BadUsage(errors.New("there is no terminal to ask on; nothing was changed"), "Say --yes to forget the claimant.")
	}
	err := a.WithBank(ctx, c.Name, func(b *itembank.Operator) error { return c.forget(ctx, a, b) })
	if err != nil && !errors.Is(err, cli.ErrLook) {
		return err
	}
	const hint = "The claims are released. Repeat the command to remove their text from the file on the disk."
	return errors.Join(err, eraseDeleted(ctx, a, hint))
}

// eraseDeleted removes the content of deleted rows from the file of a SQLite store. The hint is for an error.
func eraseDeleted(ctx context.Context, a *cli.App, hint string) error {
	path, ok, err := a.SQLitePath()
	if err != nil || !ok {
		return err
	}
	store, err := sqlitestore.Open(ctx, path)
	if err != nil {
		return err
	}
	if err := errors.Join(store.Erase(ctx), store.Close()); err != nil {
		return cli.WithHint(err, hint)
	}
	return nil
}

func (c forgetCommand) forget(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	scopes, skipped, err := c.scopes(ctx, b)
	if err != nil {
		return err
	}
	var shown []string
	claims := 0
	for _, scope := range scopes {
		held, err := b.ClaimsToForget(ctx, scope, c.Claimant)
		if err != nil {
			return err
		}
		claims += len(held)
		shown = append(shown, c.describe(scope, held))
	}
	if text := strings.Join(shown, "\n"); c.Yes {
		a.Remark("%s", text)
	} else if yes, err := a.Ask(ctx, text+"\n"+c.question(claims)); err != nil {
		return err
	} else if !yes {
		return cli.ErrUnconfirmed
	}
	var reports []itembank.ForgetReport
	for _, scope := range scopes {
		report, err := b.Forget(ctx, scope, c.Claimant, itembank.ForgetOptions{WithoutBlock: c.NoBlock})
		if err == nil || len(report.Released)+len(report.Kept)+report.Blocked > 0 {
			reports = append(reports, report)
		}
		switch {
		case err != nil && len(reports) == 0:
			return errors.Join(err, skipped)
		case err != nil:
			return errors.Join(cli.Stopped("in the scope "+scope, err), c.forgotten(a, reports), skipped)
		}
	}
	return errors.Join(c.forgotten(a, reports), skipped)
}

func (c forgetCommand) question(claims int) string {
	switch {
	case claims == 0 && c.NoBlock:
		return "Delete the blocks of the claimant?"
	case claims == 0:
		return "Block the claimant?"
	case c.NoBlock:
		return "Release them?"
	}
	return "Release them and block the claimant?"
}

// scopes returns the scopes that the arguments name. skipped names the campaigns that cannot be read. With --all-scopes
// the scopes of these are left out, because Forget refuses them.
func (c forgetCommand) scopes(ctx context.Context, b *itembank.Operator) (scopes []string, skipped, err error) {
	if !c.AllScopes {
		scope, skipped, err := scopeNamed(ctx, b, c.Name)
		return []string{scope}, skipped, err
	}
	campaigns, err := b.Campaigns(ctx)
	unreadable, _ := errors.AsType[*itembank.UnreadableError](err)
	if skipped, err = cli.SkipUnreadable(err); err != nil {
		return nil, nil, err
	}
	for _, campaign := range campaigns {
		if unreadable == nil || !unreadable.In(campaign.Scope) {
			scopes = append(scopes, campaign.Scope)
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes), skipped, nil
}

// scopeNamed returns the scope of a name: the name of a scope, or of one of its campaigns. skipped names the campaigns
// that cannot be read.
func scopeNamed(ctx context.Context, b *itembank.Operator, name string) (scope string, skipped, err error) {
	campaigns, listError := b.Campaigns(ctx)
	if skipped, err = cli.SkipUnreadable(listError); err != nil {
		return "", nil, err
	}
	for _, campaign := range campaigns {
		switch {
		case campaign.Name != name && campaign.Scope != name:
		case scope != "" && scope != campaign.Scope:
			return "", nil, cli.BadUsage(
				fmt.Errorf("%q is a campaign of one scope, and the name of another scope", name),
				"Name another campaign of the scope that you mean, or its scope. `oncebox campaign list` shows them.",
			)
		default:
			scope = campaign.Scope
		}
	}
	if scope == "" {
		return "", nil, cmp.Or(listError, itembank.ErrNoCampaign)
	}
	return scope, skipped, nil
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

// forgetJSON is the result of forget in a scope.
type forgetJSON struct {
	Scope    string        `json:"scope"`
	Claimant string        `json:"claimant"`
	Released []releaseJSON `json:"released"`
	Kept     []keptJSON    `json:"kept"`
	// BlockedSlots is how many slots are blocked. BlocksStayUntil is when oncebox sweep may delete the blocks.
	BlockedSlots    int        `json:"blocked_slots"`
	BlocksStayUntil *time.Time `json:"blocks_stay_until,omitempty"`
	Copies          []string   `json:"copies"` // the places that may still name the claimant
}

// forgetAllJSON is the result of forget --all-scopes.
type forgetAllJSON struct {
	Scopes []forgetJSON `json:"scopes"`
}

// keptJSON is a claim that could not be released.
type keptJSON struct {
	Campaign string `json:"campaign"`
	ClaimID  string `json:"claim_id"`
	Reason   string `json:"reason"`
}

func (c forgetCommand) forgotten(a *cli.App, reports []itembank.ForgetReport) error {
	all := forgetAllJSON{Scopes: []forgetJSON{}}
	var text []string
	kept, copies := 0, listCopies(a)
	for _, r := range reports {
		if c.AllScopes {
			text = append(text, "in the scope "+r.Scope+":")
		}
		all.Scopes = append(all.Scopes, toForgetJSON(r, copies))
		text = append(text, describeForgotten(r)...)
		kept += len(r.Kept)
	}
	text = append(text, "These may still name the claimant:")
	for _, place := range copies {
		text = append(text, "  "+place)
	}
	var result any = all
	if !c.AllScopes {
		result = all.Scopes[0]
	}
	err := a.Print(result, strings.Join(text, "\n"))
	if kept > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %s cannot be released, since the rows contradict each other; `oncebox reconcile` shows them",
			cli.ErrLook, cli.Quantity(int64(kept), "claim")))
	}
	return err
}

func toForgetJSON(r itembank.ForgetReport, copies []string) forgetJSON {
	result := forgetJSON{
		Scope: r.Scope, Claimant: r.Claimant, Released: []releaseJSON{}, Kept: []keptJSON{}, Copies: copies,
		BlockedSlots: r.Blocked, BlocksStayUntil: cli.Optional(r.PurgedAfter),
	}
	for _, f := range r.Released {
		result.Released = append(result.Released, toReleaseJSON(f.Claim.Campaign, f.Claim.Claimant, f.Claim, f.Released))
	}
	for _, f := range r.Kept {
		result.Kept = append(result.Kept, keptJSON{f.Claim.Campaign, f.Claim.ID, f.Err.Error()})
	}
	return result
}

// describeForgotten returns the lines about a scope.
func describeForgotten(r itembank.ForgetReport) []string {
	text := []string{fmt.Sprintf("released %s", cli.Quantity(int64(len(r.Released)), "claim"))}
	for _, released := range toForgetJSON(r, nil).Released {
		if len(released.Items) == 0 {
			text = append(text, fmt.Sprintf("  %s: the item is %s", released.Campaign, released.Outcome))
		}
		for _, item := range released.Items {
			text = append(text, fmt.Sprintf("  %s: %s is %s", released.Campaign, item.Item, item.Outcome))
		}
	}
	for _, f := range r.Kept {
		text = append(text, fmt.Sprintf("  %s: NOT released: %v", f.Claim.Campaign, f.Err))
	}
	if r.Blocked > 0 {
		text = append(text, describeBlock(r.Scope, r.Claimant, r.PurgedAfter)...)
	}
	return text
}

// listCopies lists the places outside the rows of the store that may hold claimants.
func listCopies(a *cli.App) []string {
	copies := []string{
		"files with claims that were exported or kept for `oncebox replay`",
		"files of personal links, which have claimants in them",
		"your own systems, and what you sent to the claimant",
	}
	if _, ok, _ := a.SQLitePath(); ok {
		return append([]string{
			"backups and other copies of the file " + strings.TrimPrefix(a.Store, cli.SQLitePrefix),
			"blocks of the disk that the file no longer uses",
		}, copies...)
	}
	return append([]string{
		"point-in-time recovery of the tables, for up to 35 days",
		"on-demand backups, exports and streams of the tables",
		"logs of other systems in front of the API; the functions and the access log of the stack write no claimants",
	}, copies...)
}
