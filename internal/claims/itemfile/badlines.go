package itemfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// badLine is an error about one line.
func badLine(number int64, detail string) *itembank.LineError {
	return &itembank.LineError{Line: number, Err: &itembank.InvalidError{Field: "item", Detail: detail}}
}

// shownBadLines is how many bad lines a BadLinesError names.
const shownBadLines = 5

// BadLine is a line that cannot be loaded.
type BadLine struct {
	Number int64  `json:"line"`
	Detail string `json:"detail"`
}

// BadLinesError lists the first bad lines of a file and counts all of them.
type BadLinesError struct {
	First []BadLine
	Total int64

	Encoding bool // a line is not valid UTF-8
	Surplus  bool // an item has white space around it or invisible characters, which Options.Trim and Options.Raw allow
}

// surplusError is an error about an item that Options.Trim and Options.Raw allow.
type surplusError struct{ itembank.InvalidError }

// EncodingAdvice says what to do with a file in another encoding.
const EncodingAdvice = "The file must be text in UTF-8. If it is in Latin-1: iconv -f ISO-8859-1 -t UTF-8 FILE > NEW-FILE"

// NotUTF8 is in the text of an error about a text in another encoding.
const NotUTF8 = "is not valid UTF-8"

func (e *BadLinesError) add(line *itembank.LineError) {
	e.Total++
	e.Encoding = e.Encoding || strings.HasSuffix(line.Error(), NotUTF8)
	e.Surplus = e.Surplus || errors.As(line, new(*surplusError))
	if len(e.First) < shownBadLines {
		detail := line.Err.Error()
		if _, after, ok := strings.Cut(detail, "item: "); ok {
			detail = after
		}
		e.First = append(e.First, BadLine{line.Line, detail})
	}
}

func (e *BadLinesError) Error() string {
	var text strings.Builder
	text.WriteString("1 line cannot be loaded:")
	if e.Total > 1 {
		text.Reset()
		fmt.Fprintf(&text, "%d lines cannot be loaded:", e.Total)
	}
	for _, bad := range e.First {
		fmt.Fprintf(&text, "\n  line %d %s", bad.Number, bad.Detail)
	}
	if more := e.Total - int64(len(e.First)); more > 0 {
		fmt.Fprintf(&text, "\n  and %d more", more)
	}
	return text.String()
}

// Is reports whether target is itembank.ErrInvalid, the family of this error.
func (e *BadLinesError) Is(target error) bool { return target == itembank.ErrInvalid }
