package infra

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
)

// ChallengeProps are the settings of a challenge before a claim.
type ChallengeProps struct {
	Provider string                    // ONCEBOX_CHALLENGE: turnstile, hcaptcha or recaptcha
	SiteKey  string                    // the public key that the provider gives to a site
	Secret   awssecretsmanager.ISecret // the provider's secret, as its text; import it with its complete ARN
	URL      string                    // ONCEBOX_CHALLENGE_URL; "" is the provider's own address
	Hosts    []string                  // ONCEBOX_CHALLENGE_HOSTS: host names of the pages whose solutions are accepted
}

func (c *ChallengeProps) set(env environment) {
	if c == nil {
		return
	}
	env["ONCEBOX_CHALLENGE"], env["ONCEBOX_CHALLENGE_SITE_KEY"] = c.Provider, c.SiteKey
	env["ONCEBOX_CHALLENGE_URL"], env["ONCEBOX_CHALLENGE_SECRET_ARN"] = c.URL, secretARN(c.Secret)
	env["ONCEBOX_CHALLENGE_HOSTS"] = strings.Join(c.Hosts, ",")
}

func (c *ChallengeProps) grants() []grant {
	if c == nil {
		return nil
	}
	return readSecret(c.Secret)
}
