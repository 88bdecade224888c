package claimapi

import (
	"context"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/arn"
	"github.com/oncebox/oncebox/internal/awssecret"
	"github.com/oncebox/oncebox/pkg/awsclient"
)

// secretLife is how long the provider's secret is used before it is read again.
const secretLife = time.Minute

// challenge returns the challenge, or nil if none is set. It refuses settings of a challenge without a provider,
// because the operator then believes that claims are protected.
func (p parser) challenge() *Challenge {
	provider, file, secretARN := p.Text(varChallenge), p.Text(varChallengeFile), p.Text(varChallengeARN)
	_, isSecret := arn.Secret(secretARN)
	if provider == "" {
		for _, name := range []string{varChallengeSite, varChallengeFile, varChallengeARN, varChallengeURL, varChallengeHosts} {
			if p.Text(name) != "" {
				p.Wrong(name, "has no effect: "+varChallenge+" is not set", "with "+varChallenge+" only")
			}
		}
		return nil
	}
	c := &Challenge{
		Provider: provider, SiteKey: p.Required(varChallengeSite, "the site key that the provider gives out"), URL: p.Text(varChallengeURL),
		Hosts: p.List(varChallengeHosts),
	}
	for _, host := range c.Hosts {
		if ValidateOrigin("https://"+host) != nil || strings.Contains(host, ":") { // providers report hosts without a port
			p.Wrong(varChallengeHosts, "has a value that is not a host name", "host names with commas between them, as in shop.example")
			break
		}
	}
	if siteverify[provider] == "" {
		p.Wrong(varChallenge, "is not a provider", "turnstile, hcaptcha or recaptcha")
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		p.Wrong(varChallengeURL, "is not an address", "an http or https URL")
	}
	switch {
	case file == "" && secretARN == "":
		p.Wrong(varChallengeARN, "is missing, and no file with the secret is set", "a secret of Secrets Manager, or a file")
	case file != "" && secretARN != "":
		p.Wrong(varChallengeARN, "is set, and a file with the secret is set too", "only one of the two")
	case secretARN != "" && !isSecret:
		p.Wrong(varChallengeARN, "is not the ARN of a secret", arn.SecretForm)
	case secretARN != "":
		secret := &awssecret.Secret[string]{
			ARN: secretARN, Load: awsclient.FromEnvironment, Life: secretLife, Now: time.Now, Parse: awssecret.Text,
		}
		c.Secret = secret.Read
	default:
		c.Secret = func(context.Context) (string, error) {
			secret, err := os.ReadFile(file)
			return strings.TrimSpace(string(secret)), err
		}
	}
	return c
}
