package claimapi

import (
	"log/slog"
	"slices"
	"time"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// The variables of the claim function.
const (
	varBankTable     = "ONCEBOX_BANK_TABLE"
	varDedupeTable   = "ONCEBOX_DEDUPE_TABLE"
	varClaimantFrom  = "ONCEBOX_CLAIMANT_FROM"
	varCampaignCache = "ONCEBOX_CAMPAIGN_CACHE"
	varConfirm       = "ONCEBOX_CLAIMANTS_CONFIRM"
	varLogLevel      = "ONCEBOX_LOG_LEVEL"
)

var known = []string{varBankTable, varDedupeTable, varClaimantFrom, varCampaignCache, varConfirm, varLogLevel}

// Variables returns the names of all variables of the function. Programs that share the environment with it can tell
// them from misspelt names.
func Variables() []string { return slices.Clone(known) }

// Options are the settings of a handler that do not depend on its store.
type Options struct {
	ClaimantFrom     ClaimantFrom
	CampaignCache    time.Duration // how long a copy of a campaign's rules is used; 0 reads them for every request
	ClaimantsConfirm bool          // see WithClaimantsConfirm
	LogLevel         slog.Level
}

// Settings are the settings of the function in functions/claim.
type Settings struct {
	BankTable   string
	DedupeTable string
	Options
}

// ParseSettings reads the settings of the function from an environment in the form of os.Environ:
//
//	ONCEBOX_BANK_TABLE         required: the table of campaigns and items
//	ONCEBOX_DEDUPE_TABLE       required: the table of claims
//	ONCEBOX_CLAIMANT_FROM      required: jwt:CLAIM, iam, iam:session, iam:role or body
//	ONCEBOX_CAMPAIGN_CACHE     how long a copy of a campaign's rules is used, 0 to 5s; default 5s
//	ONCEBOX_CLAIMANTS_CONFIRM  on or off: whether claimants may confirm their own holds; default off
//	ONCEBOX_LOG_LEVEL          debug, info, warn or error; default info
//
// An empty variable is one that is not set. Another ONCEBOX_ variable is an error, since it is misspelt or belongs to
// another function. The error lists everything that is wrong, with the values that are allowed, and repeats no values.
func ParseSettings(environ []string) (Settings, error) {
	p := parser{settings.NewParser(environ)}
	p.RefuseOthers(known)
	s := Settings{BankTable: p.Table(varBankTable), DedupeTable: p.Table(varDedupeTable), Options: p.options("")}
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		p.Wrong(varDedupeTable, "is the table of "+varBankTable, "another table")
	}
	return s, p.Err()
}

// ParseOptions reads the settings of a handler that runs outside of Lambda, as in `oncebox local`. The caller chooses
// the store. The claimant comes from the body by default. Other ONCEBOX_ variables are ignored, except for the old
// names of settings. The error is like that of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	p := parser{settings.NewParser(environ)}
	p.RefuseRenamed()
	return p.options(fromBody), p.Err()
}

type parser struct{ *settings.Parser }

func (p parser) options(defaultFrom string) Options {
	return Options{p.claimantFrom(defaultFrom), p.campaignCache(), p.Switch(varConfirm, false), p.LogLevel(varLogLevel)}
}

func (p parser) claimantFrom(fallback string) ClaimantFrom {
	text := p.Text(varClaimantFrom)
	if text == "" {
		text = fallback
	}
	from, err := ParseClaimantFrom(text)
	switch {
	case text == "":
		p.Wrong(varClaimantFrom, "is missing", claimantFromForms)
	case err != nil:
		p.Wrong(varClaimantFrom, "is not a source of claimants", claimantFromForms)
	}
	return from
}

func (p parser) campaignCache() time.Duration {
	const longest = itembank.DefaultCampaignCache // a closed campaign goes on for this long at most
	return p.Duration(varCampaignCache, longest, 0, longest, "a duration of at most 5s, as in 500ms or 0")
}
