package claimapi

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// Settings are the settings of the function in functions/claim, in words. The field XY is the variable ONCEBOX_X_Y; its
// zero value means that the setting is not set. docs/configuration.md has the defaults.
type Settings struct {
	// table of campaigns and items
	BankTable string `table:"" required:"" function:""`
	// table of claims
	DedupeTable string `table:"" required:"" function:""`
	// `jwt:CLAIM`, `iam`, `iam:session`, `iam:role`, `link` or `body`: [who is the
	// claimant](http-api.md#who-is-the-claimant). `oncebox local` takes `body`, the default there, or `link`. `oncebox
	// invoke` takes `body` by default.
	ClaimantFrom string `unset:"required"`
	// the callers that the routes of the API let through, who may name any claimant. `iam`: a request without an IAM
	// identity that API Gateway has verified is answered 401. `any`: every caller of an open API. The stack sets it. It
	// is refused without `body`. `oncebox local` needs none: it has no routes of API Gateway.
	Caller string `unset:"required with body" oneof:"iam,any" is:"a caller" allowed:"iam (the routes require an IAM identity), or any (the routes require nothing)"`
	// required with `link`, and refused without it: the public keys of [personal
	// links](page-and-links.md#personal-links), with commas or white space between them
	LinkKeys string
	// how long a copy of a campaign's rules is used: at most `5s`. `0` reads them for every request: one more request
	// and one more read unit a claim, and all requests read one row, which a partition serves 3,000 times a second at
	// most
	CampaignCache *time.Duration `default:"5s" most:"5s" allowed:"a duration of at most 5s, as in 500ms or 0"`
	// `on`: a caller who is the claimant, or any caller with `ONCEBOX_CALLER=any`, may [confirm a
	// hold](http-api.md#confirm-a-hold). With `ONCEBOX_CALLER=iam` the callers are back ends, which always may.
	ClaimantsConfirm string `default:"off" oneof:"on,off"`
	// `on`: the function serves the [claim page](page-and-links.md#the-claim-page) at `/c/{campaign}`. `oncebox local`
	// and `oncebox invoke` have it on by default.
	Page string `default:"off" oneof:"on,off"`
	// `turnstile`, `hcaptcha` or `recaptcha`, with [options](#addresses-of-challenges): a claim needs a solution of this
	// provider's [challenge](page-and-links.md#a-challenge-before-a-claim)
	Challenge string `allowed:"turnstile, hcaptcha or recaptcha, with ?site-key=KEY&secret-arn=ARN"`
	// the [origins of other sites](http-api.md#from-pages-of-other-origins) whose pages may call the API from a browser,
	// with commas between them. For `oncebox local` only: in AWS, API Gateway has them.
	CORSOrigins []string `local:"API Gateway has the origins" allowed:"origins with commas between them, as in https://shop.example"`
	// `on`: log lines have [metrics](operations.md#metrics), at every log level. The stack sets it. It has no effect on
	// `oncebox local`.
	Metrics string `default:"off" oneof:"on,off" function:""`
	// `debug`, `info`, `warn` or `error`
	LogLevel string `default:"info" oneof:"debug,info,warn,error" is:"a log level"`
}

// Environ returns the settings in the form of os.Environ, as ParseSettings reads them.
func (s Settings) Environ() []string { return settings.Environ(s) }

// Variables returns the names of all variables of the function. Programs that share the environment with it can use
// them to distinguish its variables from misspelt names.
func Variables() []string { return settings.Variables(Settings{}) }

// Options are what the settings mean for a handler. They do not depend on its store.
type Options struct {
	ClaimantFrom     ClaimantFrom
	AnyCaller        bool // see WithAnyCaller
	LinkKeys         claimlink.Keys
	CampaignCache    time.Duration // how long a copy of a campaign's rules is used; 0 reads them for every request
	ClaimantsConfirm bool          // see WithClaimantsConfirm
	Page             bool          // see WithPage
	Challenge        *Challenge    // see WithChallenge; nil: no challenge
	CORSOrigins      []string      // for AllowOrigins; set by ParseOptions only
	Metrics          string        // the namespace of the metrics: see WithMetrics; set by ParseSettings only
	LogLevel         slog.Level
}

// HandlerOptions returns the options of New for the settings. This package imports no AWS SDK. So secrets returns the
// function that reads the text of a secret in AWS Secrets Manager, by its ARN. It may be nil: then a challenge whose
// secret is there cannot be checked, and its claims are answered 503.
func (o Options) HandlerOptions(secrets func(arn string) func(context.Context) (string, error)) []Option {
	options := []Option{
		WithClaimantsConfirm(o.ClaimantsConfirm), WithAnyCaller(o.AnyCaller), WithLinkKeys(o.LinkKeys), WithMetrics(o.Metrics),
	}
	if o.Page {
		options = append(options, WithPage(o.CampaignCache))
	}
	if o.Challenge != nil {
		challenge := *o.Challenge
		if challenge.Secret == nil && secrets != nil {
			challenge.Secret = secrets(challenge.SecretARN)
		}
		options = append(options, WithChallenge(challenge))
	}
	return options
}

