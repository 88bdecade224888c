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
	Campaign string  `arg:"" help:"The campaign."`
	File     string  `arg:"" help:"One item a line, or CSV with --column; - is stdin."`
	Column   *string `help:"Read CSV and take this column: a name from the first row, or a number from 1, and then there is no first row of names." placeholder:"NAME|N"`
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
	if c.Column != nil && *c.Column == "" {
		return &usageError{errors.New("--column is empty: name a column, or leave it out if the file has one item a line"), ""}
	}
	open, remove, err := c.input(ctx, a.stdin)
	if err != nil {
		return err
	}
	defer remove()
	source := itemfile.Lines(open)
	if c.Column != nil {
		source = itemfile.CSV(open, *c.Column)
	}
	return a.withBank(ctx, func(b *itembank.Bank) error {
		return c.load(ctx, a, b, source)
	})
}

func (c loadCommand) load(ctx context.Context, a *app, b *itembank.Bank, source itembank.Source) error {
	report, err := b.Load(ctx, c.Campaign, source, a.progress("loading "+c.Campaign))
	switch {
	case err != nil && report.LoadID == "" && errors.Is(err, itembank.ErrInvalid):
		return fmt.Errorf("%s: %w; nothing was changed", c.File, err)
	case err != nil && report.LoadID == "":
		return err
	case errors.Is(err, itembank.ErrOvertaken): // the load is done all the same
	case err != nil:
		return &cutError{err, report.Rows}
	}
	if report.Resumed > 0 {
		a.remark("went on after %d lines that an earlier run had loaded", report.Resumed)
	}
	return errors.Join(err, a.print(report, fmt.Sprintf("added %d, known %d, repeated %d of %d lines",
		report.Added, report.Known, report.Repeated, report.Rows)))
}

// cutError says that a load stopped on its way.
type cutError struct {
	err  error
	rows int64
}

func (e *cutError) Error() string {
	if errors.Is(e.err, itembank.ErrDifference) {
		return fmt.Sprintf("after %d lines: %v", e.rows, e.err)
	}
	return fmt.Sprintf("after %d lines: %v; the same command goes on from there", e.rows, e.err)
}

func (e *cutError) Unwrap() error { return e.err }

// input returns how to open the file. Stdin is spooled to a temporary file,
// since a load reads its input twice.
func (c loadCommand) input(ctx context.Context, stdin io.Reader) (open itemfile.Open, remove func(), err error) {
	path, remove := c.File, func() {}
	if path == "-" {
		if path, err = spool(ctx, stdin); err != nil {
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

// spool copies a reader to a temporary file.
func spool(ctx context.Context, r io.Reader) (path string, err error) {
	file, err := os.CreateTemp("", "oncebox-load-*")
	if err != nil {
		return "", err
	}
	err = copyUntil(ctx, file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", errors.Join(err, os.Remove(file.Name()))
	}
	return file.Name(), nil
}

// copyUntil copies to the end of r, or until the context ends: a read of stdin
// cannot be interrupted, so what waits in it is left behind for the process to end.
func copyUntil(ctx context.Context, w io.Writer, r io.Reader) error {
	done := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, r)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
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
