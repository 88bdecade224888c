package claimapi

import (
	"log/slog"
	"time"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// The variables of the claim API.
const (
	varBankTable     = "ONCEBOX_BANK_TABLE"
	varDedupeTable   = "ONCEBOX_DEDUPE_TABLE"
	varClaimantFrom  = "ONCEBOX_CLAIMANT_FROM"
	varCampaignCache = "ONCEBOX_CAMPAIGN_CACHE"
	varLogLevel      = "ONCEBOX_LOG_LEVEL"
)

var known = []string{varBankTable, varDedupeTable, varClaimantFrom, varCampaignCache, varLogLevel}

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
	p := parser{settings.NewParser(environ)}
	p.RefuseOthers(known)
	s := Settings{BankTable: p.Table(varBankTable), DedupeTable: p.Table(varDedupeTable), Options: p.options("")}
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		p.Wrong(varDedupeTable, "is the table of "+varBankTable, "another table")
	}
	return s, p.Err()
}

// ParseOptions reads the settings of a handler that runs elsewhere, as in
// `oncebox local`: the store is the caller's, the claimant comes from the body
// unless ONCEBOX_CLAIMANT_FROM says otherwise, and other ONCEBOX_... variables are
// not looked at. The error is as that of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	p := parser{settings.NewParser(environ)}
	return p.options(fromBody), p.Err()
}

type parser struct{ *settings.Parser }

func (p parser) options(defaultFrom string) Options {
	return Options{p.claimantFrom(defaultFrom), p.campaignCache(), p.LogLevel(varLogLevel)}
}

func (p parser) claimantFrom(otherwise string) ClaimantFrom {
	text := p.Text(varClaimantFrom)
	if text == "" {
		text = otherwise
	}
	from, err := ParseClaimantFrom(text)
	switch {
	case text == "":
		p.Wrong(varClaimantFrom, "is missing", claimantFromForms)
	case err != nil:
		p.Wrong(varClaimantFrom, "is none of its forms", claimantFromForms)
	}
	return from
}

func (p parser) campaignCache() time.Duration {
	const most = itembank.DefaultCampaignCache // so long at most a campaign that was closed goes on
	return p.Duration(varCampaignCache, most, 0, most, "a Go duration of at most 5s, as in 500ms or 0")
}
