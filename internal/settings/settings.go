// Package settings reads the ONCEBOX_ variables of the Lambda functions, and
// settings like them from elsewhere, and tells of everything that is wrong with
// them at once.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// prefix begins the name of every variable of ours. One that a function does
// not know is a misspelt or misplaced setting.
const prefix = "ONCEBOX_"

// DynamoDB's naming rule (Developer Guide, "Naming rules"). The length stands
// apart: as {3,255} in the pattern it takes 230 KB and half a millisecond of
// every start.
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]+$`)

const shortestTable, longestTable = 3, 255

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// Parser reads variables and collects what is wrong with them. An empty
// variable is one that is not set.
type Parser struct {
	values   map[string]string
	problems []string
}

// NewParser makes a Parser of an environment in the form of os.Environ.
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

// NewParserOf makes a Parser of values by their names.
func NewParserOf(values map[string]string) *Parser {
	p := &Parser{values: maps.Clone(values)}
	maps.DeleteFunc(p.values, func(_, value string) bool { return value == "" })
	return p
}

// Wrong notes a problem: the variable, what it is instead of what it should be,
// and what is allowed. None of them may repeat the value, which may be a secret
// in the wrong place; nor contain "; ", which parts problems.
func (p *Parser) Wrong(name, what, allowed string) {
	p.problems = append(p.problems, fmt.Sprintf("%s %s (allowed: %s)", name, what, allowed))
}

// Err lists all problems, in the order in which they were found.
func (p *Parser) Err() error {
	if len(p.problems) == 0 {
		return nil
	}
	return errors.New("settings: " + strings.Join(p.problems, "; "))
}

// RefuseOthers notes each variable that is not among the known ones.
func (p *Parser) RefuseOthers(known []string) {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.Contains(known, name) {
			p.Wrong(name, "is not a setting that is known here", strings.Join(known, ", "))
		}
	}
}

// Text reads a variable as it is; "" if it is not set.
func (p *Parser) Text(name string) string { return p.values[name] }

// Required reads a variable that must be set.
func (p *Parser) Required(name, allowed string) string {
	text := p.values[name]
	if text == "" {
		p.Wrong(name, "is missing", allowed)
	}
	return text
}

// Table reads the name of a DynamoDB table, which must be set.
func (p *Parser) Table(name string) string {
	const allowed = "a DynamoDB table name, 3 to 255 of a-z, A-Z, 0-9, _, . and -"
	table := p.Required(name, allowed)
	if table != "" && (len(table) < shortestTable || len(table) > longestTable || !tableName.MatchString(table)) {
		p.Wrong(name, "is not a table name", allowed)
	}
	return table
}

// LogLevel reads the least level that is logged; info if it is not set.
func (p *Parser) LogLevel(name string) slog.Level {
	text := p.values[name]
	if text == "" {
		return slog.LevelInfo
	}
	level, ok := logLevels[text]
	if !ok {
		p.Wrong(name, "is not a level", "debug, info, warn or error")
	}
	return level
}

// Duration reads a Go duration within limits.
func (p *Parser) Duration(name string, otherwise, least, most time.Duration, allowed string) time.Duration {
	text := p.values[name]
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		p.Wrong(name, "is not a duration", allowed)
	case d < least:
		p.Wrong(name, fmt.Sprintf("is not a duration of at least %v", least), allowed)
	case d > most:
		p.Wrong(name, fmt.Sprintf("is longer than %v", most), allowed)
	}
	return d
}

// Number reads a whole number within limits.
func (p *Parser) Number(name string, otherwise, least, most int) int {
	text := p.values[name]
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		p.Wrong(name, "is not such a number", fmt.Sprintf("a whole number from %d to %d", least, most))
	}
	return n
}

// Switch reads on or off.
func (p *Parser) Switch(name string, otherwise bool) bool {
	switch p.values[name] {
	case "":
		return otherwise
	case "on":
		return true
	case "off":
		return false
	}
	p.Wrong(name, "is neither on nor off", "on or off")
	return otherwise
}

// List reads values with commas between them; spaces around them do not count.
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
