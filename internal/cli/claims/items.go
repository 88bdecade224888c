package claims

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/claims/itemfile"
	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// itemFlags say how to read a file of items.
type itemFlags struct {
	Column *string `help:"Read CSV and take this column: a name from the first row, or a number from 1. With a number the first row is an item too." placeholder:"NAME|N" xor:"form"`
	Lines  bool    `help:"Every line is one item, also if the file looks like CSV." xor:"form"`
	Trim   bool    `help:"Remove white space around items, and invisible characters." xor:"text"`
	Raw    bool    `help:"Take items as they are, with white space around them and invisible characters." xor:"text"`
}

// isSet reports whether one of the flags was given.
func (f itemFlags) isSet() bool { return f.Column != nil || f.Lines || f.Trim || f.Raw }

func (f itemFlags) options() (o itemfile.Options, err error) {
	o = itemfile.Options{Lines: f.Lines, Trim: f.Trim, Raw: f.Raw}
	if f.Column == nil {
		return o, nil
	}
	if o.Column = *f.Column; o.Column == "" {
		err = cli.BadUsage(errors.New("--column is empty"), "Name a column, or leave the flag out if every line is one item.")
	}
	return o, err
}

// items are the items of a checked file.
type items struct {
	itembank.Source
	itemfile.Report
	remove func() // removes the temporary file
}

// openItems reads and checks a file of items, or stdin if the name is -. The items come with the columns in with.
// They are read several times, so stdin is first copied to a temporary file. Call remove after use.
func openItems(ctx context.Context, a *cli.App, file string, flags itemFlags, with ...string) (*items, error) {
	options, err := flags.options()
	if err != nil {
		return nil, err
	}
	options.With = with
	options.Table = slices.Contains([]string{".csv", ".tsv"}, strings.ToLower(filepath.Ext(file)))
	open, remove, err := cli.OpenItemFile(ctx, file, a.Stdin)
	if err != nil {
		return nil, err
	}
	report, err := itemfile.Check(ctx, open, options)
	if err != nil {
		remove()
		return nil, badItems(file, err)
	}
	if report.First == nil {
		remove()
		return nil, cli.BadUsage(fmt.Errorf("%s: holds no items", file), "")
	}
	if c := report.CaseOnly; c.Groups > 0 {
		a.Remark("warning: %s has %d groups of items that differ only in upper and lower case, such as lines %d and %d; "+
			"they are different items", file, c.Groups, c.First, c.Second)
	}
	return &items{itemfile.Source(open, options), report, remove}, nil
}

// badItems returns an error that names the wrong file, and advice.
func badItems(file string, err error) error {
	var hint string
	if bad, ok := errors.AsType[*itemfile.BadLinesError](err); ok {
		hint = "Nothing was changed."
		switch {
		case bad.Encoding:
			hint += " " + itemfile.EncodingAdvice
		case bad.Surplus:
			hint += " --trim removes white space and invisible characters, --raw takes items as they are."
		}
	}
	if !errors.Is(err, itembank.ErrInvalid) {
		return fmt.Errorf("%s: %w", file, err)
	}
	return cli.BadUsage(fmt.Errorf("%s: %w", file, err), hint)
}

// watched reports the progress of the second reading of a source. The first reading is a check, which finds the
// length of the source.
func watched(source itembank.Source, progress itembank.Progress) itembank.Source {
	if progress == nil {
		return source
	}
	var total int64
	checked := false
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			var done int64
			for line, err := range source() {
				if done++; checked {
					progress(done, total)
				}
				if !yield(line, err) {
					return
				}
			}
			total, checked = done, true
		}
	}
}
