package claims

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type statusCommand struct {
	Campaign   string `arg:"" help:"The campaign."`
	Consistent bool   `help:"Count with strongly consistent reads, at twice the price."`
	Below      *int64 `help:"End with exit code 4 if fewer items are free, at least 1." placeholder:"N"`

	Watch bool          `help:"Print a line now and then: free and claimed items, claims a second, and when the campaign will be sold out."`
	Every time.Duration `help:"With --watch: the time between two lines, at least 1s. Default: ${default}." default:"10s" placeholder:"D"`
}

func (statusCommand) Help() string {
	return `Counts the rows in the store, so it takes as long as reading the campaign. At rest loaded = free + claimed +
ended. While claims are made, the numbers belong to slightly different moments.

A load that is running or was stopped is printed with its id, the lines that are done at least, and when it was started.
"oncebox load --give-up" ends a load whose file will not be loaded again. A repair or a replay that adds items is printed
in the same way.

--below 100 is for a job that asks now and then: the exit code is 4 if fewer than 100 items are free, and 0 otherwise.
The answer is the same each time while that lasts.

On DynamoDB the numbers may miss the last seconds. --consistent counts exactly, at twice the price.

--watch prints a line every 10 seconds until it is interrupted; then the exit code is 130. On a terminal the line is
replaced by the next one. The rate is measured over the last ten lines: items that left the bank, less items that came
back. With --output json each line is an object.

On SQLite each line counts all rows, as status does. So does it on DynamoDB in a campaign of up to 20,000 items: at most
about 1,000 read units. In a larger one the first line does, and each later line reads 4,000 free items, about 120 read
units. Then the numbers are estimates, which ~ marks: mostly within 15 % of the free items, or 30 % with 256 shards. So
the claimed items, which are those that were loaded and are neither free nor ended, are far off while few are claimed.
The rate compares estimates that read the same places. Loaded and ended items are counted when the command begins, so
start it again after a load.

Examples:
  oncebox status spring
  oncebox status spring --consistent
  oncebox status spring --below 100
  oncebox status spring --watch --every 1m
  oncebox --output json status spring --watch > spring.ndjson`
}

func (c statusCommand) Run(ctx context.Context, a *cli.App) error {
	if err := c.checkBelow(); err != nil {
		return err
	}
	if c.Watch {
		if err := c.checkWatch(); err != nil {
			return err
		}
		return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.watch(ctx, a, b) })
	}
	return a.WithBank(ctx, c.Campaign, func(b *itembank.Operator) error { return c.status(ctx, a, b) })
}

func (c statusCommand) checkBelow() error {
	switch {
	case c.Below == nil:
		return nil
	case c.Watch:
		return cli.BadUsage(errors.New("--below cannot be used with --watch"), "")
	case *c.Below < 1:
		return cli.BadUsage(fmt.Errorf("--below %d: must be at least 1", *c.Below), "")
	}
	return nil
}

// stateByCounts returns the state of a campaign whose items were counted.
func stateByCounts(state itembank.State, counts itembank.Counts) itembank.State {
	switch {
	case state != itembank.Open || counts.Free > 0:
		return state
	case counts.Loaded == 0:
		return itembank.Empty
	}
	return itembank.SoldOut
}

// statusJSON is the result of status.
type statusJSON struct {
	Campaign string         `json:"campaign"`
	State    itembank.State `json:"state"`
	Mark     string         `json:"mark,omitempty"` // moved, restored, or both; absent: none
	itembank.Counts
	UnfinishedLoads []itembank.UnfinishedLoad `json:"unfinished_loads,omitempty"`
}

func (c statusCommand) status(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	campaign, err := b.Campaign(ctx, c.Campaign)
	if err != nil {
		return err
	}
	count := b.Counts
	if c.Consistent {
		count = b.ConsistentCounts
	}
	counts, err := count(ctx, c.Campaign)
	if err != nil {
		return err
	}
	state := stateByCounts(campaign.StateAt(time.Now()), counts)
	loads, err := b.UnfinishedLoads(ctx, c.Campaign)
	if err != nil {
		return err
	}
	for _, l := range loads {
		a.Remark("%s", adviceAbout(c.Campaign, l))
	}
	err = a.Print(statusJSON{c.Campaign, state, markOf(campaign), counts, loads}, cli.Table(func(row func(...string)) {
		row("state", string(state))
		if mark := markOf(campaign); mark != "" {
			row("mark", mark)
		}
		row("loaded", fmt.Sprint(counts.Loaded))
		row("free", fmt.Sprint(counts.Free))
		row("claimed", fmt.Sprint(counts.Claimed))
		row("ended", fmt.Sprint(counts.Ended))
		for _, l := range loads {
			row("unfinished load", describeUnfinished(l))
		}
	}))
	if err == nil && c.Below != nil && counts.Free < *c.Below {
		err = fmt.Errorf("%w: %s has %s, below %d", cli.ErrLook, c.Campaign, cli.Quantity(counts.Free, "free item"), *c.Below)
	}
	return err
}

// adviceAbout says what to do about an unfinished load. Its items may be added by a load, a repair or a replay.
func adviceAbout(campaign string, l itembank.UnfinishedLoad) string {
	end := giveUpCommand(campaign, l.LoadID)
	const again = "a %s that adds items is unfinished: if it was stopped, run `%s` again, or end it with `%s`"
	switch {
	case l.GivenUp:
		return fmt.Sprintf("a %s is to be given up, and that is not over: repeat `%s`", l.By, end)
	case l.By == "repair":
		return fmt.Sprintf(again, l.By, "oncebox reconcile "+campaign+" --repair", end)
	case l.By == "replay":
		return fmt.Sprintf(again, l.By, "oncebox replay "+campaign+" --from ...", end)
	}
	const form = "a load is unfinished: load its file again to finish it; if the file was wrong, `%s` ends the load"
	return fmt.Sprintf(form, end)
}

// describeUnfinished writes an unfinished load in one line.
func describeUnfinished(l itembank.UnfinishedLoad) string {
	text := l.LoadID
	if l.By == "load" {
		text += fmt.Sprintf(", %s done", cli.Quantity(l.Rows, "line"))
	}
	text += ", started " + cli.TimeOr(l.StartedAt, "at an unknown time")
	if l.GivenUp {
		text += ", to be given up"
	}
	return text
}
