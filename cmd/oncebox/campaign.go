package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

type campaignCommand struct {
	Create campaignCreate `cmd:"" help:"Create a campaign; open at once unless --opens is later."`
	Show   campaignShow   `cmd:"" help:"Show a campaign's settings and state."`
	Open   campaignOpen   `cmd:"" help:"Open a campaign now, whatever its times say."`
	Close  campaignClose  `cmd:"" help:"Close a campaign now, whatever its times say; claims stay with their holders."`
	List   campaignList   `cmd:"" help:"List all campaigns."`
}

type campaignCreate struct {
	Name     string    `arg:"" help:"a-z, 0-9 and -, at most 63 characters."`
	Opens    time.Time `help:"When claims begin (RFC 3339, as in 2027-03-01T09:00:00Z)." placeholder:"T"`
	Closes   time.Time `help:"When claims end." placeholder:"T"`
	Scope    string    `help:"Name space in which a claimant holds one claim; campaigns may share it. Fixed for good. Default: the campaign's name." placeholder:"S"`
	Shards   int       `help:"Parts of the bank; a DynamoDB partition takes about 500 claims a second. Fixed for good. Default: ${default}." default:"16" placeholder:"N"`
	PageSize int       `help:"Free items read at a time, at least; in a large bank up to 100. Default: ${default}." default:"30" placeholder:"N"`

	ItemLife  time.Duration  `help:"How long an item can be claimed after it was loaded, as in 720h; 0: for ever, the default. Fixed for good." placeholder:"D"`
	ClaimLife time.Duration  `help:"How long a claim lives; 0: for ever, the default. Fixed for good." placeholder:"D"`
	OnEnd     itembank.OnEnd `help:"What becomes of an item whose claim is released or has ended. burn: nobody gets it again, for codes that were seen; return: it goes back to the bank, for seats and places. Fixed for good. Default: ${default}." enum:"burn,return" default:"burn" placeholder:"burn|return"`
}

func (campaignCreate) Help() string {
	return `Safe to repeat with the same settings.

Examples:
  oncebox campaign create spring
  oncebox campaign create launch --opens 2027-03-01T09:00:00Z --closes 2027-03-02T00:00:00Z
  oncebox campaign create yoga-monday --scope spring-term --on-end return   # one booking a student in the term
  oncebox campaign create lockers --claim-life 24h --on-end return          # a locker for a day`
}

func (c campaignCreate) Run(ctx context.Context, a *app) error {
	if c.Shards == 0 || c.PageSize == 0 { // which the library takes for "not set"
		return &usageError{errors.New("--shards and --page-size must be at least 1"), ""}
	}
	return a.withBank(ctx, func(b *itembank.Bank) error {
		campaign, created, err := b.CreateCampaign(ctx, c.Name, itembank.Settings{
			OpensAt: c.Opens, ClosesAt: c.Closes, Scope: c.Scope, Shards: c.Shards, PageSize: c.PageSize,
			ItemLife: c.ItemLife, ClaimLife: c.ClaimLife, OnEnd: c.OnEnd,
		})
		if err != nil {
			return err
		}
		state := campaign.StateAt(time.Now())
		verb := "created"
		if !created {
			verb = "exists already, with the same settings:"
		}
		return a.print(toCampaignJSON(campaign, state), fmt.Sprintf("%s %s (%s)", verb, campaign.Name, state))
	})
}

type campaignShow struct {
	Name string `arg:"" help:"The campaign."`
}

func (c campaignShow) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, func(b *itembank.Bank) error {
		campaign, state, err := b.State(ctx, c.Name)
		if err != nil {
			return err
		}
		return a.print(toCampaignJSON(campaign, state), describe(campaign, state))
	})
}

func describe(c itembank.Campaign, state itembank.State) string {
	return table(func(row func(...string)) {
		row("name", c.Name)
		row("state", string(state))
		row("mode", modeOf(c))
		row("opens", timeOr(c.OpensAt, "at once"))
		row("closes", timeOr(c.ClosesAt, "never"))
		row("scope", c.Scope)
		row("shards", fmt.Sprint(c.Shards))
		row("page size", fmt.Sprint(c.PageSize))
		row("item life", lifeOr(c.ItemLife, "for ever"))
		row("claim life", lifeOr(c.ClaimLife, "for ever"))
		row("on end", string(c.OnEnd))
		row("created", timeOr(c.CreatedAt, "unknown"))
	})
}

type campaignOpen struct {
	Name string `arg:"" help:"The campaign."`
}

func (c campaignOpen) Run(ctx context.Context, a *app) error {
	return a.switchCampaign(ctx, c.Name, "open", (*itembank.Bank).OpenCampaign)
}

type campaignClose struct {
	Name string `arg:"" help:"The campaign."`
}

func (c campaignClose) Run(ctx context.Context, a *app) error {
	return a.switchCampaign(ctx, c.Name, "closed", (*itembank.Bank).CloseCampaign)
}

func (a *app) switchCampaign(ctx context.Context, name, state string, do func(*itembank.Bank, context.Context, string) error) error {
	return a.withBank(ctx, func(b *itembank.Bank) error {
		if err := do(b, ctx, name); err != nil {
			return err
		}
		return a.print(map[string]string{"name": name, "state": state},
			fmt.Sprintf("%s is %s; running containers obey within %s", name, state, itembank.DefaultCampaignCache))
	})
}

type campaignList struct{}

func (campaignList) Run(ctx context.Context, a *app) error {
	return a.withBank(ctx, func(b *itembank.Bank) error {
		campaigns, err := b.Campaigns(ctx)
		if err != nil {
			return err
		}
		now := time.Now()
		list := make([]campaignJSON, 0, len(campaigns))
		text := table(func(row func(...string)) {
			row("NAME", "STATE", "SCOPE", "OPENS", "CLOSES", "ITEM LIFE", "CLAIM LIFE", "ON END")
			for _, c := range campaigns {
				list = append(list, toCampaignJSON(c, c.StateAt(now)))
				row(c.Name, string(c.StateAt(now)), c.Scope, timeOr(c.OpensAt, "-"), timeOr(c.ClosesAt, "-"),
					lifeOr(c.ItemLife, "-"), lifeOr(c.ClaimLife, "-"), string(c.OnEnd))
			}
		})
		return a.print(list, text)
	})
}

// table lines up columns.
func table(fill func(row func(...string))) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) })
	_ = w.Flush() // a strings.Builder takes everything
	return strings.TrimSuffix(text.String(), "\n")
}

func timeOr(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.Format(time.RFC3339)
}

// lifeOr writes a life as people do: 24h, not 24h0m0s.
func lifeOr(d time.Duration, zero string) string {
	if d == 0 {
		return zero
	}
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}
