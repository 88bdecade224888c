package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type campaignSet struct {
	Name     string        `arg:"" help:"The campaign."`
	Opens    *cli.OpenTime `help:"When claims begin: now, or a time: ${times}." placeholder:"T|now"`
	Closes   *cli.EndTime  `help:"When claims end: never, or a time. A time in the past ends the campaign now." placeholder:"T|never"`
	PageSize *int          `help:"Free items read at a time, at least: 1 to 1000." placeholder:"N"`
	ByTimes  bool          `help:"Let --opens and --closes decide again, after campaign open or campaign close."`

	Scope     *string `hidden:""`
	Shards    *string `hidden:""`
	ItemLife  *string `hidden:""`
	ClaimLife *string `hidden:""`
	Hold      *string `hidden:""`
	MaxHold   *string `hidden:""`
	OnEnd     *string `hidden:""`

	ClaimantAs   *string `hidden:""`
	PerClaimant  *string `hidden:""`
	Choice       *bool   `hidden:""`
	MaxItems     *string `hidden:""`
	PublishItems *bool   `hidden:""`
	Columns      *bool   `hidden:""`
}

func (campaignSet) Help() string {
	return fmt.Sprintf(`Changes only the settings that are named, and prints all. Running functions follow within %s. Loads may go on meanwhile. If another
operator changes the campaign at the same time, nothing is changed and the exit code is 3.

After campaign open or campaign close, the times decide nothing until --by-times.

These settings are fixed when a campaign is created, and cannot be changed:

%s

A campaign that was never loaded can be deleted, and created again with other settings. --claimant-as, and whether
there are several slots, stay fixed with the scope: name another --scope for these.

Examples:
  oncebox campaign set spring --closes "2027-04-01 18:00 Europe/Berlin"
  oncebox campaign set spring --opens now --closes never
  oncebox campaign set spring --by-times`, itembank.DefaultCampaignCache, describeFixed())
}

// fixedSettings are the settings that cannot be changed.
var fixedSettings = []struct {
	flag, why string
	given     func(campaignSet) bool
}{
	{
		"--scope", "claims are stored under the scope: every claimant would be new, and could claim again",
		func(c campaignSet) bool { return c.Scope != nil },
	},
	{
		"--shards", "items are stored in their shards: functions would look for them elsewhere",
		func(c campaignSet) bool { return c.Shards != nil },
	},
	{
		"--item-life", "it is stored with each item when it is loaded",
		func(c campaignSet) bool { return c.ItemLife != nil },
	},
	{
		"--claim-life", "it is stored with each claim when it is made",
		func(c campaignSet) bool { return c.ClaimLife != nil },
	},
	{
		"--hold", "claims are stored with it or without it, and confirmed accordingly",
		func(c campaignSet) bool { return c.Hold != nil },
	},
	{
		"--max-hold", "claimants were told how long they can keep their items",
		func(c campaignSet) bool { return c.MaxHold != nil },
	},
	{
		"--on-end", "claimants were told whether their item can go to another claimant",
		func(c campaignSet) bool { return c.OnEnd != nil },
	},
	{
		"--claimant-as", "claims are stored under the claimants as it has them: others would be new, and could claim again",
		func(c campaignSet) bool { return c.ClaimantAs != nil },
	},
	{
		"--per-claimant", "fewer slots would hide claims, and a campaign with several slots must be alone in its scope",
		func(c campaignSet) bool { return c.PerClaimant != nil },
	},
	{
		"--choice", "with it codes could be guessed, and without it claims with several items would be counted wrongly",
		func(c campaignSet) bool { return c.Choice != nil },
	},
	{
		"--max-items", "claimants were told how many items they can have",
		func(c campaignSet) bool { return c.MaxItems != nil },
	},
	{
		"--publish-items", "published items cannot be made secret again",
		func(c campaignSet) bool { return c.PublishItems != nil },
	},
	{
		"--columns", "functions would answer without them for a while",
		func(c campaignSet) bool { return c.Columns != nil },
	},
}

func describeFixed() string {
	return cli.Table(func(row func(...string)) {
		for _, fixed := range fixedSettings {
			row("  "+fixed.flag, fixed.why)
		}
	})
}

func (c campaignSet) Run(ctx context.Context, a *cli.App) error {
	if err := c.check(); err != nil {
		return err
	}
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error { return c.set(ctx, a, b) })
}

