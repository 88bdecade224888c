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
	s := p.s
	if s.Challenge == "" {
		for name, set := range map[any]bool{
			&s.ChallengeSiteKey: s.ChallengeSiteKey != "", &s.ChallengeSecretFile: s.ChallengeSecretFile != "",
			&s.ChallengeSecretARN: s.ChallengeSecretARN != "", &s.ChallengeURL: s.ChallengeURL != "",
			&s.ChallengeHosts: s.ChallengeHosts != nil,
		} {
			if set {
				challenge := p.Variable(&s.Challenge)
				p.Refuse(name, "has no effect: "+challenge+" is not set", "with "+challenge+" only")
			}
		}
		return nil
	}
	c := &Challenge{
		Provider: s.Challenge, SiteKey: s.ChallengeSiteKey, URL: s.ChallengeURL, Hosts: s.ChallengeHosts,
		Secret: p.challengeSecret(),
	}
	if c.SiteKey == "" {
		p.Refuse(&s.ChallengeSiteKey, "is missing", "")
	}
	for _, host := range c.Hosts {
		if ValidateOrigin("https://"+host) != nil || strings.Contains(host, ":") { // providers report hosts without a port
			p.Refuse(&s.ChallengeHosts, "has a value that is not a host name", "")
			break
		}
	}
	if u, err := url.Parse(c.URL); c.URL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		p.Refuse(&s.ChallengeURL, "is not an address", "")
	}
	return c
}

// challengeSecret returns what reads the provider's secret.
func (p parser) challengeSecret() func(context.Context) (string, error) {
	file, secretARN := p.s.ChallengeSecretFile, &p.s.ChallengeSecretARN
	_, isSecret := arn.Secret(*secretARN)
	switch {
	case file == "" && *secretARN == "":
		p.Refuse(secretARN, "is missing, and no file with the secret is set", "a secret of Secrets Manager, or a file")
	case file != "" && *secretARN != "":
		p.Refuse(secretARN, "is set, and a file with the secret is set too", "only one of the two")
	case *secretARN != "" && !isSecret:
		p.Refuse(secretARN, "is not the ARN of a secret", arn.SecretForm)
	case *secretARN != "":
		secret := &awssecret.Secret[string]{
			ARN: *secretARN, Load: awsclient.FromEnvironment, Life: secretLife, Now: time.Now, Parse: awssecret.Text,
		}
		return secret.Read
	}
	return func(context.Context) (string, error) {
		secret, err := os.ReadFile(file)
		return strings.TrimSpace(string(secret)), err
	}
}
