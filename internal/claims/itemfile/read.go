package itemfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Open opens the file at its beginning. A load reads it several times.
type Open func() (io.ReadCloser, error)

// These limit the memory for one line and for one CSV row. Both are far above the largest item. A quote that is not
// closed turns the rest of the file into one row.
const (
	maxLine = 64 << 10
	maxRow  = 1 << 20
)

// errStopped says that the reader of the lines has stopped.
var errStopped = errors.New("stopped")

// rows yields the lines of a file, or the cells of a column of a CSV file, unchanged. An *itembank.LineError is about
// one line; the lines after it follow, if they can be read. Any other error ends the rows.
func rows(open Open, o Options) iter.Seq2[itembank.Line, error] {
	return func(yield func(itembank.Line, error) bool) {
		file, err := open()
		if err != nil {
			yield(itembank.Line{}, err)
			return
		}
		defer func() { _ = file.Close() }() // the file was only read
		r, err := textOf(file)
		switch {
		case err != nil:
		case o.Column == "":
			err = lines(r, yield)
		default:
			err = cells(open, r, o, yield)
		}
		if err != nil && !errors.Is(err, errStopped) {
			yield(itembank.Line{}, err)
		}
	}
}

// lines yields each line without its end (\n or \r\n), including empty lines.
func lines(r *bufio.Reader, yield func(itembank.Line, error) bool) error {
	for n := int64(1); ; n++ {
		line, err := r.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return badLine(n, fmt.Sprintf("is longer than %d bytes, an item has at most %d", maxLine, engine.MaxItem))
		case err != nil && !last:
			return fmt.Errorf("line %d: %w", n, err)
		case last && len(line) == 0:
			return nil
		}
		if !yield(itembank.Line{Number: n, Item: withoutEnd(line)}, nil) {
			return errStopped
		}
	}
}

// withoutEnd removes \n or \r\n from the end of a line.
func withoutEnd(line []byte) string {
	if cut, ok := bytes.CutSuffix(line, []byte("\n")); ok {
		line, _ = bytes.CutSuffix(cut, []byte("\r"))
	}
	return string(line)
}

// cells yields one column of a CSV file (RFC 4180). The csv package skips empty rows.
func cells(open Open, r io.Reader, o Options, yield func(itembank.Line, error) bool) error {
	separator, err := Separator(open, o.Column)
	if err != nil {
		return err
	}
	t := newTable(r, separator)
	index, header, err := columnIndex(t, o.Column)
	if err != nil {
		return err
	}
	with, err := withIndexes(header, index, o)
	if err != nil {
		return err
	}
	for {
		record, err := t.row()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line := itembank.Line{Number: int64(t.last)}
		switch {
		case len(record) == 1 && o.isBlank(record[0]):
		case header != nil && o.hasMore(record, len(header)): // an item with a separator would be cut
			const detail = "has %d columns, the first row names %d: put items and cells with a separator in quotes"
			err = badLine(line.Number, fmt.Sprintf(detail, len(record), len(header)))
		case index < len(record):
			line.Item = strings.Clone(record[index])
			if o.isBlank(line.Item) {
				err = badLine(line.Number, fmt.Sprintf("has nothing in column %d", index+1))
				break
			}
			line.Columns, err = columnsOf(record, with, o.With, line.Number)
		default:
			err = badLine(line.Number, fmt.Sprintf("has %s, the items are in column %d", numberOfColumns(record), index+1))
		}
		if !yield(line, err) {
			return errStopped
		}
	}
}

func numberOfColumns(record []string) string {
	if len(record) == 1 {
		return "1 column"
	}
	return fmt.Sprintf("%d columns", len(record))
}

// isBlank reports whether a cell has no item.
func (o Options) isBlank(cell string) bool {
	if o.Raw {
		return cell == ""
	}
	return strings.TrimSpace(cell) == ""
}

// hasMore reports whether a row has more columns, other than blank ones.
func (o Options) hasMore(record []string, columns int) bool {
	return len(record) > columns &&
		slices.ContainsFunc(record[columns:], func(cell string) bool { return !o.isBlank(cell) })
}

// table reads rows of at most maxRow bytes.
type table struct {
	csv  *csv.Reader
	from io.LimitedReader
	last int // the line in which the latest row began
}

func newTable(r io.Reader, separator rune) *table {
	t := &table{from: io.LimitedReader{R: r}}
	t.csv = csv.NewReader(&t.from)
	t.csv.Comma = separator
	t.csv.FieldsPerRecord = -1
	t.csv.ReuseRecord = true
	return t
}

