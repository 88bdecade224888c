package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/itemfile"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

type replayCommand struct {
	Campaign string    `arg:"" help:"The campaign. It must be closed."`
	File     string    `arg:"" optional:"" help:"The claims, one JSON object a line; - is stdin."`
	From     string    `help:"Instead of FILE: take the claims from another store: sqlite:PATH, or dynamodb:TABLE with the name of its dedupe table." placeholder:"URL"`
	Since    time.Time `help:"With --from: only claims that were made then or later." placeholder:"T"`
	DryRun   bool      `help:"Print what replay would do, and change nothing."`
}

func (replayCommand) Help() string {
	return fmt.Sprintf(`Puts claims back that the store has lost, for example those that are newer than a table that was
restored. Each claimant gets exactly the item of the claim. No claimant loses an item, and no claimant gets a second
one.

The claims come from a file, or with --from from a store that still has them, such as the table that was replaced.
A line of a file needs claimant and item. It may have campaign, items, slot, claim_id, claimed_at and ends_at, as HTTP
replies and `+"`oncebox --output json claim`"+` have them. Columns, other members, and lines of other campaigns are passed
over: items keep the columns of their load. A claim without ends_at does not end; if its claimant has a hold of that
item, the hold is confirmed.

Checks the whole file first. If one line is bad, nothing is changed and the exit code is 2. Waits %.0f seconds, for
requests that began before the campaign was closed. Each claim is one transaction. Safe to repeat.

Prints how many claims were replayed now, are there already, or were refused, and why:

  why                the line was refused because
  holds-another      the claimant holds another item of the campaign
  blocked            the claimant was forgotten or blocked
  claimed-elsewhere  the claimant holds an item of another campaign of the scope
  item-held          another claimant holds the item
  item-ended         the item was burned, withdrawn or expired, or its life was over before the claim
  not-loaded         the item was never loaded into the campaign
  inconsistent       the rows of the item contradict each other: see oncebox reconcile
  moved              something moved the item meanwhile: run the command again

The exit code is 4 if a line was refused. It prints claimants and ids of claims, and no items.

Examples:
  oncebox replay spring claims.ndjson --dry-run
  oncebox campaign close spring && oncebox replay spring claims.ndjson
  oncebox replay spring --from dynamodb:oncebox-dedupe --since 2027-03-01T09:00:00Z`, itembank.DrainTime.Seconds())
}

func (c replayCommand) Run(ctx context.Context, a *app) error {
	switch {
	case (c.File == "") == (c.From == ""):
		return &usageError{errors.New("name a file of claims, or a store with --from"), ""}
	case c.From == "" && !c.Since.IsZero():
		return &usageError{errors.New("--since is for --from"), ""}
	case c.From != "":
		return a.withBank(ctx, c.Campaign, func(b *itembank.Bank) error { return c.replayStore(ctx, a, b) })
	}
	open, remove, err := openItemFile(ctx, c.File, a.stdin)
	if err != nil {
		return err
	}
	defer remove()
	return a.withBank(ctx, c.Campaign, func(b *itembank.Bank) error { return c.replay(ctx, a, b, claimsOf(open)) })
}

// replayStore replays the claims of another store.
func (c replayCommand) replayStore(ctx context.Context, a *app, b *itembank.Bank) error {
	other := a.globals
	other.Store = c.From
	if table, ok := strings.CutPrefix(c.From, dynamodbStore); ok {
		other.Store, other.DedupeTable = dynamodbStore, table
	}
	if _, _, err := other.sqlitePath(); err != nil || c.From == dynamodbStore {
		return &usageError{fmt.Errorf("--from %q: must be sqlite:PATH or dynamodb:TABLE", c.From), ""}
	}
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	store, closeStore, err := other.open(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &usageError{fmt.Errorf("--from %s: there is no such file", c.From), ""}
	case err != nil:
		return err
	}
	defer closeStore()
	return c.replay(ctx, a, b, claimsIn(ctx, store, campaign.Scope, c.Since))
}

func (c replayCommand) replay(ctx context.Context, a *app, b *itembank.Bank, claims itembank.ClaimSource) error {
	if err := needClosed(ctx, b, c.Campaign); err != nil {
		return err
	}
	do := b.ReplayDryRun
	if !c.DryRun {
		do = b.Replay
		a.remarkWait(c.Campaign)
	}
	report, err := do(ctx, c.Campaign, claims)
	switch {
	case errors.Is(err, itembank.ErrInvalid) && len(report.Lines) == 0:
		return &usageError{fmt.Errorf("%s: %w", cmp.Or(c.File, c.From), err), "Nothing was changed."}
	case err != nil && len(report.Lines) == 0:
		return err
	case err != nil:
		return &cutError{"after " + quantity(int64(len(report.Lines)), "line"), err}
	case report.Refused > 0:
		err = fmt.Errorf("%w: %s refused", errLook, quantity(report.Refused, "line"))
	}
	return errors.Join(a.print(report, describeReplay(report)), err)
}

