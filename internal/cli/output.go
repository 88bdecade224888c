package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/oncebox/oncebox/internal/shared/settings"
)

// Print writes a result to stdout: the value as JSON, or the text.
func (a *App) Print(value any, text string) error {
	if a.Output == OutputJSON {
		return NewEncoder(a.Stdout).Encode(value)
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}

// NewEncoder returns an encoder of JSON that does not escape <, > and &, because the output is not HTML.
func NewEncoder(to io.Writer) *json.Encoder {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder
}

// IsTerminal reports whether a stream of the process is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Optional returns nil for the zero time.
func Optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// WithCommas writes a number for people, such as 1,234,567.
func WithCommas(number int64) string { return message.NewPrinter(language.English).Sprint(number) }

// Table lines up columns.
func Table(fill func(row func(...string))) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) { fmt.Fprintln(w, strings.Join(cells, "\t")) })
	_ = w.Flush() // a strings.Builder never fails
	return strings.TrimSuffix(text.String(), "\n")
}

// TimeOr writes a time. For the zero time it returns zero.
func TimeOr(t time.Time, zero string) string {
	if t.IsZero() {
		return zero
	}
	return t.Format(time.RFC3339)
}

// LifeOr writes a life as flags take it: 30d, not 720h0m0s. For 0 it returns zero.
func LifeOr(d time.Duration, zero string) string {
	if d == 0 {
		return zero
	}
	return settings.FormatDuration(d)
}

// Quantity writes a number of things: 1 line, 2 lines.
func Quantity(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ShellWord quotes a text for a shell, if it needs that.
func ShellWord(text string) string {
	simple := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-./:@%+=", r)
	}
	if text != "" && strings.TrimFunc(text, simple) == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
