package infra

import (
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/jsii-runtime-go"
)

// hostName is API Gateway's rule for names of domains, but without wildcards, because the claim page is at one
// address.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`)

// checkDomain refuses a domain without a certificate, and an API without an address.
func (p ClaimAPIProps) checkDomain(wrong *problems) {
	name, certificate, endpoint := wrong.of("DomainName"), wrong.of("Certificate"), wrong.of("ExecuteAPIEndpoint")
	switch {
	case p.DomainName == "" && p.Certificate != nil:
		wrong.add("%s needs %s: the host name of the certificate", certificate, name)
	case p.DomainName == "" && p.ExecuteAPIEndpoint == switchText(false):
		wrong.add("%s=off needs %s: without the endpoint and without a domain, no client could reach the API", endpoint, name)
	case p.DomainName == "":
	case p.Certificate == nil:
		wrong.add("%s needs %s: a certificate for %q of Certificate Manager, in the region of the stack", name, certificate,
			p.DomainName)
	case !token.MatchString(p.DomainName) && (len(p.DomainName) > 253 || !hostName.MatchString(p.DomainName)):
		wrong.add("%s is %q; write a host name in lower case, as in claims.example.com", name, p.DomainName)
	}
}

// newDomain maps the domain of the props to the API, at its root.
func (c *ClaimAPI) newDomain(p ClaimAPIProps, stage awsapigatewayv2.HttpStage) {
	if p.DomainName == "" {
		return
	}
	c.Domain = awsapigatewayv2.NewDomainName(c.Construct, jsii.String("Domain"), &awsapigatewayv2.DomainNameProps{
		DomainName: &p.DomainName, Certificate: p.Certificate,
		SecurityPolicy: awsapigatewayv2.SecurityPolicy_TLS_1_2,
	})
	awsapigatewayv2.NewApiMapping(c.Construct, jsii.String("Mapping"), &awsapigatewayv2.ApiMappingProps{
		Api: c.API, DomainName: c.Domain, Stage: stage,
	})
	c.URL = "https://" + p.DomainName
}

// onlyTrue leaves a property out of the template unless it is set.
func onlyTrue(value bool) *bool {
	if !value {
		return nil
	}
	return &value
}
