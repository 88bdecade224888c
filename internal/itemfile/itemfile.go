// Package itemfile reads the items of a load from files: one a line, or a
// column of a CSV file.
package itemfile

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// Open opens the file from its beginning; a load reads it twice.
type Open func() (io.ReadCloser, error)

// maxLine bounds the memory for one line; a longer one is far above what an
// item may have.
const maxLine = 64 << 10

// Lines yields each line's bytes without its end (\n or \r\n) and without a
// byte order mark at the beginning of the file. Empty lines are skipped.
func Lines(open Open) itembank.Source {
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			read(open, yield, func(r *bufio.Reader) error { return lines(r, yield) })
		}
	}
}

// maxRow bounds the memory for one row of a table. A quote that is not closed makes
// one row of the rest of the file.
const maxRow = 1 << 20

// CSV yields one column of a comma-separated file (RFC 4180). The column is a
// name from the first row, or a number from 1, and then the first row is an
// item like any other. Empty rows are skipped; an empty cell is an error.
func CSV(open Open, column string) itembank.Source {
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			read(open, yield, func(r *bufio.Reader) error { return records(r, column, yield) })
		}
	}
}

// read opens the file, lets each read it, and yields what went wrong.
func read(open Open, yield func(itembank.Line, error) bool, each func(*bufio.Reader) error) {
	file, err := open()
	if err != nil {
		yield(itembank.Line{}, err)
		return
	}
	defer func() { _ = file.Close() }() // only read from
	r := bufio.NewReaderSize(file, maxLine)
	if mark, _ := r.Peek(len(byteOrderMark)); string(mark) == byteOrderMark {
		_, _ = r.Discard(len(byteOrderMark)) // it was peeked
	}
	if err := each(r); err != nil && !errors.Is(err, errStopped) {
		yield(itembank.Line{}, err)
	}
}

const byteOrderMark = "\xef\xbb\xbf"

// errStopped: whoever takes the lines wants no more.
var errStopped = errors.New("stopped")

func lines(r *bufio.Reader, yield func(itembank.Line, error) bool) error {
	for n := int64(1); ; n++ {
		line, err := r.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return &itembank.LineError{Line: n, Err: itembank.ValidateItem(string(line))}
		case err != nil && !last:
			return fmt.Errorf("line %d: %w", n, err)
		}
		if item := withoutEnd(line); item != "" && !yield(itembank.Line{Number: n, Item: item}, nil) {
			return errStopped
		}
		if last {
			return nil
		}
	}
}

// withoutEnd cuts \n or \r\n off a line.
func withoutEnd(line []byte) string {
	if cut, ok := bytes.CutSuffix(line, []byte("\n")); ok {
		line, _ = bytes.CutSuffix(cut, []byte("\r"))
	}
	return string(line)
}

func records(r io.Reader, column string, yield func(itembank.Line, error) bool) error {
	t := newTable(r)
	index, err := columnIndex(t, column)
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
		line, _ := t.csv.FieldPos(0)
		if index >= len(record) {
			return &itembank.LineError{Line: int64(line), Err: &itembank.InvalidError{
				Field: "column", Detail: fmt.Sprintf("the row has %d columns, the items are in column %d", len(record), index+1),
			}}
		}
		if !yield(itembank.Line{Number: int64(line), Item: strings.Clone(record[index])}, nil) {
			return errStopped
		}
	}
}

// table reads rows of at most maxRow bytes.
type table struct {
	csv  *csv.Reader
	from io.LimitedReader
	last int // the line in which the row before began
}

func newTable(r io.Reader) *table {
	t := &table{from: io.LimitedReader{R: r}}
	t.csv = csv.NewReader(&t.from)
	t.csv.FieldsPerRecord = -1
	t.csv.ReuseRecord = true
	return t
}

// row reads a row. It tells a malformed table from one that could not be read.
func (t *table) row() ([]string, error) {
	t.from.N = maxRow
	record, err := t.csv.Read()
	malformed, ok := errors.AsType[*csv.ParseError](err)
	switch {
	case t.from.N == 0: // whatever else: what looks like the end of the file may be the limit
		return nil, malformedAt(t.last+1, fmt.Sprintf("a row of more than %d bytes begins here or below; is a quote not closed?", maxRow))
	case ok:
		return nil, malformedAt(malformed.Line, malformed.Err.Error())
	case err == nil:
		t.last, _ = t.csv.FieldPos(0)
	}
	return record, err
}

func malformedAt(line int, detail string) error {
	return &itembank.LineError{Line: int64(line), Err: &itembank.InvalidError{Field: "CSV", Detail: detail}}
}

// columnIndex finds the column, reading the header if it is a name.
func columnIndex(t *table, column string) (int, error) {
	if n, err := strconv.Atoi(column); err == nil {
		if n < 1 {
			return 0, &itembank.InvalidError{Field: "column", Detail: "columns are numbered from 1"}
		}
		return n - 1, nil
	}
	header, err := t.row()
	switch {
	case errors.Is(err, io.EOF):
		return 0, &itembank.InvalidError{Field: "input", Detail: "is empty; its first row must name the columns"}
	case err != nil:
		return 0, err
	}
	for i, name := range header {
		if name == column {
			return i, nil
		}
	}
	return 0, &itembank.InvalidError{Field: "column", Detail: fmt.Sprintf("no column %q; the first row has %q", column, header)}
}
