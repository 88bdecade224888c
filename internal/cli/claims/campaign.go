package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type campaignCommand struct {
	Create campaignCreate `cmd:"" help:"Create a campaign. It is open at once unless --opens is later."`
	Show   campaignShow   `cmd:"" help:"Show the settings and the state of a campaign."`
	Open   campaignOpen   `cmd:"" help:"Open a campaign now, regardless of its times."`
	Close  campaignClose  `cmd:"" help:"Close a campaign now, regardless of its times. Claims stay with their claimants."`
	Set    campaignSet    `cmd:"" help:"Change settings of a campaign."`
	Delete campaignDelete `cmd:"" help:"Delete a campaign that was never loaded."`
	List   campaignList   `cmd:"" help:"List all campaigns."`
	Page   campaignPage   `cmd:"" help:"Set the texts, the style and the logo of a campaign's claim page, or show them."`
}

type campaignCreate struct {
	Name     string    `arg:"" help:"1 to 63 characters: a-z, 0-9 and -."`
	Opens    time.Time `help:"When claims begin: ${times}." placeholder:"T"`
	Closes   time.Time `help:"When claims end, in the future." placeholder:"T"`
	Scope    string    `help:"Name space in which a claimant holds one claim. Campaigns may share a scope. Fixed for good. Default: the name of the campaign." placeholder:"S"`
	Shards   int       `help:"Parts of the bank. One part takes about 500 claims a second on DynamoDB. Fixed for good. Default: ${default}." default:"16" placeholder:"N"`
	PageSize int       `help:"Free items read at a time, at least. In a large bank up to 100. Default: ${default}." default:"30" placeholder:"N"`

	ItemLife   time.Duration       `help:"How long an item can be claimed after it was loaded, as in 30d. 0 means forever, the default. Fixed for good." placeholder:"D"`
	ClaimLife  time.Duration       `help:"How long a claim lives, as in 24h. 0 means forever, the default. Fixed for good." placeholder:"D"`
	Hold       time.Duration       `help:"Make each claim a hold: it goes back to the bank unless it is confirmed in this time, as in 15m. Implies --on-end return, and excludes --claim-life. Fixed for good." placeholder:"D"`
	MaxHold    time.Duration       `help:"Let a hold be prolonged: until this long after its claim at most, as in 1h; longer than --hold. Fixed for good. Default: holds are not prolonged." placeholder:"D"`
	ClaimantAs itembank.ClaimantAs `help:"Which claimants are the same one. exact: claimants with the same bytes. email: white space at the ends, upper and lower case, and Unicode form do not count; everything else does, such as +tags and dots. Fixed for good with the scope. Default: ${default}." enum:"exact,email" default:"exact" placeholder:"exact|email"`

	PerClaimant  int  `help:"How many claims a claimant can have, each in a slot that the claim names with --slot. More than one needs a scope that no other campaign has. Fixed for good. Default: ${default}." default:"1" placeholder:"N"`
	Choice       bool `help:"Let claimants name the items, as in --item 12A. A claim may have several, all or none. For seats and places. On codes it lets every caller try which codes exist, and take them. Fixed for good."`
	MaxItems     *int `help:"How many items one claim can have: 1 to 20 with --choice, else 1. A claimant can have --per-claimant times as many. Fixed for good. Default: 1; with --choice and without --per-claimant, 20." placeholder:"N"`
	PublishItems bool `help:"Let every caller list the free items over HTTP, as for a seat map. Never for codes. Fixed for good."`

	Columns bool `help:"Let loads give items columns of a CSV file, as in load --with price,row. They come back with the item, to every claimant who gets it. Fixed for good."`

	OnEnd *itembank.OnEnd `help:"What happens to an item whose claim is released or ends. burn: no claimant gets it again, for codes, which the claimant has seen. return: it goes back to the bank, for seats and places. Fixed for good. Default: burn, or return with --hold." enum:"burn,return" placeholder:"burn|return"`
}

func (campaignCreate) Help() string {
	return `Safe to repeat with the same settings.

Examples:
  oncebox campaign create spring
  oncebox campaign create launch --opens "2027-03-01 09:00 Europe/Berlin" --closes 2027-03-02T09:00:00Z
  oncebox campaign create yoga-monday --scope spring-term --on-end return   # one booking a student in the term
  oncebox campaign create vip --claimant-as email                           # Ann@example.com is ann@example.com
  oncebox campaign create seats --hold 15m                                  # a seat for the customer who pays in time
  oncebox campaign create desk --hold 15m --max-hold 1h                     # with more time for those who ask for it
  oncebox campaign create hall --hold 15m --choice --publish-items          # a customer names the seats
  oncebox campaign create raffle --columns                                  # load --with prize: the prize comes back
  oncebox campaign create lockers --claim-life 7d --on-end return           # a locker for a week`
}