func describeReplay(r itembank.ReplayReport) string {
	text := fmt.Sprintf("replayed %d, already %d, of other campaigns %d, refused %d of %s",
		r.Replayed, r.Already, r.OtherCampaign, r.Refused, quantity(int64(len(r.Lines)), "line"))
	if r.DryRun {
		text = "would have " + text + "; nothing was changed"
	}
	if r.Refused == 0 {
		return text
	}
	return text + "\n" + table(func(row func(...string)) {
		row("LINE", "CLAIMANT", "WHY", "SEE")
		for _, l := range r.Lines {
			switch l.Outcome {
			case "replayed", "confirmed", "already", "other-campaign":
			default:
				row(fmt.Sprint(l.Line), l.Claimant, l.Outcome, seeOf(l))
			}
		}
	})
}

// seeOf names the claim or item that prevents the replay of a line.
func seeOf(l itembank.ReplayedLine) string {
	switch {
	case l.HeldBy != "":
		return fmt.Sprintf("claim %s of %s", l.HeldClaimID, l.HeldBy)
	case l.HeldClaimID != "":
		return "claim " + l.HeldClaimID
	case l.Campaign != "":
		return "campaign " + l.Campaign
	case l.State != "":
		return "item " + l.State
	case l.Kind != "":
		return l.Kind
	}
	return "-"
}

// claimsIn lists the claims of a scope in a store that were made at a moment or later. Their numbers count from 1.
func claimsIn(ctx context.Context, store engine.Store, scope string, since time.Time) itembank.ClaimSource {
	return func() iter.Seq2[itembank.ClaimLine, error] {
		return func(yield func(itembank.ClaimLine, error) bool) {
			number := int64(0)
			for cursor, first := "", true; first || cursor != ""; first = false {
				claims, next, err := store.ListClaims(ctx, scope, cursor)
				if err != nil {
					yield(itembank.ClaimLine{}, err)
					return
				}
				for _, c := range claims {
					if c.IsBlock() || c.ClaimedAt.Before(since) {
						continue
					}
					number++
					claim := itembank.Claim{
						ID: c.ID, Campaign: c.Campaign, Scope: c.Scope, Claimant: c.Claimant, Slot: c.Slot, Item: c.Item, More: c.More,
						ClaimedAt: c.ClaimedAt, EndsAt: c.EndsAt,
					}
					if !yield(itembank.ClaimLine{Number: number, Claim: claim}, nil) {
						return
					}
				}
				cursor = next
			}
		}
	}
}

// maxClaimLine is the size of the longest line in a file of claims, in bytes. A claim needs at most a third of it.
const maxClaimLine = 256 << 10

// claimsOf reads claims from a file, one JSON object a line. Blank lines are skipped.
func claimsOf(open itemfile.Open) itembank.ClaimSource {
	return func() iter.Seq2[itembank.ClaimLine, error] {
		return func(yield func(itembank.ClaimLine, error) bool) {
			file, err := open()
			if err != nil {
				yield(itembank.ClaimLine{}, err)
				return
			}
			defer file.Close()
			readClaims(file, yield)
		}
	}
}

func readClaims(file io.Reader, yield func(itembank.ClaimLine, error) bool) {
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxClaimLine)
	number := int64(0)
	for lines.Scan() {
		number++
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		claim, err := parseClaim(lines.Bytes())
		if err != nil {
			err = &itembank.LineError{Line: number, Err: err}
		}
		if !yield(itembank.ClaimLine{Number: number, Claim: claim}, err) {
			return
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		invalid := &itembank.InvalidError{Field: "claim", Detail: fmt.Sprintf("is longer than %d bytes", maxClaimLine)}
		yield(itembank.ClaimLine{}, &itembank.LineError{Line: number + 1, Err: invalid})
	case err != nil:
		yield(itembank.ClaimLine{}, err)
	}
}

func parseClaim(line []byte) (c itembank.Claim, err error) {
	var body claimapi.ClaimBody
	if err := json.Unmarshal(line, &body); err != nil {
		return c, &itembank.InvalidError{Field: "claim", Detail: `is not a JSON object such as {"claimant":"ann","item":"A-1"}`}
	}
	c = itembank.Claim{ID: body.ClaimID, Campaign: body.Campaign, Claimant: body.Claimant, Slot: body.Slot, Item: body.Item}
	if len(body.Items) > 1 {
		c.Item = body.Items[0].Item
		for _, other := range body.Items[1:] {
			c.More += engine.NewItemList(other.Item)
		}
	}
	if c.ClaimedAt, err = timeOf("claimed_at", body.ClaimedAt); err != nil {
		return c, err
	}
	c.EndsAt, err = timeOf("ends_at", body.EndsAt)
	return c, err
}

func timeOf(member, text string) (t time.Time, err error) {
	if text == "" {
		return t, nil
	}
	if t, err = time.Parse(time.RFC3339, text); err != nil {
		err = &itembank.InvalidError{Field: member, Detail: fmt.Sprintf("%q is not a time; use 2027-03-01T09:00:00Z", text)}
	}
	return t, err
}
