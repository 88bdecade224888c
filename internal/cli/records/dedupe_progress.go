package records

import (
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/offline"
)

// runProgress draws a bar for each pass over the inputs on a terminal, with the bytes and the lines a second, and the
// remaining time. If stderr is not a terminal, it draws nothing. Call finish at the end, even after an error.
func runProgress(a *cli.App, now func() time.Time) (progress func(offline.Progress), finish func()) {
	if !a.ShowsProgress() {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	finish = func() {
		if bar != nil {
			_ = bar.Clear() // the work is done, even if drawing failed
		}
	}
	var first offline.Progress // of a pass: the work of earlier runs would make the rates too high
	var begun time.Time
	return func(p offline.Progress) {
		if bar == nil || first.Doing != p.Doing {
			finish()
			first, begun = p, now()
			total := p.Total
			if total != offline.Unknown {
				total -= p.Bytes
			}
			bar = a.Bar(total, p.Doing, progressbar.OptionShowBytes(true))
		}
		if perSecond := linesPerSecond(p.Lines-first.Lines, now().Sub(begun)); perSecond > 0 {
			bar.Describe(fmt.Sprintf("%s, %s lines/s", p.Doing, cli.WithCommas(perSecond)))
		}
		_ = bar.Set64(p.Bytes - first.Bytes) // the work goes on if the bar cannot be drawn
	}, finish
}

func linesPerSecond(lines int64, d time.Duration) int64 {
	return int64(float64(lines) / max(d, time.Millisecond).Seconds())
}
