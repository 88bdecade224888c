package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// print writes a result to stdout: the value as JSON, or the text.
func (a *app) print(value any, text string) error {
	if a.Output == outputJSON {
		return newEncoder(a.stdout).Encode(value)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// newEncoder returns an encoder of JSON that does not escape <, > and &, because the output is not HTML.
func newEncoder(to io.Writer) *json.Encoder {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
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
	Hold      string         `json:"hold,omitempty"` // absent: claims are not confirmed
	OnEnd     itembank.OnEnd `json:"on_end"`
	CreatedAt time.Time      `json:"created_at"`
}

func toCampaignJSON(c itembank.Campaign, state itembank.State) campaignJSON {
	return campaignJSON{
		Name: c.Name, State: state, Mode: modeOf(c), Mark: markOf(c), OpensAt: optional(c.OpensAt), ClosesAt: optional(c.ClosesAt),
		Scope: c.Scope, ClaimantAs: c.ClaimantAs, PerClaimant: c.PerClaimant, Choice: c.Choice, MaxItems: c.MaxItems,
		Publish: c.Publish, Columns: c.Columns, Shards: c.Shards, PageSize: c.PageSize,
		ItemLife: lifeOr(c.ItemLife, ""), ClaimLife: lifeOr(c.ClaimLife, ""), Hold: lifeOr(c.Hold, ""), OnEnd: c.OnEnd,
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

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// withCommas writes a number for people, such as 1,234,567.
func withCommas(number int64) string { return message.NewPrinter(language.English).Sprint(number) }
