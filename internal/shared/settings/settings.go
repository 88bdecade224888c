// Package settings reads the ONCEBOX_ variables, and similar settings from other places. It finds all problems in
// them, and reports them in one error.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/shared/suggest"
)

// prefix is the beginning of all variables of this project. A function refuses unknown variables with this prefix:
// they are misspelt, or belong to another function.
const prefix = "ONCEBOX_"

// tableName is DynamoDB's naming rule (Developer Guide, "Naming rules"). The length is checked separately: {3,255} in
// the pattern takes 230 KB and half a millisecond of every start.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

const (
	minTable, maxTable = 3, 255
	allowedTable       = "a DynamoDB table name, 3 to 255 of a-z, A-Z, 0-9, _, . and -"
)

func isTable(text string) bool {
	return len(text) >= minTable && len(text) <= maxTable && tableName.MatchString(text)
}

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// Parser reads settings and collects the problems in them. An empty value means that the setting is not set.
type Parser struct {
	values   map[string]string
	problems []Problem
}

// Problem is one thing that is wrong in settings.
type Problem struct {
	Name    string // of the setting; "" for an address, whose reader adds the setting
	Option  string // of the address in the setting; "": the whole value
	What    string // what is wrong with it, without the value
	Allowed string // "": What says it
}

func (p Problem) String() string {
	name, allowed := p.Name, ""
	if p.Option != "" {
		name = strings.TrimPrefix(p.Name+": option "+p.Option, ": ")
	}
	if p.Allowed != "" {
		allowed = " (allowed: " + p.Allowed + ")"
	}
	return name + " " + p.What + allowed
}

// Error has all problems, in the order in which they were found.
type Error struct{ Problems []Problem }

func (e *Error) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "; ")
}

// NewParser returns a Parser of the ONCEBOX_ variables of an environment in the form of os.Environ.
func NewParser(environ []string) *Parser {
	p := &Parser{values: map[string]string{}}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, prefix) && value != "" {
			p.values[name] = value
		}
	}
	return p
}

// NewParserOf returns a Parser of values by name.
func NewParserOf(values map[string]string) *Parser {
	p := &Parser{values: maps.Clone(values)}
	maps.DeleteFunc(p.values, func(_, value string) bool { return value == "" })
	return p
}

// Wrong records a problem: the setting, what is wrong with it, and the allowed values. The texts must not repeat the
// value, which may be a secret in the wrong place.
func (p *Parser) Wrong(name, what, allowed string) {
	p.note(Problem{Name: name, What: what, Allowed: allowed})
}

func (p *Parser) note(problem Problem) { p.problems = append(p.problems, problem) }

// WrongAddress records the problems in the address that a setting has. The reader of the address returned err, which may
// be nil.
func (p *Parser) WrongAddress(name string, err error) {
	wrong, ok := errors.AsType[*Error](err)
	if !ok && err != nil {
		wrong = &Error{[]Problem{{What: err.Error()}}}
	}
	if err != nil {
		for _, problem := range wrong.Problems {
			problem.Name = name
			p.note(problem)
		}
	}
}

// Err returns an *Error with all problems, or nil.
func (p *Parser) Err() error {
	if len(p.problems) == 0 {
		return nil
	}
	return &Error{p.problems}
}

// RefuseOthers records a problem for every unknown setting, with the closest known name.
func (p *Parser) RefuseOthers(known []string) {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if slices.Contains(known, name) {
			continue
		}
		if closest := suggest.Closest(name, known); closest != "" {
			p.note(Problem{Name: name, What: "is not a known setting, did you mean " + closest + "?"})
		} else {
			p.Wrong(name, "is not a known setting", strings.Join(known, ", "))
		}
	}
}

// Text returns a setting unchanged, or "" if it is not set.
func (p *Parser) Text(name string) string { return p.values[name] }

// Required returns a setting that must be set.
func (p *Parser) Required(name, allowed string) string {
	text := p.values[name]
	if text == "" {
		p.Wrong(name, "is missing", allowed)
	}
	return text
}

// Duration returns a duration from shortest to longest, or fallback if it is not set.
func (p *Parser) Duration(name string, fallback, shortest, longest time.Duration, allowed string) time.Duration {
	text := p.values[name]
	if text == "" {
		return fallback
	}
	d, err := ParseDuration(text)
	switch {
	case err != nil:
		p.Wrong(name, "is not a duration", allowed)
	case d < shortest:
		p.Wrong(name, "is shorter than "+FormatDuration(shortest), allowed)
	case d > longest:
		p.Wrong(name, "is longer than "+FormatDuration(longest), allowed)
	}
	return d
}

// Number returns a whole number from smallest to largest, or fallback if it is not set. The error does not name
// math.MaxInt32, which is for numbers whose limit others check.
func (p *Parser) Number(name string, fallback, smallest, largest int) int {
	text := p.values[name]
	if text == "" {
		return fallback
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < smallest || n > largest {
		allowed := fmt.Sprintf("a whole number from %d", smallest)
		if largest != math.MaxInt32 {
			allowed += fmt.Sprintf(" to %d", largest)
		}
		p.Wrong(name, "is out of range or not a number", allowed)
	}
	return n
}

// Size returns a number of bytes from smallest to largest, or fallback if it is not set or wrong.
func (p *Parser) Size(name string, fallback, smallest, largest int, allowed string) int {
	text := p.values[name]
	if text == "" {
		return fallback
	}
	bytes, err := ParseSize(text)
	if err != nil || bytes < smallest || bytes > largest {
		p.Wrong(name, "is out of range or not a size", allowed)
		return fallback
	}
	return bytes
}

// Switch reports whether a setting is on. It returns fallback if the setting is not set.
func (p *Parser) Switch(name string, fallback bool) bool {
	switch p.values[name] {
	case "":
		return fallback
	case "on":
		return true
	case "off":
		return false
	}
	p.Wrong(name, "is neither on nor off", "on or off")
	return fallback
}

// Choice returns one of a few words. The first is the default.
func Choice[T ~string](p *Parser, name string, all ...T) T {
	text := T(p.values[name])
	switch {
	case text == "":
		return all[0]
	case slices.Contains(all, text):
		return text
	}
	words := make([]string, len(all))
	for i, word := range all {
		words[i] = string(word)
	}
	p.Wrong(name, "is not a known choice", strings.Join(words[:len(words)-1], ", ")+" or "+words[len(words)-1])
	return all[0]
}

// List returns values that are separated by commas, without the spaces around them.
func (p *Parser) List(name string) []string {
	text := p.values[name]
	if text == "" {
		return nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}
