package claimapi

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// The variables of the claim API.
const (
	varBankTable     = "ONCEBOX_BANK_TABLE"
	varDedupeTable   = "ONCEBOX_DEDUPE_TABLE"
	varClaimantFrom  = "ONCEBOX_CLAIMANT_FROM"
	varCampaignCache = "ONCEBOX_CAMPAIGN_CACHE"
	varLogLevel      = "ONCEBOX_LOG_LEVEL"

	varPrefix = "ONCEBOX_"
)

var known = []string{varBankTable, varDedupeTable, varClaimantFrom, varCampaignCache, varLogLevel}

// tableName is DynamoDB's naming rule (Developer Guide, "Naming rules").
var tableName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`)

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

// Options are the settings of the handler, wherever it runs.
type Options struct {
	ClaimantFrom  ClaimantFrom
	CampaignCache time.Duration // how long a copy of a campaign's rules is used; 0: not at all
	LogLevel      slog.Level
}

// Settings are the settings of the Lambda function.
type Settings struct {
	BankTable   string
	DedupeTable string
	Options
}

// ParseSettings reads the Lambda function's settings from an environment in the
// form of os.Environ. Every variable named ONCEBOX_... counts: an unknown one is
// a misspelt or misplaced setting and is refused. An empty variable is one that
// is not set. The error lists everything that is wrong, by variable and with
// what is allowed, and repeats no values.
func ParseSettings(environ []string) (Settings, error) {
	p := parser{values: oncebox(environ)}
	p.refuseUnknown()
	s := Settings{BankTable: p.table(varBankTable), DedupeTable: p.table(varDedupeTable), Options: p.options("")}
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		p.wrong(varDedupeTable, "is the table of "+varBankTable, "another table")
	}
	return s, p.err()
}

// ParseOptions reads the settings of a handler that runs elsewhere, as in
// `oncebox local`: the store is the caller's, the claimant comes from the body
// unless ONCEBOX_CLAIMANT_FROM says otherwise, and other ONCEBOX_... variables are
// not looked at. The error is as that of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	p := parser{values: oncebox(environ)}
	return p.options(fromBody), p.err()
}

// oncebox returns the variables that are ours and not empty.
func oncebox(environ []string) map[string]string {
	values := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, varPrefix) && value != "" {
			values[name] = value
		}
	}
	return values
}

// parser reads variables and collects what is wrong with them.
type parser struct {
	values   map[string]string
	problems []string
}

func (p *parser) wrong(name, what, allowed string) {
	p.problems = append(p.problems, fmt.Sprintf("%s %s (allowed: %s)", name, what, allowed))
}

func (p *parser) err() error {
	if len(p.problems) == 0 {
		return nil
	}
	return errors.New("settings: " + strings.Join(p.problems, "; "))
}

func (p *parser) refuseUnknown() {
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		if !slices.Contains(known, name) {
			p.wrong(name, "is not a setting of this function", strings.Join(known, ", "))
		}
	}
}

func (p *parser) table(name string) string {
	const allowed = "a DynamoDB table name, 3 to 255 of a-z, A-Z, 0-9, _, . and -"
	table := p.values[name]
	switch {
	case table == "":
		p.wrong(name, "is missing", allowed)
	case !tableName.MatchString(table):
		p.wrong(name, "is not a table name", allowed)
	}
	return table
}

func (p *parser) options(defaultFrom string) Options {
	return Options{p.claimantFrom(defaultFrom), p.campaignCache(), p.logLevel()}
}

func (p *parser) claimantFrom(otherwise string) ClaimantFrom {
	text := p.values[varClaimantFrom]
	if text == "" {
		text = otherwise
	}
	from, err := ParseClaimantFrom(text)
	switch {
	case text == "":
		p.wrong(varClaimantFrom, "is missing", claimantFromForms)
	case err != nil:
		p.wrong(varClaimantFrom, "is none of its forms", claimantFromForms)
	}
	return from
}

func (p *parser) campaignCache() time.Duration {
	text := p.values[varCampaignCache]
	if text == "" {
		return itembank.DefaultCampaignCache
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.wrong(varCampaignCache, "is not a duration of at least 0", "a Go duration, as in 5s, 500ms or 0")
	}
	return d
}

func (p *parser) logLevel() slog.Level {
	text := p.values[varLogLevel]
	if text == "" {
		return slog.LevelInfo
	}
	level, ok := logLevels[text]
	if !ok {
		p.wrong(varLogLevel, "is not a level", "debug, info, warn or error")
	}
	return level
}