func (c campaignCreate) Run(ctx context.Context, a *cli.App) error {
	for flag, n := range map[string]*int{
		"--shards": &c.Shards, "--page-size": &c.PageSize, "--per-claimant": &c.PerClaimant, "--max-items": c.MaxItems,
	} {
		if n != nil && *n == 0 { // which the library reads as "not set"
			return cli.BadUsage(fmt.Errorf("%s 0: must be at least 1", flag), "Without the flag it has its default.")
		}
	}
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error { return c.create(ctx, a, b) })
}

func (c campaignCreate) create(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	if err := c.inThePast(ctx, b); err != nil {
		return err
	}
	campaign, created, err := b.CreateCampaign(ctx, c.Name, itembank.Settings{
		OpensAt: c.Opens, ClosesAt: c.Closes, Scope: c.Scope, Shards: c.Shards, PageSize: c.PageSize,
		ItemLife: c.ItemLife, ClaimLife: c.ClaimLife, Hold: c.Hold, MaxHold: c.MaxHold,
		OnEnd:      valueOf(c.OnEnd),
		ClaimantAs: c.ClaimantAs, PerClaimant: c.PerClaimant, Choice: c.Choice, MaxItems: valueOf(c.MaxItems),
		Publish: c.PublishItems, Columns: c.Columns,
	})
	if err != nil {
		return c.flagError(err)
	}
	state := campaign.StateAt(time.Now())
	verb := "created"
	if !created {
		verb = "exists already, with the same settings:"
	}
	text := fmt.Sprintf("%s %s (%s)", verb, campaign.Name, state)
	if !c.Opens.IsZero() {
		text += "\nopens " + cli.Understood(c.Opens)
	}
	if !c.Closes.IsZero() {
		text += "\ncloses " + cli.Understood(c.Closes)
	}
	return a.Print(toCampaignJSON(campaign, state), text)
}

// inThePast refuses an end in the past for a new campaign. The command can be repeated after the end of its campaign.
func (c campaignCreate) inThePast(ctx context.Context, b *itembank.Operator) error {
	if c.Closes.IsZero() || c.Closes.After(time.Now()) {
		return nil
	}
	_, err := b.Campaign(ctx, c.Name)
	switch {
	case errors.Is(err, itembank.ErrInvalid): // the command names the argument
		return nil
	case !errors.Is(err, itembank.ErrNoCampaign):
		return err
	}
	return cli.BadUsage(
		fmt.Errorf("--closes %s is in the past: nobody could claim", cli.Understood(c.Closes)), "No campaign was created.",
	)
}

// valueOf returns the value of a flag, or the zero value without it. The library has the defaults that depend on others.
func valueOf[T any](flag *T) (value T) {
	if flag != nil {
		value = *flag
	}
	return value
}

// flagError names the flag or argument that is wrong, with its value.
func (c campaignCreate) flagError(err error) error {
	invalid, ok := errors.AsType[*itembank.InvalidError](err)
	if !ok {
		return err
	}
	typed := map[string]string{
		"scope":     fmt.Sprintf("--scope %q", c.Scope),
		"shards":    fmt.Sprintf("--shards %d", c.Shards),
		"page-size": fmt.Sprintf("--page-size %d", c.PageSize),
		"opens":     "--opens", "closes": "--closes", "item-life": "--item-life", "claim-life": "--claim-life",
		"hold": "--hold", "max-hold": "--max-hold", "on-end": "--on-end", "claimant-as": fmt.Sprintf("--claimant-as %s", c.ClaimantAs),
		"per-claimant": fmt.Sprintf("--per-claimant %d", c.PerClaimant), "max-items": fmt.Sprintf("--max-items %d", valueOf(c.MaxItems)),
	}
	name, ok := typed[invalid.Field]
	switch {
	case ok:
	case itembank.ValidateName("campaign", c.Name) != nil:
		name = fmt.Sprintf("campaign %q", c.Name)
	default: // it exists
		const hint = "`oncebox campaign set %[1]s` changes --opens, --closes and --page-size. The other settings are fixed: " +
			"choose another name. If nothing was loaded yet: `oncebox campaign delete %[1]s`, and create it again."
		return cli.BadUsage(fmt.Errorf("%w; nothing was changed", invalid), fmt.Sprintf(hint, c.Name))
	}
	return cli.BadUsage(fmt.Errorf("%s: %s", name, cli.WithFlags(invalid.Detail)), "")
}

