package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// ChallengeProps are the settings of a challenge before a claim.
type ChallengeProps struct {
	Provider string                    // ONCEBOX_CHALLENGE: turnstile, hcaptcha or recaptcha
	SiteKey  string                    // the public key that the provider gives to a site
	Secret   awssecretsmanager.ISecret // the provider's secret, as its text; import it with its complete ARN
	URL      string                    // ONCEBOX_CHALLENGE_URL; "" is the provider's own address
	Hosts    []string                  // ONCEBOX_CHALLENGE_HOSTS: host names of the pages whose solutions are accepted
}

func (c *ChallengeProps) set(s *claimapi.Settings) {
	if c == nil {
		return
	}
	s.Challenge, s.ChallengeSiteKey, s.ChallengeURL, s.ChallengeHosts = c.Provider, c.SiteKey, c.URL, c.Hosts
	s.ChallengeSecretARN = secretARN(c.Secret)
}

func (c *ChallengeProps) grants() []grant {
	if c == nil {
		return nil
	}
	return readSecret(c.Secret)
}
