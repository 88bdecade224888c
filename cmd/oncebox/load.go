package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/oncebox/oncebox/internal/itemfile"
	"github.com/oncebox/oncebox/pkg/itembank"
)

type loadCommand struct {
	Campaign string `arg:"" help:"The campaign."`
	File     string `arg:"" help:"One item a line, or CSV with --column; - is stdin."`
	Column   string `help:"Read CSV and take this column: a name from the first row, or a number from 1, and then there is no first row of names." placeholder:"NAME|N"`
}

func (loadCommand) Help() string {
	return `The whole file is checked first: one bad line, and nothing is changed (exit
code 2). Empty lines are skipped. A load that was cut goes on where it was when the
same items are loaded again; items that the campaign knows are not added again,
also if they are claimed. Any number of loads may run at once.

Prints how many lines were added, known from another load, or repeated in this one.

Examples:
  oncebox load spring codes.txt
  oncebox load spring codes.csv --column code
  zcat codes.gz | oncebox load spring -`
}

func (c loadCommand) Run(ctx context.Context, a *app) error {
	open, remove, err := c.input(a.stdin)
	if err != nil {
		return err
	}
	defer remove()
	source := itemfile.Lines(open)
	if c.Column != "" {
		source = itemfile.CSV(open, c.Column)
	}
	return a.withBank(ctx, func(b *itembank.Bank) error {
		return c.load(ctx, a, b, source)
	})
}

func (c loadCommand) load(ctx context.Context, a *app, b *itembank.Bank, source itembank.Source) error {
	report, err := b.Load(ctx, c.Campaign, source, a.progress("loading "+c.Campaign))
	var line *itembank.LineError
	switch {
	case errors.As(err, &line), errors.Is(err, itembank.ErrInvalid):
		return fmt.Errorf("%s: %w; nothing was changed", c.File, err)
	case err != nil && report.LoadID == "":
		return err
	case err != nil:
		return fmt.Errorf("after %d lines: %w; the same command goes on from there", report.Rows, err)
	}
	if report.Resumed > 0 {
		a.remark("went on after %d lines that an earlier run had loaded", report.Resumed)
	}
	return a.print(report, fmt.Sprintf("added %d, known %d, repeated %d of %d lines", report.Added, report.Known, report.Repeated, report.Rows))
}

// input returns how to open the file. Stdin is spooled to a temporary file,
// since a load reads its input twice.
func (c loadCommand) input(stdin io.Reader) (open itemfile.Open, remove func(), err error) {
	path, remove := c.File, func() {}
	if path == "-" {
		if path, err = spool(stdin); err != nil {
			return nil, nil, fmt.Errorf("spool stdin: %w", err)
		}
		remove = func() { _ = os.Remove(path) }
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, &usageError{err, ""}
	case info.IsDir():
		return nil, nil, &usageError{fmt.Errorf("%s is a directory, not a file of items", path), ""}
	case path == c.File && !info.Mode().IsRegular():
		return nil, nil, &usageError{fmt.Errorf("%s is not a regular file; pipe it in as -", path), ""}
	}
	return func() (io.ReadCloser, error) { return os.Open(path) }, remove, nil
}

func spool(r io.Reader) (path string, err error) {
	file, err := os.CreateTemp("", "oncebox-load-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// progress draws a bar on a terminal, and nothing elsewhere.
func (a *app) progress(what string) itembank.LoadProgress {
	file, ok := a.stderr.(*os.File)
	if a.Quiet || !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	var bar *progressbar.ProgressBar
	return func(done, total int64) {
		if bar == nil {
			bar = progressbar.NewOptions64(total, progressbar.OptionSetWriter(file), progressbar.OptionSetDescription(what),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionSetItsString("lines"),
				progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = bar.Set64(done) // a bar that cannot be drawn is no reason to stop
	}
}
