package claimpage

// Challenge is the check of an external provider that a visitor is a person.
type Challenge struct {
	Provider string // one of Providers
	SiteKey  string // from the provider, for a site; it is public
}

// ChallengeAction is the action that the page gives to the widget. Turnstile repeats it when a solution is checked.
const ChallengeAction = "oncebox-claim"

// provider says how the page loads the widget of a provider.
type provider struct {
	script  string
	global  string // the script's global object, which has render and reset
	sources string // for the Content-Security-Policy
}

// Providers are the providers of challenges. Sources: the providers' pages on explicit rendering and on
// Content-Security-Policy.
const (
	Turnstile = "turnstile"
	HCaptcha  = "hcaptcha"
	ReCAPTCHA = "recaptcha"
)

var providers = map[string]provider{
	Turnstile: {
		script: "https://challenges.cloudflare.com/turnstile/v0/api.js", global: "turnstile",
		sources: "https://challenges.cloudflare.com",
	},
	HCaptcha: {
		script: "https://js.hcaptcha.com/1/api.js", global: "hcaptcha",
		sources: "https://hcaptcha.com https://*.hcaptcha.com",
	},
	ReCAPTCHA: {
		script: "https://www.google.com/recaptcha/api.js", global: "grecaptcha",
		sources: "https://www.google.com/recaptcha/ https://www.gstatic.com/recaptcha/ https://recaptcha.google.com/recaptcha/",
	},
}

// widget has the settings of a challenge that the script needs.
type widget struct {
	SiteKey string `json:"site_key"`
	Action  string `json:"action"`
	Script  string `json:"script"`
	Global  string `json:"global"`
}

func (c *Challenge) widget() *widget {
	if c == nil {
		return nil
	}
	p := providers[c.Provider]
	return &widget{c.SiteKey, ChallengeAction, p.script, p.global}
}
