package claims

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
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type replayCommand struct {
	Campaign string   `arg:"" help:"The campaign. It must be closed."`
	File     string   `arg:"" optional:"" help:"The claims, one JSON object a line; - is stdin."`
	From     string   `help:"Instead of FILE: make what customers saw in another store true in this one: sqlite:PATH, or dynamodb:BANK,DEDUPE with the names of its two tables." placeholder:"URL"`
	Take     []string `enum:"withdrawals,loads,releases" help:"With --from: also take over what operators did in the other store: withdrawals, loads, releases of confirmed holds." placeholder:"withdrawals,loads,releases"`
	DryRun   bool     `help:"Print what would happen, and change nothing."`
}

func (replayCommand) Help() string {
	return fmt.Sprintf(`Makes true again what customers saw and the store has lost, for example after its tables were restored.

With --from, the other store is the one that was in use before. The campaign must be closed there, and closed with
--restored in this store. Both stores are read, and then these changes are made:

  a claim that only the other store has      is made, and confirmed if it was confirmed there
  a hold with a later end in the other store gets that end
  a claim that only this store has           is closed: it was released, has ended or was forgotten. Its item
                                             ends as in the other store, or goes back to the bank.
  a claimant with different claims           gets the claim of the other store
  an item that was burned or has expired     ends in the same way
  a held item that was never loaded here     is loaded
  a claimant who is blocked, or not blocked  is so in this store, too

What operators did in the other store is counted. Withdrawals and loads are taken over with --take; settings never are.
A seen item that was withdrawn while it was held is always withdrawn where items are burned. A confirmed hold is closed
only with --take releases, or for its replacement, if that is confirmed in the other store.

At its end it clears the mark of oncebox campaign close --restored, if no line was refused and all campaigns of the scope
were marked as moved in the other store when it began. The campaign stays closed: open it.

A file has claims only, so it cannot say what was released, burned or forgotten. A line of a file needs claimant and
item. It may have campaign, items, slot, claim_id, claimed_at and ends_at, as HTTP replies, oncebox claims export and
`+"`oncebox --output json claim`"+` have them. Columns, other members, and lines of other campaigns are passed over:
items keep the columns of their load. A claim without ends_at does not end; if its claimant has a hold of that item,
the hold is confirmed. With a later ends_at than the hold has, it is prolonged. If one line is bad, nothing is changed and the exit code is 2. No claimant loses an item by a
file, and no claimant gets a second one.

Checks everything before it changes something. Waits %.0f seconds, for requests that began before the campaign was
closed. Each change is one transaction. Safe to repeat, also after it was stopped.

Prints how many claims were replayed now, are there already, or were refused, and why:

  why                the line was refused because
  holds-another      the claimant holds another item of the campaign
  blocked            the claimant was forgotten or blocked
  claimed-elsewhere  the claimant holds an item of another campaign of the scope: replay that campaign, then this one
                     again
  item-held          another claimant holds the item
  item-ended         the item was burned, withdrawn or expired, or its life was over before the claim
  not-loaded         the item was never loaded into the campaign
  inconsistent       the rows of the item contradict each other: see oncebox reconcile
  old-inconsistent   the same in the store of --from
  not-in-old-store   the store of --from knows neither the claim nor its item: this store handed the item out
  confirmed-here     the hold is confirmed in this store, and the store of --from has neither it nor a confirmed
                     replacement: it was released or ended there. --take releases closes it
  moved              something moved the item meanwhile: run the command again

The exit code is 4 if a line was refused. It prints claimants, ids of claims and hashes of items, and no items.

Examples:
  oncebox campaign close spring && oncebox replay spring claims.ndjson
  oncebox replay spring --from sqlite:old.db --dry-run
  oncebox replay spring --from dynamodb:old-bank,old-dedupe --take withdrawals,loads`, itembank.DrainTime.Seconds())
}

func (c replayCommand) Run(ctx context.Context, a *cli.App) error {
	switch {
	case (c.File == "") == (c.From == ""):
		return cli.BadUsage(errors.New("name a file of claims, or a store with --from"), "")
	case c.From == "" && len(c.Take) > 0:
		return cli.BadUsage(errors.New("--take is for --from: a file has only claims"), "")
	case c.From != "":
		return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.replayStore(ctx, a, b) })
	}
	open, remove, err := cli.OpenItemFile(ctx, c.File, a.Stdin)
	if err != nil {
		return err
	}
	defer remove()
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.replayFile(ctx, a, b, claimsOf(open)) })
}

