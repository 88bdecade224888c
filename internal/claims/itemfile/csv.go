package itemfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// CSVError says that a file looks like CSV.
type CSVError struct {
	FirstRow []string // the cells of the first line, which may be names; nil if every line is one quoted cell
}

func (e *CSVError) Error() string {
	if e.FirstRow == nil {
		return "it looks like CSV: every line is in quotes; say --column 1, or --lines if the quotes belong to the items"
	}
	if len(e.FirstRow) == 1 {
		name := strings.TrimSpace(strings.Trim(e.FirstRow[0], `"`))
		return fmt.Sprintf("its first line, %[1]q, may be the name of a column; say --column %[1]q if it is, or --lines if it is an item", name)
	}
	return fmt.Sprintf("it looks like CSV with %s in its first row; say --column NAME if these are the names of the columns, "+
		"--column N if they are not, or --lines if every line is one item", quoted(e.FirstRow))
}

// Is reports whether target is itembank.ErrInvalid, the family of this error.
func (e *CSVError) Is(target error) bool { return target == itembank.ErrInvalid }

type separator struct {
	character rune
	name      string
}

// separators are the possible separators of columns.
var separators = []separator{{',', "commas"}, {';', "semicolons"}, {'\t', "tabs"}, {'|', "pipes"}}

// sampleLines is the number of lines that decide whether a file looks like CSV, and with which separator.
const sampleLines = 20

// Separator returns what separates the columns of a CSV file. If the column is a name, the first row has it. If it is a
// number, the first rows have the same number of columns, more than one, and no other separator is in them: what it
// cuts could be an item. If that holds for no separator, it is a comma: reading the file finds what is wrong. It returns
// an *itembank.InvalidError if there are several.
func Separator(open Open, column string) (rune, error) {
	hint := "give another name to the column"
	var found []separator
	if !isNumber(column) {
		found = fitting(open, func(t *table) bool {
			first, err := t.row()
			return err == nil && len(first) > 1 && slices.Contains(first, column)
		})
		if len(found) == 0 { // reading the file finds that
			found = fitting(open, hasColumns)
			found = found[:min(len(found), 1)]
		}
	} else if found = fitting(open, hasColumns); len(found) > 0 {
		found, hint = fitting(open, isCut), "put a first row with the names of the columns into the file, and say --column NAME"
	}
	switch len(found) {
	case 0:
		return ',', nil
	case 1:
		return found[0].character, nil
	}
	var names []string
	for _, s := range found {
		names = append(names, s.name)
	}
	return 0, badColumn(column, fmt.Sprintf("the columns could be separated by %s; %s", strings.Join(names, " or "), hint))
}

// fitting returns the separators with which the beginning of a file is as it must be.
func fitting(open Open, fits func(*table) bool) (found []separator) {
	for _, s := range separators {
		if tableFits(open, s.character, fits) {
			found = append(found, s)
		}
	}
	return found
}

// tableFits reads the beginning of a file. An error of reading is found again when the whole file is read.
func tableFits(open Open, separator rune, fits func(*table) bool) bool {
	file, err := open()
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }() // the file was only read
	text, err := textOf(file)
	return err == nil && fits(newTable(text, separator))
}

// hasColumns reports whether the first rows all have the same number of columns, more than one.
func hasColumns(t *table) bool {
	columns := 0
	for range sampleLines {
		row, err := t.row()
		switch {
		case errors.Is(err, io.EOF):
			return columns > 1
		case err != nil || len(row) < 2 || columns > 0 && len(row) != columns:
			return false
		}
		columns = len(row)
	}
	return true
}

// isCut reports whether one of the first rows has several columns.
func isCut(t *table) bool {
	for range sampleLines {
		row, err := t.row()
		if err != nil || len(row) > 1 {
			return err == nil
		}
	}
	return false
}

