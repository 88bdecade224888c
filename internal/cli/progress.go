package cli

import (
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// ShowsProgress reports whether stderr is a terminal and progress is wanted.
func (a *App) ShowsProgress() bool { return !a.Quiet && IsTerminal(a.Stderr) }

// Bar is a progress bar that disappears when it is full.
func (a *App) Bar(total int64, doing string, options ...progressbar.Option) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total, append([]progressbar.Option{
		progressbar.OptionSetWriter(a.Stderr), progressbar.OptionSetDescription(doing),
		progressbar.OptionThrottle(100 * time.Millisecond), progressbar.OptionClearOnFinish(),
	}, options...)...)
}

// Counting shows on a terminal how much is done and how fast, for a total that is not known. Call finish at the end.
// If stderr is not a terminal, it shows nothing.
func (a *App) Counting(doing, what string) (progress itembank.Progress, finish func()) {
	if !a.ShowsProgress() {
		return nil, func() {}
	}
	bar := a.Bar(-1, doing, progressbar.OptionShowCount(), progressbar.OptionShowTotalBytes(false),
		progressbar.OptionShowIts(), progressbar.OptionSetItsString(what), progressbar.OptionSetSpinnerChangeInterval(0))
	// The work goes on if the bar cannot be drawn.
	return func(done, _ int64) { _ = bar.Set64(done) }, func() { _ = bar.Finish() }
}

// Progress draws a bar of lines on a terminal. If stderr is not a terminal, it draws nothing.
func (a *App) Progress(what string) itembank.Progress {
	if !a.ShowsProgress() {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		if bar == nil {
			bar = a.Bar(total, what, progressbar.OptionShowCount(), progressbar.OptionShowIts(),
				progressbar.OptionSetItsString("lines"))
			bar.StartWithoutRender()
		}
		if done > 0 { // only then is there a rate
			_ = bar.Set64(done) // the work goes on if the bar cannot be drawn
		}
	}
}