// oldStore returns the settings of the store of --from, and the flags that name it.
func (c replayCommand) oldStore(a *cli.App) (old cli.Globals, flags string, err error) {
	old = a.Globals
	old.Store = c.From
	if tables, ok := strings.CutPrefix(c.From, cli.DynamoDBStore); ok {
		bank, dedupe, two := strings.Cut(tables, ",")
		if !two || bank == "" || dedupe == "" || strings.Contains(dedupe, ",") {
			err := fmt.Errorf("--from %q: must name both tables", c.From)
			return old, "", cli.BadUsage(err, "Use --from dynamodb:BANK,DEDUPE, with the table of items and the table of claims.")
		}
		old.Store, old.BankTable, old.DedupeTable = cli.DynamoDBStore, bank, dedupe
		return old, fmt.Sprintf("--store %s --bank-table %s --dedupe-table %s", old.Store, bank, dedupe), nil
	}
	if _, _, err := old.SQLitePath(); err != nil {
		return old, "", cli.BadUsage(fmt.Errorf("--from %q: must be sqlite:PATH or dynamodb:BANK,DEDUPE", c.From), "")
	}
	return old, "--store " + old.Store, nil
}

// replayStore replays another store.
func (c replayCommand) replayStore(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	old, flags, err := c.oldStore(a)
	if err != nil {
		return err
	}
	if err := needRestored(ctx, b, c.Campaign); err != nil {
		return err
	}
	store, closeStore, err := old.Open(ctx)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.BadUsage(fmt.Errorf("--from %s: there is no such file", c.From), "")
	case err != nil:
		return err
	}
	defer closeStore()
	oldBank := itembank.NewOperator(store)
	campaign, err := oldBank.Campaign(ctx, c.Campaign)
	switch {
	case errors.Is(err, itembank.ErrNoCampaign):
		return cli.BadUsage(fmt.Errorf("--from %s: it has no campaign %s", c.From, c.Campaign), "Nothing was changed.")
	case err != nil:
		return err
	case campaign.Restored:
		err := fmt.Errorf("--from %s: %s is marked as restored there; nothing was changed", c.From, c.Campaign)
		return cli.BadUsage(err, "Name the store that was in use before, and not the copy.")
	}
	if state := campaign.StateAt(time.Now()); state != itembank.Closed {
		err := fmt.Errorf("--from %s: %s is %s there, and not closed; nothing was changed", c.From, c.Campaign, state)
		return cli.BadUsage(err, fmt.Sprintf("`oncebox %s campaign close %s --moved` closes it.", flags, c.Campaign))
	}
	return c.replay(a, func() (itembank.ReplayReport, error) {
		return b.ReplayStore(ctx, c.Campaign, oldBank, itembank.ReplayOptions{
			DryRun: c.DryRun, Withdrawals: slices.Contains(c.Take, "withdrawals"), Loads: slices.Contains(c.Take, "loads"),
			Releases: slices.Contains(c.Take, "releases"),
		})
	})
}

// needRestored returns an error unless a campaign is marked as restored.
func needRestored(ctx context.Context, b *itembank.Operator, name string) error {
	campaign, err := b.Campaign(ctx, name)
	if err != nil || campaign.Restored {
		return err
	}
	return cli.BadUsage(
		fmt.Errorf("%s is not marked as restored: this store may know newer claims, and the replay would close them", name),
		fmt.Sprintf("If this store is a copy, and --from was in use since: `oncebox campaign close %s --restored`.", name),
	)
}

// replayFile replays the claims of a file.
func (c replayCommand) replayFile(ctx context.Context, a *cli.App, b *itembank.Operator, claims itembank.ClaimSource) error {
	if err := needClosed(ctx, b, c.Campaign); err != nil {
		return err
	}
	do := b.Replay
	if c.DryRun {
		do = b.ReplayDryRun
	}
	return c.replay(a, func() (itembank.ReplayReport, error) { return do(ctx, c.Campaign, claims) })
}

