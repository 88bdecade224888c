// Package itemfile reads the items of a load from a file: one item a line, or one column of a CSV file.
//
// Check reads the whole file and reports everything that is wrong with it. Then Source yields the items.
package itemfile

import (
	"context"
	"errors"
	"iter"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// Options say how to read a file. With the zero value each line is one item, without white space around it.
type Options struct {
	Column string // the column of a CSV file: a name from its first row, or a number from 1; "": one item a line
	Lines  bool   // one item a line even if the file looks like CSV
	Table  bool   // the name of the file says that it is CSV: without Column and Lines nothing is read
	Trim   bool   // removes white space around items, and invisible characters
	Raw    bool   // takes items as they are, with white space and invisible characters

	With []string // names of other columns to read unchanged from a CSV file, if Column is a name
}

// Source yields the items of a file. Blank lines are skipped. A bad line is an *itembank.LineError and ends the
// source.
func Source(open Open, o Options) itembank.Source {
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for line, err := range rows(open, o) {
				if err == nil {
					line.Item, err = o.clean(line)
				}
				if err == nil && line.Item == "" {
					continue
				}
				if !yield(line, err) || err != nil {
					return
				}
			}
		}
	}
}

// Lines is Source for one item a line.
func Lines(open Open) itembank.Source { return Source(open, Options{Lines: true}) }

// FirstItems is the number of items that a Report shows.
const FirstItems = 5

// Report holds the results of Check for a file without bad lines.
type Report struct {
	Blank    int64              // the number of skipped blank lines
	First    []string           // the first items
	Columns  []itembank.Columns // the columns of the first items, with Options.With
	CaseOnly CaseConflict       // items that differ only in upper and lower case
}

// Check reads a file to its end. Its memory does not grow with the file.
//
// It returns one of these errors:
//
//   - a *CSVError, if the file looks like CSV and the options do not say what to do;
//   - a *NotTextError;
//   - a *BadLinesError;
//   - an *itembank.InvalidError about the column;
//   - ctx.Err(), if ctx ends first;
//   - an error of reading the file.
func Check(ctx context.Context, open Open, o Options) (Report, error) {
	if o.Column == "" && !o.Lines {
		if err := refuseCSV(open, o.Table); err != nil {
			return Report{}, err
		}
	}
	if err := refuseName(open, o); err != nil {
		return Report{}, err
	}
	var report Report
	var bad BadLinesError
	var cases caseCheck
	for line, err := range rows(open, o) {
		if ctx.Err() != nil {
			return report, ctx.Err()
		}
		if err == nil {
			line.Item, err = o.clean(line)
		}
		wrong, isBad := errors.AsType[*itembank.LineError](err)
		switch {
		case isBad:
			bad.add(wrong)
		case err != nil:
			return report, err
		case line.Item == "":
			report.Blank++
		default:
			if len(report.First) < FirstItems {
				report.First = append(report.First, strings.Clone(line.Item))
				if len(o.With) > 0 {
					report.Columns = append(report.Columns, itembank.NewColumns(line.Columns...))
				}
			}
			cases.add(line)
		}
	}
	report.CaseOnly = cases.result()
	if bad.Total > 0 {
		return report, &bad
	}
	return report, nil
}
