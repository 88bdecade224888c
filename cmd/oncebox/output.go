package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// print writes a result to stdout: the value as JSON, or the text.
func (a *app) print(value any, text string) error {
	if a.Output == "json" {
		encoder := json.NewEncoder(a.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// counting shows on a terminal how many of what are done, and how fast, where nobody
// knows how many there are. Call over when it is over. Elsewhere it shows nothing.
func (a *app) counting(doing, what string) (progress itembank.Progress, over func()) {
	if !a.showsProgress() {
		return nil, func() {}
	}
	bar := a.bar(-1, doing, progressbar.OptionShowCount(), progressbar.OptionShowTotalBytes(false),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString(what), progressbar.OptionSetSpinnerChangeInterval(0))
	// A bar that cannot be drawn is no reason to stop.
	return func(done, _ int64) { _ = bar.Set64(done) }, func() { _ = bar.Finish() }
}

// showsProgress reports that somebody watches.
func (a *app) showsProgress() bool { return !a.Quiet && isTerminal(a.stderr) }

// bar is a progress bar that is gone when it is full.
func (a *app) bar(total int64, doing string, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(doing),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(),
	}, options...)...)
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// campaignJSON is a campaign in results. Times are RFC 3339, lives Go durations;
// absent means never, at once, or for ever.
type campaignJSON struct {
	Name      string         `json:"name"`
	State     itembank.State `json:"state,omitempty"`
	Mode      string         `json:"mode"` // by-times, open or closed: what decides the state
	OpensAt   *time.Time     `json:"opens_at,omitempty"`
	ClosesAt  *time.Time     `json:"closes_at,omitempty"`
	Scope     string         `json:"scope"`
	Shards    int            `json:"shards"`
	PageSize  int            `json:"page_size"`
	ItemLife  string         `json:"item_life,omitempty"`
	ClaimLife string         `json:"claim_life,omitempty"`
	OnEnd     itembank.OnEnd `json:"on_end"`
	CreatedAt time.Time      `json:"created_at"`
}

func toCampaignJSON(c itembank.Campaign, state itembank.State) campaignJSON {
	return campaignJSON{
		Name: c.Name, State: state, Mode: modeOf(c), OpensAt: optional(c.OpensAt), ClosesAt: optional(c.ClosesAt),
		Scope: c.Scope, Shards: c.Shards, PageSize: c.PageSize,
		ItemLife: lifeOr(c.ItemLife, ""), ClaimLife: lifeOr(c.ClaimLife, ""), OnEnd: c.OnEnd,
		CreatedAt: c.CreatedAt,
	}
}

// modeOf says what decides whether a campaign is open: its times, or an operator.
func modeOf(c itembank.Campaign) string {
	return cmp.Or(string(c.Override), "by-times")
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
