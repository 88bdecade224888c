package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/shared/pause"
	"github.com/oncebox/oncebox/pkg/itembank"
)

const (
	shortestEvery = time.Second
	// mostCounted is the largest number of items of a campaign for which each line counts all rows. An item has at
	// most three rows, and an eventually consistent read unit reads about 40 rows.
	mostCounted = 20_000
	// rateLines is the number of lines from which the rate is calculated.
	rateLines = 10
)

func (c statusCommand) checkWatch() error {
	switch {
	case c.Consistent:
		return cli.BadUsage(errors.New("--consistent cannot be used with --watch"), "")
	case c.Every < shortestEvery:
		return cli.BadUsage(fmt.Errorf("--every %s: must be at least %s", c.Every, shortestEvery), "")
	}
	return nil
}

// watchLine is a line of status --watch.
type watchLine struct {
	At              time.Time      `json:"at"`
	Campaign        string         `json:"campaign"`
	State           itembank.State `json:"state"`
	Free            int64          `json:"free"`
	Claimed         int64          `json:"claimed"`
	Estimated       bool           `json:"estimated"`
	ClaimsPerSecond *float64       `json:"claims_per_second"`     // null in the first line, and in the first with estimates
	SoldOutAt       *time.Time     `json:"sold_out_at,omitempty"` // absent: not at this rate
}

func (l watchLine) String() string {
	about := ""
	if l.Estimated {
		about = "~"
	}
	text := fmt.Sprintf("%s  %s  free %s%d  claimed %s%d", l.At.Format(time.TimeOnly), l.State, about, l.Free, about, l.Claimed)
	if l.ClaimsPerSecond != nil {
		text += fmt.Sprintf("  claims/s %s%.1f", about, *l.ClaimsPerSecond)
	}
	if l.SoldOutAt != nil {
		text += "  sold out at " + l.SoldOutAt.Format(time.RFC3339)
	}
	return text
}

// watcher makes the lines of status --watch.
type watcher struct {
	bank     *itembank.Operator
	campaign string
	all      bool            // each line counts all rows
	counts   itembank.Counts // the latest counts
	seen     []seenCount     // the last lines, the oldest first
}

// seenCount is the number of items that had left the bank at a moment.
type seenCount struct {
	at        time.Time
	left      int64
	estimated bool
}

func (c statusCommand) watch(ctx context.Context, a *cli.App, b *itembank.Operator) error {
	w := &watcher{bank: b, campaign: c.Campaign, all: a.Store != cli.DynamoDBStore} // a file costs nothing to read
	onTerminal := a.Output != cli.OutputJSON && cli.IsTerminal(a.Stdout)
	for first := true; ; first = false {
		line, err := w.line(ctx, first, time.Now())
		switch {
		case err == nil && onTerminal:
			_, err = fmt.Fprintf(a.Stdout, "\r\x1b[K%s", line)
		case err == nil:
			err = a.Print(line, line.String())
		case !first && errors.Is(err, itembank.ErrTryAgain) && ctx.Err() == nil:
			if onTerminal {
				fmt.Fprintln(a.Stdout)
			}
			why, _ := cli.DescribeError(err, cli.ExitFailed)
			a.Remark("not counted: %s", why) // the next line may succeed
			err = nil
		}
		if err == nil {
			err = pause.For(ctx, c.Every)
		}
		if err == nil {
			continue
		}
		if onTerminal && !first {
			fmt.Fprintln(a.Stdout)
		}
		return err
	}
}

// line counts the items and returns a line. In a large campaign only the first line counts all rows, unless all do.
func (w *watcher) line(ctx context.Context, first bool, now time.Time) (line watchLine, err error) {
	c, err := w.bank.Campaign(ctx, w.campaign)
	if err != nil {
		return line, err
	}
	line = watchLine{At: now.UTC().Truncate(time.Second), Campaign: w.campaign}
	if first || w.all || w.counts.Loaded <= mostCounted {
		w.counts, err = w.bank.Counts(ctx, w.campaign)
	} else {
		var free itembank.FreeCount
		free, err = w.bank.CountFree(ctx, w.campaign)
		w.counts.Free, line.Estimated = free.Items+free.Expired, !free.Exact // because Counts includes expired items
		w.counts.Claimed = max(w.counts.Loaded-w.counts.Free-w.counts.Ended, 0)
	}
	if err != nil {
		return line, err
	}
	line.Free, line.Claimed, line.State = w.counts.Free, w.counts.Claimed, stateByCounts(c.StateAt(now), w.counts)
	if rate, ok := w.rate(seenCount{now, w.counts.Loaded - w.counts.Free, line.Estimated}); ok {
		line.ClaimsPerSecond = &rate
		if seconds := float64(line.Free) / rate; rate > 0 && line.Free > 0 && seconds < maxForecast.Seconds() {
			at := line.At.Add(time.Duration(seconds * float64(time.Second))).Truncate(time.Second)
			line.SoldOutAt = &at
		}
	}
	return line, nil
}

// maxForecast is the longest forecast of the time when a campaign is sold out.
const maxForecast = 366 * 24 * time.Hour

// rate adds a count and returns the number of items a second that have left the bank. It compares estimates only with
// estimates, because all of them miss the same items.
func (w *watcher) rate(now seenCount) (perSecond float64, ok bool) {
	w.seen = slices.DeleteFunc(w.seen, func(s seenCount) bool { return s.estimated != now.estimated })
	w.seen = append(w.seen, now)
	w.seen = w.seen[max(len(w.seen)-rateLines-1, 0):]
	oldest := w.seen[0]
	took := now.at.Sub(oldest.at).Seconds()
	if took <= 0 {
		return 0, false
	}
	return max(float64(now.left-oldest.left)/took, 0), true
}
