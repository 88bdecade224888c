package itemfile

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// CSVError says that a file looks like CSV.
type CSVError struct {
	Separator string   // ",", ";" or a tab; "" if every line is one quoted cell
	FirstRow  []string // the cells of the first line
}

func (e *CSVError) Error() string {
	switch e.Separator {
	case "":
		return "it looks like CSV: every line is in quotes; say --column 1, or --lines if the quotes belong to the items"
	case ",":
		return fmt.Sprintf("it looks like CSV with the columns %s in its first row; say --column NAME or --column N, "+
			"or --lines if every line is one item", quoted(e.FirstRow))
	}
	return fmt.Sprintf("it looks like CSV with %s between the columns, and --column reads commas only; convert it, "+
		"or say --lines if every line is one item", separators[e.Separator])
}

// Is reports whether target is itembank.ErrInvalid, the family of this error.
func (e *CSVError) Is(target error) bool { return target == itembank.ErrInvalid }

// separators are the possible separators of columns, with their names.
var separators = map[string]string{",": "commas", ";": "semicolons", "\t": "tabs"}

// sampleLines is the number of lines that decide whether a file looks like CSV.
const sampleLines = 20

// refuseCSV returns a *CSVError in two cases: the first lines all have the same number of separators, at least one;
// or they are all in quotes.
func refuseCSV(open Open) error {
	var sample []string
	for line, err := range rows(open, Options{}) {
		if err != nil || len(sample) == sampleLines {
			break // Check reports the error where it gets there
		}
		if strings.TrimSpace(line.Item) != "" {
			sample = append(sample, strings.Clone(line.Item))
		}
	}
	for _, separator := range []string{",", ";", "\t"} {
		if n := columns(sample, separator); n > 1 {
			return &CSVError{separator, splitOutsideQuotes(sample[0], separator)}
		}
	}
	if len(sample) > 0 && allQuoted(sample) {
		return &CSVError{FirstRow: sample[:1]}
	}
	return nil
}

// columns returns the number of columns of all lines, or 0 if they have different numbers.
func columns(lines []string, separator string) (n int) {
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
func splitOutsideQuotes(line, separator string) (cells []string) {
	inside, begin := false, 0
	for i := range len(line) {
		switch {
		case line[i] == '"':
			inside = !inside
		case !inside && line[i] == separator[0]:
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
