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

// Challenge checks before a claim that a visitor is a person. The claim page shows the widget of the provider, which
// gives a solution to the visitor's browser. The handler asks the provider whether the solution is right.
type Challenge struct {
	Provider string // turnstile, hcaptcha or recaptcha
	SiteKey  string // from the provider, for a site; it is public
	URL      string // of the provider's siteverify call; "" means the provider's default
	// Hosts are the host names of the pages whose solutions are accepted, in lower case. If it is empty, only the
	// provider's own list for the site key decides.
	Hosts []string
	// Secret returns the provider's secret for the site.
	Secret func(context.Context) (string, error)
	// SecretARN names the secret in AWS Secrets Manager, if the settings have its ARN. Then Secret is nil until
	// HandlerOptions sets it.
	SecretARN string
}

// siteverify has the addresses of the providers' siteverify calls, from their documentation.
var siteverify = map[string]string{
	claimpage.Turnstile: "https://challenges.cloudflare.com/turnstile/v0/siteverify",
	claimpage.HCaptcha:  "https://api.hcaptcha.com/siteverify",
	claimpage.ReCAPTCHA: "https://www.google.com/recaptcha/api/siteverify",
}

var (
	errChallenge            = errors.New("claimapi: the challenge is not solved")
	errChallengeUnavailable = errors.New("claimapi: the solution of the challenge cannot be checked")
)

// WithChallenge refuses a claim request unless its body has a right solution in the member challenge. Other requests
// need no solution: a claimant can read their claim again without one.
func WithChallenge(c Challenge) Option {
	return func(h *Handler) { h.challenge = &c }
}

const (
	challengeTimeout = 3 * time.Second
	maxVerdict       = 64 << 10 // bytes of the provider's answer
)

// providerClient follows no redirect, because only the provider may get the secret.
var providerClient = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// verdict is the answer of a provider. Action is sent by Turnstile, and by versions of reCAPTCHA without a challenge.
type verdict struct {
	Success bool     `json:"success"`
	Host    string   `json:"hostname"` // of the page on which the challenge was solved
	Action  string   `json:"action"`   // the action that the page had given to the widget
	Errors  []string `json:"error-codes"`
}

// isFor reports whether the solution was made for a claim, on a page of these hosts. It accepts an answer without an
// action.
func (v verdict) isFor(hosts []string) bool {
	return (len(hosts) == 0 || slices.Contains(hosts, strings.ToLower(v.Host))) &&
		(v.Action == "" || v.Action == claimpage.ChallengeAction)
}

// checkChallenge returns nil if the solution in the body is right. Errors: errChallenge, errChallengeUnavailable,
// *itembank.InvalidError.
func (h *Handler) checkChallenge(ctx context.Context, sent body) error {
	if h.challenge == nil {
		return nil
	}
	solution, _, err := sent.text(challengeName)
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

// opaqueError hides the wrapped error, so that a time-out of the provider does not look like a time-out of the store.
type opaqueError struct{ err error }

func (e opaqueError) Error() string { return e.err.Error() }

// verify asks the provider. Its error contains neither the secret nor the solution.
func (c *Challenge) verify(ctx context.Context, solution string) (v verdict, err error) {
	if c.Secret == nil {
		return v, errors.New("the handler was made without a function that reads the secret")
	}
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

// onPage returns the part of the challenge that the page needs.
func (c *Challenge) onPage() *claimpage.Challenge {
	if c == nil {
		return nil
	}
	return &claimpage.Challenge{Provider: c.Provider, SiteKey: c.SiteKey}
}
