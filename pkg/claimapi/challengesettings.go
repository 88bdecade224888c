package claimapi

import (
	"context"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/internal/shared/address"
)

// challenge reads the address of a challenge, PROVIDER?OPTION=VALUE&... It returns nil if none is set. The options are
//
//	site-key     of the provider, which is public; required
//	secret-arn   the ARN of a secret of AWS Secrets Manager with the secret of the provider
//	secret-file  a file with it, in the place of secret-arn
//	hosts        the host names of the pages whose solutions are accepted, with commas between
//	url          the address of the siteverify call, if it is not the default of the provider
func (p parser) challenge() *Challenge {
	if p.s.Challenge == "" {
		return nil
	}
	a := address.Parse(p.s.Challenge)
	c := &Challenge{
		Provider: a.Scheme, SiteKey: a.Required("site-key", "the site key that the provider gives out"), URL: a.Text("url"),
		Hosts: a.List("hosts"),
	}
	c.readSecretOf(a)
	if siteverify[c.Provider] == "" || p.s.Challenge != a.Scheme && !strings.HasPrefix(p.s.Challenge, a.Scheme+"?") {
		a.WrongPlace("is not a provider", "turnstile, hcaptcha or recaptcha, and ? before the options")
	}
	if slices.ContainsFunc(c.Hosts, wrongHost) {
		a.Wrong("hosts", "has a value that is not a host name", "host names with commas between them, as in shop.example")
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		a.Wrong("url", "is not an address", "an http or https URL")
	}
	p.WrongAddress(p.Variable(&p.s.Challenge), a.Done("hosts", "secret-arn", "secret-file", "site-key", "url"))
	return c
}

// wrongHost reports whether a text is not a host name. Providers report hosts without a port.
func wrongHost(host string) bool {
	return ValidateOrigin("https://"+host) != nil || strings.Contains(host, ":")
}

// readSecretOf sets where the provider's secret is.
func (c *Challenge) readSecretOf(a address.Address) {
	file, secretARN := a.Text("secret-file"), a.Text("secret-arn")
	_, isSecret := arn.Secret(secretARN)
	switch {
	case file == "" && secretARN == "":
		a.Wrong("secret-arn", "is missing, and so is secret-file", "a secret of Secrets Manager, or a file")
	case file != "" && secretARN != "":
		a.Wrong("secret-arn", "is given, and so is secret-file", "one of them")
	case secretARN != "" && !isSecret:
		a.Wrong("secret-arn", "is not the ARN of a secret", arn.SecretForm)
	case secretARN != "":
		c.SecretARN = secretARN
	default:
		c.Secret = func(context.Context) (string, error) {
			secret, err := os.ReadFile(file)
			return strings.TrimSpace(string(secret)), err
		}
	}
}
