package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// print writes a result to stdout: the value as JSON, or the text.
func (a *app) print(value any, text string) error {
	if a.Output == outputJSON {
		return newEncoder(a.Stdout).Encode(value)
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}

// newEncoder returns an encoder of JSON that does not escape <, > and &, because the output is not HTML.
func newEncoder(to io.Writer) *json.Encoder {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// withCommas writes a number for people, such as 1,234,567.
func withCommas(number int64) string { return message.NewPrinter(language.English).Sprint(number) }

// table lines up columns.
func table(fill func(row func(...string))) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) })
	_ = w.Flush() // a strings.Builder never fails
	return strings.TrimSuffix(text.String(), "\n")
}

func timeOr(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.Format(time.RFC3339)
}

// lifeOr writes a life without units that are zero: 24h, not 24h0m0s. For 0 it returns zero.
func lifeOr(d time.Duration, zero string) string {
	if d == 0 {
		return zero
	}
	text := d.String()
	if cut, ok := strings.CutSuffix(text, "m0s"); ok {
		text = cut + "m"
	}
	if cut, ok := strings.CutSuffix(text, "h0m"); ok {
		text = cut + "h"
	}
	return text
}

// quantity writes a number of things: 1 line, 2 lines.
func quantity(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