// ParseSettings reads the settings of the function from an environment in the form of os.Environ, and returns them and
// what they mean. An empty variable counts as not set. Any other ONCEBOX_ variable is an error, because it is misspelt or
// belongs to another function. The error lists everything that is wrong, with the values that are allowed. It does not
// repeat the values.
func ParseSettings(environ []string) (s Settings, o Options, err error) {
	p := parser{settings.Read(environ, &s, true), &s}
	if s.BankTable != "" && s.BankTable == s.DedupeTable {
		p.Refuse(&s.DedupeTable, "is the table of "+p.Variable(&s.BankTable), "another table")
	}
	o = p.options(false)
	if p.On(&s.Metrics) {
		o.Metrics = settings.Namespace(environ)
	}
	return s, o, p.Err()
}

// ParseOptions reads the settings of a handler that runs outside of Lambda, as in `oncebox local`. The caller chooses
// the store. The claimant comes from the body by default, and the claim page is on. ONCEBOX_CORS_ORIGINS are the origins
// for AllowOrigins. Other ONCEBOX_ variables are ignored. The error is like the error of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	var s Settings
	p := parser{settings.Read(environ, &s, false), &s}
	o := p.options(true)
	o.CORSOrigins = s.CORSOrigins
	if slices.ContainsFunc(o.CORSOrigins, func(origin string) bool { return ValidateOrigin(origin) != nil }) {
		p.Refuse(&s.CORSOrigins, "has a value that is not an origin", "")
	}
	return o, p.Err()
}

// parser finds out what settings mean together.
type parser struct {
	*settings.Reader
	s *Settings
}

// options returns what the settings mean for a handler. Outside of Lambda, local, fewer are required, and the page is on.
func (p parser) options(local bool) Options {
	if local {
		p.s.ClaimantFrom, p.s.Page = cmp.Or(p.s.ClaimantFrom, fromBody), cmp.Or(p.s.Page, "on")
	}
	o := Options{
		ClaimantFrom: p.claimantFrom(), CampaignCache: itembank.DefaultCampaignCache,
		ClaimantsConfirm: p.On(&p.s.ClaimantsConfirm), Page: p.On(&p.s.Page), Challenge: p.challenge(),
		LogLevel: p.Level(&p.s.LogLevel),
	}
	o.AnyCaller, o.LinkKeys = p.anyCaller(o.ClaimantFrom, local), p.linkKeys(o.ClaimantFrom)
	if cache := p.s.CampaignCache; cache != nil {
		o.CampaignCache = *cache // after it is closed, a campaign hands out items for at most this time
	}
	return o
}

func (p parser) claimantFrom() ClaimantFrom {
	from, err := ParseClaimantFrom(p.s.ClaimantFrom)
	switch {
	case p.s.ClaimantFrom == "":
		p.Refuse(&p.s.ClaimantFrom, "is missing", claimantFromForms)
	case err != nil:
		p.Refuse(&p.s.ClaimantFrom, "is not a source of claimants", claimantFromForms)
	}
	return from
}

// anyCaller is the word for callers without an identity.
const anyCaller = "any"

// anyCaller reads who may name any claimant. It has no default in the function: routes and function must agree.
func (p parser) anyCaller(from ClaimantFrom, local bool) bool {
	caller := &p.s.Caller
	switch {
	case *caller != "" && from.source != fromBody:
		p.Refuse(caller, "has no effect: "+p.Variable(&p.s.ClaimantFrom)+" is not body", "iam or any with body only")
	case *caller == "" && from.source == fromBody && !local:
		p.Refuse(caller, "is missing", "")
	}
	return *caller == anyCaller
}

const linkKeyForms = "public keys that `oncebox links keygen` wrote, with commas between them"

// linkKeys refuses keys that the handler would not use, because the operator then believes that links work.
func (p parser) linkKeys(from ClaimantFrom) (keys claimlink.Keys) {
	text := &p.s.LinkKeys
	switch {
	case *text == "" && from.source == fromLink:
		p.Refuse(text, "is missing", linkKeyForms)
	case *text != "" && from.source != fromLink:
		p.Refuse(text, "has no effect: "+p.Variable(&p.s.ClaimantFrom)+" is not link", "link keys with link only")
	case *text != "":
		var err error
		if keys, err = claimlink.ParseKeys(*text); err != nil {
			p.Refuse(text, "is wrong: "+strings.TrimPrefix(err.Error(), "claimlink: "), linkKeyForms)
		}
	}
	return keys
}