// row reads a row. It distinguishes a malformed table from an unreadable file.
func (t *table) row() ([]string, error) {
	t.from.N = maxRow
	record, err := t.csv.Read()
	malformed, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case t.from.N == 0: // for any err, because the end of the file may be the limit
		const detail = "is not CSV: a row of more than %d bytes begins here or below; is a quote not closed?"
		return nil, badLine(int64(t.last)+1, fmt.Sprintf(detail, maxRow))
	case ok:
		return nil, malformedRow(malformed)
	case err == nil:
		t.last, _ = t.csv.FieldPos(0)
	}
	return record, err
}

// malformedRow says where a quote is wrong: that is the only error of a table with any number of columns. The row of a
// quote that is not closed ends with the file.
func malformedRow(e *csv.ParseError) error {
	const advice = `; write a quote that belongs to the text twice, in a cell in quotes: "5"" disk"`
	if errors.Is(e.Err, csv.ErrBareQuote) {
		return badLine(int64(e.Line), `is not CSV: it has a quote (") in a cell that does not begin with one`+advice)
	}
	return badLine(int64(e.StartLine), fmt.Sprintf(`is not CSV: a quote (") that begins a cell is not closed, or text follows the `+
		`closing one in line %d`, e.Line)+advice)
}

// Row is a row of a CSV file. Its cells may be used until the next row is read.
type Row struct {
	Line  int64 // the line in which the row begins
	Cells []string
}

// Rows yields all rows of a CSV file (RFC 4180) with this separator, including the first. It skips empty lines. An
// *itembank.LineError names the place where the file is not CSV. It ends the rows, as any other error does.
func Rows(open Open, separator rune) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		file, err := open()
		if err != nil {
			yield(Row{}, err)
			return
		}
		defer func() { _ = file.Close() }() // the file was only read
		text, err := textOf(file)
		if err != nil {
			yield(Row{}, err)
			return
		}
		for t := newTable(text, separator); ; {
			cells, err := t.row()
			if errors.Is(err, io.EOF) || !yield(Row{int64(t.last), cells}, err) || err != nil {
				return
			}
		}
	}
}

// columnIndex finds the column. If the column is a name, it reads the first row, and also returns that row.
func columnIndex(t *table, column string) (index int, header []string, err error) {
	if n, err := strconv.Atoi(column); err == nil {
		if n < 1 {
			return 0, nil, badColumn(column, "columns are numbered from 1")
		}
		return n - 1, nil, nil
	}
	header, err = t.row()
	switch {
	case errors.Is(err, io.EOF):
		return 0, nil, badColumn(column, "the file is empty; its first row must name the columns")
	case err != nil:
		return 0, nil, err
	}
	if index = slices.Index(header, column); index < 0 {
		return 0, nil, badColumn(column, "there is no such column; the first row has "+quoted(header))
	}
	return index, header, nil
}

func badColumn(column, detail string) error {
	return &itembank.InvalidError{Field: "--column " + column, Detail: detail}
}

// withIndexes finds the columns that come with the items.
func withIndexes(header []string, item int, o Options) (indexes []int, err error) {
	for i, name := range o.With {
		index := slices.Index(header, name)
		var detail string
		switch {
		case header == nil:
			detail = fmt.Sprintf("--column %s is a number, so that the first row is an item; give the name of the column", o.Column)
		case index < 0:
			detail = "there is no such column; the first row has " + quoted(header)
		case slices.Contains(header[index+1:], name):
			detail = "the first row has this column twice"
		case index == item:
			detail = "this is the column of the items"
		case slices.Contains(o.With[:i], name):
			detail = "is named twice"
		}
		if detail != "" {
			return nil, &itembank.InvalidError{Field: "--with " + name, Detail: detail}
		}
		indexes = append(indexes, index)
	}
	return indexes, nil
}

// columnsOf returns the columns of a row that come with its item.
func columnsOf(record []string, indexes []int, names []string, number int64) (columns []itembank.Column, err error) {
	for i, index := range indexes {
		if index >= len(record) {
			return nil, badLine(number, fmt.Sprintf("has %s, %q is column %d", numberOfColumns(record), names[i], index+1))
		}
		columns = append(columns, itembank.Column{Name: names[i], Value: strings.Clone(record[index])})
	}
	if err := itembank.ValidateColumns(columns); err != nil {
		return nil, &itembank.LineError{Line: number, Err: err}
	}
	return columns, nil
}