type campaignShow struct {
	Name string `arg:"" help:"The campaign."`
}

func (campaignShow) Help() string {
	return `The state is scheduled, open, closed, sold_out, or empty if no items were loaded.

Example:
  oncebox campaign show spring`
}

func (c campaignShow) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error {
		campaign, state, err := b.State(ctx, c.Name)
		if err != nil {
			return err
		}
		return a.Print(toCampaignJSON(campaign, state), describe(campaign, state, cli.TimeOr))
	})
}

// describe writes the settings of a campaign. when writes its times.
func describe(c itembank.Campaign, state itembank.State, when func(t time.Time, zero string) string) string {
	return cli.Table(func(row func(...string)) {
		row("name", c.Name)
		row("state", string(state))
		row("mode", modeOf(c))
		if mark := markOf(c); mark != "" {
			row("mark", mark)
		}
		row("opens", when(c.OpensAt, "at once"))
		row("closes", when(c.ClosesAt, "never"))
		row("scope", c.Scope)
		row("claimants", string(c.ClaimantAs))
		row("slots", fmt.Sprint(c.PerClaimant))
		row("choice", yesOr(c.Choice, "no"))
		row("max items", fmt.Sprint(c.MaxItems))
		row("published", yesOr(c.Publish, "no"))
		row("columns", yesOr(c.Columns, "no"))
		row("shards", fmt.Sprint(c.Shards))
		row("page size", fmt.Sprint(c.PageSize))
		row("item life", cli.LifeOr(c.ItemLife, "forever"))
		row("claim life", cli.LifeOr(c.ClaimLife, "forever"))
		row("hold", cli.LifeOr(c.Hold, "none"))
		row("max hold", cli.LifeOr(c.MaxHold, "none"))
		row("on end", string(c.OnEnd))
		row("created", cli.TimeOr(c.CreatedAt, "unknown"))
	})
}

type campaignOpen struct {
	Name               string `arg:"" help:"The campaign."`
	NewerClaimsAreLost bool   `help:"Clear the marks of campaign close --moved and --restored. What happened in another store since the copy is lost: items that customers saw may go to others."`
}

func (campaignOpen) Help() string {
	return `If the campaign was closed with --until-reconciled or --restored, it is opened only if reconcile finds nothing. Else the
exit code is 3. It is also 3 if another operator closes or changes the campaign meanwhile: then it is not opened.

A campaign is not opened while it, or another campaign of its scope, is marked as moved or restored. A replay of the old
store clears the mark of a restored campaign. If the old store is gone, --newer-claims-are-lost clears it, and prints what
is given up before it opens the campaign.

Examples:
  oncebox campaign open spring
  oncebox campaign open spring --newer-claims-are-lost   # the old store is gone`
}

func (c campaignOpen) Run(ctx context.Context, a *cli.App) error {
	do := (*itembank.Operator).OpenCampaign
	if c.NewerClaimsAreLost {
		do = givingUp(a, (*itembank.Operator).OpenWithoutReplay)
	}
	return switchCampaign(ctx, a, c.Name, "open", func(b *itembank.Operator, ctx context.Context, name string) error {
		err := do(b, ctx, name)
		if errors.Is(err, itembank.ErrNotReconciled) {
			hint := fmt.Sprintf("`oncebox reconcile %s` shows them. `oncebox campaign close %s` closes it without that condition.", name, name)
			err = cli.WithHint(fmt.Errorf("%s: %w", name, err), hint)
		}
		return changedHint(name, markHint(err))
	})
}

// markHint says how to clear the mark that is in the way. Other errors stay as they are.
func markHint(err error) error {
	marked, ok := errors.AsType[*itembank.MarkedError](err)
	if !ok {
		return err
	}
	hint := "`oncebox replay %[1]s --from ...` replays the old store, and clears the mark. If that store is gone: " +
		"`oncebox campaign close %[1]s --newer-claims-are-lost`."
	if errors.Is(err, itembank.ErrMoved) {
		hint = "Use the new store. If no other store has the campaign: `oncebox campaign close %[1]s --newer-claims-are-lost`."
	}
	return cli.WithHint(err, fmt.Sprintf(hint, marked.Campaign))
}