// replay runs a replay and prints its report.
func (c replayCommand) replay(a *cli.App, do func() (itembank.ReplayReport, error)) error {
	if !c.DryRun {
		remarkWait(a, c.Campaign)
	}
	report, err := do()
	switch {
	case errors.Is(err, itembank.ErrInvalid) && len(report.Lines) == 0:
		return cli.BadUsage(fmt.Errorf("%s: %w", cmp.Or(c.File, c.From), err), "Nothing was changed.")
	case err != nil && c.From != "":
		return fmt.Errorf("%w; it is safe to repeat the command", err)
	case err != nil && len(report.Lines) == 0:
		return err
	case err != nil:
		return cli.Stopped("after "+cli.Quantity(int64(len(report.Lines)), "line"), err)
	case report.Refused > 0:
		err = fmt.Errorf("%w: %s refused", cli.ErrLook, cli.Quantity(report.Refused, "line"))
	case report.Store != nil && report.Store.Mark != itembank.MarkCleared:
		err = fmt.Errorf("%w: the mark restored stays", cli.ErrLook)
	}
	return errors.Join(a.Print(report, describeReplay(report)), err)
}

func describeReplay(r itembank.ReplayReport) string {
	text := fmt.Sprintf("replayed %d, already %d, of other campaigns %d, refused %d of %s",
		r.Replayed, r.Already, r.OtherCampaign, r.Refused, cli.Quantity(int64(len(r.Lines)), "line"))
	if r.DryRun {
		text = "would have " + text + "; nothing was changed"
	}
	text += describeStoreReplay(r.Store, r.DryRun)
	if r.Refused == 0 {
		return text
	}
	return text + "\n" + cli.Table(func(row func(...string)) {
		row("LINE", "CLAIMANT", "WHY", "SEE")
		for _, l := range r.Lines {
			switch l.Outcome {
			case "replayed", "confirmed", "already", "other-campaign":
			default:
				row(fmt.Sprint(l.Line), cmp.Or(l.Claimant, "-"), l.Outcome, seeOf(l))
			}
		}
	})
}

// describeStoreReplay describes what a replay from a store did besides making claims; "" for a file.
func describeStoreReplay(s *itembank.StoreReplay, dryRun bool) string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("\nclosed %s that the other store no longer has, ended %s",
		cli.Quantity(s.Closed, "claim"), cli.Quantity(s.Ended, "item"))
	if s.Kept > 0 {
		text += fmt.Sprintf("\nkept %s whose items are marked as lost in the other store", cli.Quantity(s.Kept, "claim"))
	}
	for _, changed := range []struct {
		what string
		itembank.OperatorChanges
	}{{"withdrawal", s.Withdrawals}, {"load", s.Loads}} {
		if changed.Found > 0 {
			text += fmt.Sprintf("\noperators: %s of items in the other store only, %d taken over",
				cli.Quantity(changed.Found, changed.what), changed.Taken)
		}
	}
	if s.Blocked+s.Unblocked > 0 {
		text += fmt.Sprintf("\nblocked %s, unblocked %d", cli.Quantity(s.Blocked, "slot"), s.Unblocked)
	}
	if len(s.Settings) > 0 {
		text += "\noperators: other settings in the other store, not taken over: " + strings.Join(s.Settings, ", ")
	}
	return text + describeMark(s.Mark, dryRun)
}

// describeMark says what became of the mark of a restored campaign; "": it has none.
func describeMark(m itembank.MarkOutcome, dryRun bool) string {
	switch {
	case m == itembank.MarkCleared && dryRun:
		return "\nthe mark restored would be cleared"
	case m == itembank.MarkCleared:
		return "\nthe mark restored is cleared: the campaign can be opened"
	case m == itembank.MarkRefused:
		return "\nthe mark restored stays, because lines were refused"
	case m == itembank.MarkUnmoved:
		return "\nthe mark restored stays: close all campaigns of the scope with --moved in the other store, and replay again"
	case m == itembank.MarkChanged:
		return "\nthe mark restored stays, because somebody changed the campaign meanwhile: replay again"
	}
	return ""
}

// seeOf names the claim or item that prevents the replay of a line.
func seeOf(l itembank.ReplayedLine) string {
	switch {
	case l.Hash != "":
		return strings.TrimSuffix("item "+l.Hash+", "+l.Kind, ", ")
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
	c = itembank.Claim{ID: body.ClaimID, Campaign: body.Campaign, Claimant: body.Claimant, Slot: body.Slot, Items: []string{body.Item}}
	if len(body.Items) > 1 {
		c.Items = nil
		for _, i := range body.Items {
			c.Items = append(c.Items, i.Item)
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
