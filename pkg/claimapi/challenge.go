package claimapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/pkg/claimpage"
)

// Challenge is the check, before a claim, that a visitor is a person. The claim page shows the widget of the provider,
// which gives a solution to the visitor's browser. The handler asks the provider whether the solution is right.
type Challenge struct {
	Provider string // turnstile, hcaptcha or recaptcha
	SiteKey  string // which the provider gives out for a site; it is public
	URL      string // of the provider's siteverify call; "" is the provider's own
	// Hosts are the host names of pages whose solutions are taken, in lower case. Without any, the provider's own list
	// for the site key decides alone.
	Hosts []string
	// Secret returns the provider's secret for the site.
	Secret func(context.Context) (string, error)
}

// siteverify are the addresses of the providers' siteverify calls, from their documentation.
var siteverify = map[string]string{
	claimpage.Turnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	claimpage.HCaptcha:  "https://api.hcaptcha.com/siteverify",
	claimpage.ReCAPTCHA: "https://www.google.com/recaptcha/api/siteverify",
}

var (
	errChallenge            = errors.New("claimapi: the challenge is not solved")
	errChallengeUnavailable = errors.New("claimapi: the solution of the challenge cannot be checked")
)

// WithChallenge refuses requests for a claim whose body has no right solution in the member challenge. The other requests
// stay as they are: a claimant sees their claim again without one.
func WithChallenge(c Challenge) Option {
	return func(h *Handler) { h.challenge = &c }
}

const (
	challengeTimeout = 3 * time.Second
	maxVerdict       = 64 << 10 // bytes of the provider's answer
)

// providerClient follows no redirect: the secret is for the provider alone.
var providerClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// verdict is the answer of all providers. Action is of Turnstile, and of versions of reCAPTCHA that are no challenge.
type verdict struct {
	Success bool     `json:"success"`
	Host    string   `json:"hostname"` // of the page on which the challenge was solved
	Action  string   `json:"action"`   // that the page had given to the widget
	Errors  []string `json:"error-codes"`
}

// isFor reports whether the solution was made on a page of these hosts, for a claim. An answer without an action says
// nothing about it.
func (v verdict) isFor(hosts []string) bool {
	return (len(hosts) == 0 || slices.Contains(hosts, strings.ToLower(v.Host))) &&
		(v.Action == "" || v.Action == claimpage.ChallengeAction)
}

// solved returns nil if the solution in the body is right. Errors: errChallenge, errChallengeUnavailable,
// *itembank.InvalidError.
func (h *Handler) solved(ctx context.Context, sent body) error {
	if h.challenge == nil {
		return nil
	}
	solution, _, err := sent.text("challenge")
	switch {
	case err != nil:
		return err
	case solution == "":
		return errChallenge
	}
	ctx, cancel := context.WithTimeout(ctx, challengeTimeout)
	defer cancel()
	v, err := h.challenge.verify(ctx, solution)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errChallengeUnavailable, opaqueError{err})
	case v.Success && v.isFor(h.challenge.Hosts):
		return nil
	}
	for _, code := range v.Errors {
		if strings.HasSuffix(code, "-secret") || strings.HasPrefix(code, "sitekey-") || code == "internal-error" {
			return fmt.Errorf("%w: the provider says %q", errChallengeUnavailable, code)
		}
	}
	return errChallenge
}

// opaqueError hides what an error wraps. A time-out of the provider is not one of the store, which is worth repeating.
type opaqueError struct{ err error }

func (e opaqueError) Error() string { return e.err.Error() }

// verify asks the provider. The error holds neither secret nor solution.
func (c *Challenge) verify(ctx context.Context, solution string) (v verdict, err error) {
	secret, err := c.Secret(ctx)
	if err != nil {
		return v, err
	}
	address := c.URL
	if address == "" {
		address = siteverify[c.Provider]
	}
	form := url.Values{"secret": {secret}, "response": {solution}, "sitekey": {c.SiteKey}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		return v, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := providerClient.Do(request)
	if err != nil {
		return v, err
	}
	defer func() { _ = answer.Body.Close() }()
	err = json.NewDecoder(io.LimitReader(answer.Body, maxVerdict)).Decode(&v)
	switch {
	case err != nil:
		return v, fmt.Errorf("the provider answered with status %d: %w", answer.StatusCode, err)
	case v.Success && answer.StatusCode != http.StatusOK:
		return v, fmt.Errorf("the provider answered with status %d", answer.StatusCode)
	}
	return v, nil
}

// onPage is what the page shows.
func (c *Challenge) onPage() *claimpage.Challenge {
	if c == nil {
		return nil
	}
	return &claimpage.Challenge{Provider: c.Provider, SiteKey: c.SiteKey}
}