// givingUp prints what a change gives up, and then makes it.
func givingUp(a *cli.App, change switchFunc) switchFunc {
	return func(b *itembank.Operator, ctx context.Context, name string) error {
		given, err := b.Unreplayed(ctx, name)
		if err != nil {
			return err
		}
		if given.Moved || given.Restored {
			a.Remark("%s", describeUnreplayed(given))
		}
		return change(b, ctx, name)
	}
}

// describeUnreplayed says what is given up.
func describeUnreplayed(given itembank.Unreplayed) string {
	newest := "This store has no claim of the campaign."
	if !given.Newest.IsZero() {
		newest = "The newest claim in this store was made at " + given.Newest.Format(time.RFC3339) + "."
	}
	return "given up: claims, confirmations, releases and erasures in other stores since this copy was made. " + newest +
		" Items that customers have claimed since may go to others."
}

type campaignClose struct {
	Name               string `arg:"" help:"The campaign."`
	UntilReconciled    bool   `help:"Let it be opened again only when reconcile finds nothing. For a campaign whose rows may be wrong." xor:"mark"`
	Moved              bool   `help:"Mark the campaign in a store that is being left: claims, confirmations, prolongations and releases are refused, and sweeps leave it alone." xor:"mark"`
	Restored           bool   `help:"Mark the campaign in a restored store: as --until-reconciled, and it is opened only after a replay of the old store. Confirmations are taken." xor:"mark"`
	NewerClaimsAreLost bool   `help:"Clear the marks of campaign close --moved and --restored. What happened in another store since the copy is lost: items that customers saw may go to others." xor:"mark"`
}

func (campaignClose) Help() string {
	return `--moved and --restored set marks beside the state, for a restore. Opening, closing and changing the campaign do not clear
them. A replay of the old store clears the mark of --restored, if all campaigns of the scope are marked as moved there
and nothing was refused. --newer-claims-are-lost clears both marks, and leaves the campaign closed.

Examples:
  oncebox campaign close spring
  oncebox campaign close spring --until-reconciled
  oncebox --store sqlite:old.db campaign close spring --moved
  oncebox --store sqlite:new.db campaign close spring --restored`
}

func (c campaignClose) Run(ctx context.Context, a *cli.App) error {
	do := (*itembank.Operator).CloseCampaign
	switch {
	case c.UntilReconciled:
		do = (*itembank.Operator).CloseUntilReconciled
	case c.Moved:
		do = (*itembank.Operator).CloseMoved
	case c.Restored:
		do = (*itembank.Operator).CloseRestored
	case c.NewerClaimsAreLost:
		do = givingUp(a, (*itembank.Operator).CloseWithoutReplay)
	}
	return switchCampaign(ctx, a, c.Name, "closed", do)
}

// switchFunc opens or closes a campaign.
type switchFunc func(*itembank.Operator, context.Context, string) error

func switchCampaign(ctx context.Context, a *cli.App, name, state string, do switchFunc) error {
	return a.WithBank(ctx, name, func(b *itembank.Operator) error {
		if err := do(b, ctx, name); err != nil {
			return err
		}
		return a.Print(map[string]string{"name": name, "state": state},
			fmt.Sprintf("%s is %s; running functions follow within %s", name, state, itembank.DefaultCampaignCache))
	})
}

type campaignList struct{}

func (campaignList) Help() string {
	return `A campaign that cannot be read, for example because a later version of oncebox made it, is named on stderr, and the exit
code is 4.

Example:
  oncebox campaign list`
}

func (c campaignList) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, "", func(b *itembank.Operator) error { return c.list(ctx, a, b) })
}

func (campaignList) list(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaigns, err := b.Campaigns(ctx)
	skipped, err := cli.SkipUnreadable(err)
	if err != nil {
		return err
	}
	list, err := withStates(ctx, b, campaigns)
	if err != nil {
		return err
	}
	return errors.Join(a.Print(list, describeList(list)), skipped)
}

// statesAtOnce is how many states campaign list reads at the same time.
const statesAtOnce = 8

