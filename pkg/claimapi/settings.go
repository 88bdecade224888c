package claimapi

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// The variables of the claim function.
const (
	varBankTable      = "ONCEBOX_BANK_TABLE"
	varDedupeTable    = "ONCEBOX_DEDUPE_TABLE"
	varClaimantFrom   = "ONCEBOX_CLAIMANT_FROM"
	varCaller         = "ONCEBOX_CALLER"
	varCampaignCache  = "ONCEBOX_CAMPAIGN_CACHE"
	varLinkKeys       = "ONCEBOX_LINK_KEYS"
	varConfirm        = "ONCEBOX_CLAIMANTS_CONFIRM"
	varPage           = "ONCEBOX_PAGE"
	varChallenge      = "ONCEBOX_CHALLENGE"
	varChallengeSite  = "ONCEBOX_CHALLENGE_SITE_KEY"
	varChallengeFile  = "ONCEBOX_CHALLENGE_SECRET_FILE"
	varChallengeARN   = "ONCEBOX_CHALLENGE_SECRET_ARN"
	varChallengeURL   = "ONCEBOX_CHALLENGE_URL"
	varChallengeHosts = "ONCEBOX_CHALLENGE_HOSTS"
	varLogLevel       = "ONCEBOX_LOG_LEVEL"
)

// VarCORSOrigins is a variable of ParseOptions only. ParseSettings refuses it: in AWS, API Gateway has the origins.
const VarCORSOrigins = "ONCEBOX_CORS_ORIGINS"

var known = []string{
	varBankTable, varDedupeTable, varClaimantFrom, varCaller, varLinkKeys, varCampaignCache, varConfirm, varPage,
	varChallenge, varChallengeSite, varChallengeFile, varChallengeARN, varChallengeURL, varChallengeHosts, settings.VarMetrics, varLogLevel,
}

// Variables returns the names of all variables of the function. Programs that share the environment with it can use
// them to distinguish its variables from misspelt names.
func Variables() []string { return slices.Clone(known) }

// Options are the settings of a handler that do not depend on its store.
type Options struct {
	ClaimantFrom     ClaimantFrom
	AnyCaller        bool // see WithAnyCaller
	LinkKeys         claimlink.Keys
	CampaignCache    time.Duration // how long a copy of a campaign's rules is used; 0 reads them for every request
	ClaimantsConfirm bool          // see WithClaimantsConfirm
	Page             bool          // see WithPage
	Challenge        *Challenge    // see WithChallenge; nil: no challenge
	CORSOrigins      []string      // for AllowOrigins; set by ParseOptions only
	LogLevel         slog.Level
}

// HandlerOptions returns the options of New for the settings.
func (o Options) HandlerOptions() []Option {
	options := []Option{WithClaimantsConfirm(o.ClaimantsConfirm), WithAnyCaller(o.AnyCaller), WithLinkKeys(o.LinkKeys)}
	if o.Page {
		options = append(options, WithPage(o.CampaignCache))
	}
	if o.Challenge != nil {
		options = append(options, WithChallenge(*o.Challenge))
	}
	return options
}

// Settings are the settings of the function in functions/claim.
type Settings struct {
	BankTable   string
	DedupeTable string
	Metrics     string // the namespace of the metrics: see WithMetrics
	Options
}

// ParseSettings reads the settings of the function from an environment in the form of os.Environ:
//
//	ONCEBOX_BANK_TABLE         required: the table of campaigns and items
//	ONCEBOX_DEDUPE_TABLE       required: the table of claims
//	ONCEBOX_CLAIMANT_FROM      required: jwt:CLAIM, iam, iam:session, iam:role, link or body
//	ONCEBOX_CALLER             required with body: iam or any, the callers that the routes of the API let through
//	ONCEBOX_LINK_KEYS          required with link: the public keys of links, with commas or white space between them
//	ONCEBOX_CAMPAIGN_CACHE     how long a copy of a campaign's rules is used, 0 to 5s; default 5s
//	ONCEBOX_CLAIMANTS_CONFIRM  on or off: whether claimants, or any caller, may confirm holds; default off
//	ONCEBOX_PAGE               on or off: whether the claim page is served; default off
//	ONCEBOX_CHALLENGE          turnstile, hcaptcha or recaptcha: a claim needs a solution of the provider's challenge
//	ONCEBOX_CHALLENGE_SITE_KEY, ONCEBOX_CHALLENGE_SECRET_FILE or ONCEBOX_CHALLENGE_SECRET_ARN
//	                           required with a challenge: the site key, and the secret in a file or in Secrets Manager
//	ONCEBOX_CHALLENGE_URL      the address of the siteverify call; default: the provider's
//	ONCEBOX_CHALLENGE_HOSTS    host names of the pages whose solutions are taken; default: those of the site key
//	ONCEBOX_METRICS            on or off: whether log lines have metrics for CloudWatch; default off
//	ONCEBOX_LOG_LEVEL          debug, info, warn or error; default info
//
// An empty variable counts as not set. Any other ONCEBOX_ variable is an error, because it is misspelt or belongs to
// another function. The error lists everything that is wrong, with the values that are allowed. It does not repeat
// the values.
func ParseSettings(environ []string) (Settings, error) {
	p := parser{settings.NewParser(environ)}
	p.RefuseOthers(known)
	s := Settings{
		BankTable: p.Table(varBankTable), DedupeTable: p.Table(varDedupeTable), Metrics: p.Metrics(environ),
		Options: p.options(false),
	}
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		p.Wrong(varDedupeTable, "is the table of "+varBankTable, "another table")
	}
	return s, p.Err()
}