// check refuses settings that cannot be changed, and a command that changes nothing.
func (c campaignSet) check() error {
	for _, fixed := range fixedSettings {
		if fixed.given(c) {
			return cli.BadUsage(
				fmt.Errorf("%s is fixed when a campaign is created: %s; nothing was changed", fixed.flag, fixed.why),
				fmt.Sprintf("If nothing was loaded yet: `oncebox campaign delete %s`, and create it again. Else create another campaign.", c.Name),
			)
		}
	}
	if c.Opens == nil && c.Closes == nil && c.PageSize == nil && !c.ByTimes {
		return cli.BadUsage(errors.New("there is nothing to change"), "Name a setting: --opens, --closes, --page-size or --by-times.")
	}
	return nil
}

func (c campaignSet) set(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.ChangeCampaign(ctx, c.Name, itembank.CampaignChange{
		OpensAt: (*time.Time)(c.Opens), ClosesAt: (*time.Time)(c.Closes), PageSize: c.PageSize, ByTimes: c.ByTimes,
	})
	invalid, ok := errors.AsType[*itembank.InvalidError](err)
	switch {
	case ok && invalid.Field != "campaign":
		return cli.BadUsage(fmt.Errorf("--%s: %s", invalid.Field, cli.WithFlags(invalid.Detail)), "Nothing was changed.")
	case err != nil:
		return changedHint(c.Name, err)
	}
	if campaign.Override != "" && (c.Opens != nil || c.Closes != nil) {
		a.Remark("the times decide nothing now: %s was set to %s by hand; --by-times takes that back", c.Name, campaign.Override)
	}
	state := campaign.StateAt(time.Now())
	return a.Print(toCampaignJSON(campaign, state),
		describe(campaign, state, c.understood)+fmt.Sprintf("\nrunning functions follow within %s", itembank.DefaultCampaignCache))
}

// understood writes a time of the campaign, with what the user typed.
func (c campaignSet) understood(t time.Time, zero string) string {
	for _, typed := range []*time.Time{(*time.Time)(c.Opens), (*time.Time)(c.Closes)} {
		if typed != nil && !t.IsZero() && typed.Truncate(time.Millisecond).Equal(t) {
			return cli.Understood(*typed)
		}
	}
	return cli.TimeOr(t, zero)
}

// changedHint says what to do if another operator changed a campaign during a command. Other errors stay as they are.
func changedHint(name string, err error) error {
	if !errors.Is(err, itembank.ErrChanged) {
		return err
	}
	hint := fmt.Sprintf("They may have closed it or changed its settings. `oncebox campaign show %s` shows both. "+
		"If your command is still right, repeat it.", name)
	return cli.WithHint(fmt.Errorf("%s: %w", name, err), hint)
}

type campaignDelete struct {
	Name string `arg:"" help:"The campaign."`
}

func (campaignDelete) Help() string {
	return fmt.Sprintf(`Deletes a campaign that was never loaded, with its page. Its name can be used again %.0f seconds later, when no
function uses the old settings any more.

A campaign that was ever loaded is never deleted: a claim may be under way at any moment, and claims whose campaign is
gone could be neither released nor swept. Then the exit code is 3 and nothing is changed. Retire it: close it, let its
claims end or keep them, and withdraw its free items. Its name stays.

It counts the rows of the campaign and the claims of its scope. On DynamoDB that is at least 784 read units.

Examples:
  oncebox campaign delete sprnig
  oncebox campaign close spring && oncebox withdraw spring --all --yes   # instead, once it was loaded`, itembank.DrainTime.Seconds())
}

func (c campaignDelete) Run(ctx context.Context, a *cli.App) error {
	return a.WithBank(ctx, c.Name, func(b *itembank.Operator) error {
		err := b.DeleteCampaign(ctx, c.Name)
		if errors.Is(err, itembank.ErrLoaded) {
			hint := fmt.Sprintf("Retire it: `oncebox campaign close %s`, let its claims end or keep them, then `oncebox withdraw %s --all --yes`.", c.Name, c.Name)
			return cli.WithHint(fmt.Errorf("%s: %w; nothing was changed", c.Name, err), hint)
		}
		if err != nil {
			return changedHint(c.Name, err)
		}
		return a.Print(map[string]string{"name": c.Name, "state": "deleted"},
			fmt.Sprintf("%s is deleted; its name can be used again in %.0f seconds", c.Name, itembank.DrainTime.Seconds()))
	})
}