// withStates reads the state of each campaign. It leaves out those that were deleted since they were listed.
func withStates(ctx context.Context, b *itembank.Operator, campaigns []itembank.Campaign) ([]campaignJSON, error) {
	list := make([]campaignJSON, len(campaigns))
	states, ctx := errgroup.WithContext(ctx)
	states.SetLimit(statesAtOnce)
	for i, c := range campaigns {
		states.Go(func() error {
			_, state, err := b.State(ctx, c.Name)
			if errors.Is(err, itembank.ErrTryAgain) { // many ended items make the proof of sold_out long
				state, err = c.StateAt(time.Now()), nil
			}
			if errors.Is(err, itembank.ErrNoCampaign) {
				return nil
			}
			list[i] = toCampaignJSON(c, state)
			return err
		})
	}
	err := states.Wait()
	return slices.DeleteFunc(list, func(c campaignJSON) bool { return c.Name == "" }), err
}

func describeList(list []campaignJSON) string {
	at := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return cli.TimeOr(*t, "-")
	}
	return cli.Table(func(row func(...string)) {
		row("NAME", "STATE", "SCOPE", "OPENS", "CLOSES", "ITEM LIFE", "CLAIM LIFE", "HOLD", "ON END")
		for _, c := range list {
			row(c.Name, string(c.State), c.Scope, at(c.OpensAt), at(c.ClosesAt),
				cmp.Or(c.ItemLife, "-"), cmp.Or(c.ClaimLife, "-"), cmp.Or(c.Hold, "-"), string(c.OnEnd))
		}
	})
}

func yesOr(yes bool, no string) string {
	if yes {
		return "yes"
	}
	return no
}

// campaignJSON is a campaign in results. Times are RFC 3339, lives are Go durations. An absent opens_at means at
// once, an absent closes_at or life means forever.
type campaignJSON struct {
	Name     string         `json:"name"`
	State    itembank.State `json:"state,omitempty"`
	Mode     string         `json:"mode"`           // by-times, open or closed: what decides the state
	Mark     string         `json:"mark,omitempty"` // moved, restored, or both; absent: none
	OpensAt  *time.Time     `json:"opens_at,omitempty"`
	ClosesAt *time.Time     `json:"closes_at,omitempty"`
	Scope    string         `json:"scope"`

	ClaimantAs  itembank.ClaimantAs `json:"claimant_as"`
	PerClaimant int                 `json:"per_claimant"`
	Choice      bool                `json:"choice"`
	MaxItems    int                 `json:"max_items"`
	Publish     bool                `json:"publish_items"`
	Columns     bool                `json:"columns"`

	Shards    int            `json:"shards"`
	PageSize  int            `json:"page_size"`
	ItemLife  string         `json:"item_life,omitempty"`
	ClaimLife string         `json:"claim_life,omitempty"`
	Hold      string         `json:"hold,omitempty"`     // absent: claims are not confirmed
	MaxHold   string         `json:"max_hold,omitempty"` // absent: holds are not prolonged
	OnEnd     itembank.OnEnd `json:"on_end"`
	CreatedAt time.Time      `json:"created_at"`
}

func toCampaignJSON(c itembank.Campaign, state itembank.State) campaignJSON {
	return campaignJSON{
		Name: c.Name, State: state, Mode: modeOf(c), Mark: markOf(c), OpensAt: cli.Optional(c.OpensAt), ClosesAt: cli.Optional(c.ClosesAt),
		Scope: c.Scope, ClaimantAs: c.ClaimantAs, PerClaimant: c.PerClaimant, Choice: c.Choice, MaxItems: c.MaxItems,
		Publish: c.Publish, Columns: c.Columns, Shards: c.Shards, PageSize: c.PageSize,
		ItemLife: cli.LifeOr(c.ItemLife, ""), ClaimLife: cli.LifeOr(c.ClaimLife, ""), Hold: cli.LifeOr(c.Hold, ""),
		MaxHold: cli.LifeOr(c.MaxHold, ""), OnEnd: c.OnEnd,
		CreatedAt: c.CreatedAt,
	}
}

// modeOf returns what decides whether a campaign is open: its times, or an operator.
func modeOf(c itembank.Campaign) string {
	if c.UntilReconciled {
		return "closed-until-reconciled"
	}
	return cmp.Or(string(c.Override), "by-times")
}

// markOf returns the marks of a campaign; "": it has none.
func markOf(c itembank.Campaign) string {
	switch {
	case c.Moved && c.Restored:
		return "moved, restored"
	case c.Moved:
		return "moved"
	case c.Restored:
		return "restored"
	}
	return ""
}