// refuseCSV returns a *CSVError in three cases: the first lines all have the same number of separators, at least one;
// they are all in quotes; or the first line may be the name of a column. In a table, which the name of the file tells,
// each first line may be one: no rule about texts tells names from items.
func refuseCSV(open Open, table bool) error {
	sample := firstItems(open, Options{})
	for _, separator := range separators {
		if n := columns(sample, separator.character); n > 1 {
			return &CSVError{splitOutsideQuotes(sample[0], separator.character)}
		}
	}
	switch {
	case len(sample) == 0:
	case table || hasHeader(sample):
		return &CSVError{sample[:1]}
	case allQuoted(sample):
		return &CSVError{}
	}
	return nil
}

// refuseName returns an *itembank.InvalidError if the first cell of a numbered column may be the name of the column:
// with a number it would become an item.
func refuseName(open Open, o Options) error {
	if !isNumber(o.Column) {
		return nil
	}
	if sample := firstItems(open, o); len(sample) > 0 && hasHeader(sample) {
		const detail = "the first row has %[1]q there, which may be the name of the column; say --column %[1]q if it is; " +
			"if it is an item, put a first row with the names of the columns into the file"
		return badColumn(o.Column, fmt.Sprintf(detail, sample[0]))
	}
	return nil
}

func isNumber(column string) bool {
	_, err := strconv.Atoi(column)
	return err == nil
}

// firstItems returns up to sampleLines items of the beginning of a file, unchanged and without blank ones.
func firstItems(open Open, o Options) (sample []string) {
	for line, err := range rows(open, o) {
		if err != nil || len(sample) == sampleLines {
			break // Check reports the error where it gets there
		}
		if strings.TrimSpace(line.Item) != "" {
			sample = append(sample, strings.Clone(line.Item))
		}
	}
	return sample
}

// headerWords are the words of which people make the name of a column of items.
var headerWords = []string{
	"code", "codes", "voucher", "vouchers", "vouchercode", "coupon", "coupons", "couponcode", "promo", "promocode", "gift", "card",
	"discount", "serial", "serials", "number", "numbers", "item", "items", "seat", "seats", "key", "keys", "id", "ids",
	"gutschein", "gutscheine", "gutscheincode", "gutscheincodes",
}

// hasHeader reports whether the first line is the name of a column: each of its words is one of headerWords, or it has
// no digit while the other lines, at least two, all have digits and another length.
func hasHeader(lines []string) bool {
	if MadeOf(lines[0], headerWords) {
		return true
	}
	return len(lines) > 2 && !hasDigit(lines[0]) && !slices.ContainsFunc(lines[1:], func(line string) bool {
		return !hasDigit(line) || len(line) == len(lines[0])
	})
}

// MadeOf reports whether a text has words, and each is one of these, which have small letters.
func MadeOf(text string, words []string) bool {
	own := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return len(own) > 0 && !slices.ContainsFunc(own, func(word string) bool { return !slices.Contains(words, word) })
}

func hasDigit(line string) bool { return strings.ContainsFunc(line, unicode.IsDigit) }

// columns returns the number of columns of all lines, or 0 if they have different numbers.
func columns(lines []string, separator rune) (n int) {
	for i, line := range lines {
		got := len(splitOutsideQuotes(line, separator))
		if i > 0 && got != n {
			return 0
		}
		n = got
	}
	return n
}

// splitOutsideQuotes cuts a line at the separators that are not between double quotes.
func splitOutsideQuotes(line string, separator rune) (cells []string) {
	inside, begin := false, 0
	for i := range len(line) {
		switch {
		case line[i] == '"':
			inside = !inside
		case !inside && rune(line[i]) == separator:
			cells, begin = append(cells, line[begin:i]), i+1
		}
	}
	return append(cells, line[begin:])
}

func allQuoted(lines []string) bool {
	for _, line := range lines {
		if len(line) < 2 || line[0] != '"' || line[len(line)-1] != '"' {
			return false
		}
	}
	return true
}

// quoted lists cells for a message.
func quoted(cells []string) string {
	const most = 8
	texts := make([]string, 0, most+1)
	for i, cell := range cells {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(cells)-most))
			break
		}
		texts = append(texts, fmt.Sprintf("%q", strings.Trim(cell, `"`)))
	}
	return strings.Join(texts, ", ")
}