// ParseOptions reads the settings of a handler that runs outside of Lambda, as in `oncebox local`. The caller chooses
// the store. The claimant comes from the body by default, and the claim page is on. ONCEBOX_CORS_ORIGINS are the origins
// for AllowOrigins. Other ONCEBOX_ variables are ignored. The error is like the error of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	p := parser{settings.NewParser(environ)}
	o := p.options(true)
	o.CORSOrigins = p.List(VarCORSOrigins)
	for _, origin := range o.CORSOrigins {
		if ValidateOrigin(origin) != nil {
			p.Wrong(VarCORSOrigins, "has a value that is not an origin", "origins with commas between them, as in https://shop.example")
			break
		}
	}
	return o, p.Err()
}

type parser struct{ *settings.Parser }

// options reads the settings of a handler. Outside of Lambda, local, fewer are required, and the page is on.
func (p parser) options(local bool) Options {
	from := p.claimantFrom(local)
	return Options{
		ClaimantFrom: from, AnyCaller: p.anyCaller(from, local), LinkKeys: p.linkKeys(from), CampaignCache: p.campaignCache(),
		ClaimantsConfirm: p.Switch(varConfirm, false), Page: p.Switch(varPage, local), Challenge: p.challenge(),
		LogLevel: p.LogLevel(varLogLevel),
	}
}

func (p parser) claimantFrom(local bool) ClaimantFrom {
	text := p.Text(varClaimantFrom)
	if text == "" && local {
		text = fromBody
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

// The values of varCaller.
const (
	iamCaller = "iam"
	anyCaller = "any"
)

const callerForms = "iam (the routes require an IAM identity), or any (the routes require nothing)"

// anyCaller reads who may name any claimant. It has no default in the function: routes and function must agree.
func (p parser) anyCaller(from ClaimantFrom, local bool) bool {
	text := p.Text(varCaller)
	switch {
	case text != "" && from.source != fromBody:
		p.Wrong(varCaller, "has no effect: "+varClaimantFrom+" is not body", "iam or any with body only")
	case text == "" && from.source == fromBody && !local:
		p.Wrong(varCaller, "is missing", callerForms)
	case text != "" && text != iamCaller && text != anyCaller:
		p.Wrong(varCaller, "is not a caller", callerForms)
	}
	return text == anyCaller
}

const linkKeyForms = "public keys that `oncebox links keygen` wrote, with commas between them"

// linkKeys refuses keys that the handler would not use, because the operator then believes that links work.
func (p parser) linkKeys(from ClaimantFrom) (keys claimlink.Keys) {
	text := p.Text(varLinkKeys)
	switch {
	case text == "" && from.source == fromLink:
		p.Wrong(varLinkKeys, "is missing", linkKeyForms)
	case text != "" && from.source != fromLink:
		p.Wrong(varLinkKeys, "has no effect: "+varClaimantFrom+" is not link", "link keys with link only")
	case text != "":
		var err error
		if keys, err = claimlink.ParseKeys(text); err != nil {
			p.Wrong(varLinkKeys, "is wrong: "+strings.TrimPrefix(err.Error(), "claimlink: "), linkKeyForms)
		}
	}
	return keys
}

func (p parser) campaignCache() time.Duration {
	const longest = itembank.DefaultCampaignCache // after it is closed, a campaign hands out items for at most this time
	return p.Duration(varCampaignCache, longest, 0, longest, "a duration of at most 5s, as in 500ms or 0")
}
