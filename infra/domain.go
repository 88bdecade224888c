package infra

import (
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/jsii-runtime-go"
)

// DomainProps are a domain name of yours for an API.
type DomainProps struct {
	// Name is the host name, as in claims.example.com. A record of your DNS must point from it to the domain name of
	// API Gateway, which is in [ClaimAPI.Domain].
	Name string

	// Certificate is the certificate of the name, in the region of the stack.
	Certificate awscertificatemanager.ICertificate
}

// hostName is API Gateway's rule for names of domains, but without wildcards, because the claim page is at one
// address.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}$`)

// checkDomain refuses a domain without a certificate, and an API without an address.
func (p ClaimAPIProps) checkDomain(wrong *problems) {
	name, certificate := wrong.of("Domain.Name"), wrong.of("Domain.Certificate")
	switch d := p.Domain; {
	case d == nil && p.DisableExecuteAPIEndpoint:
		wrong.add("%s needs %s: without the endpoint and without a domain, no client could reach the API",
			wrong.of("DisableExecuteAPIEndpoint"), name)
	case d == nil:
	case d.Certificate == nil:
		wrong.add("%s needs %s: a certificate for %q of Certificate Manager, in the region of the stack", name, certificate,
			d.Name)
	case d.Name == "":
		wrong.add("%s needs %s: the host name of the certificate", certificate, name)
	case !token.MatchString(d.Name) && (len(d.Name) > 253 || !hostName.MatchString(d.Name)):
		wrong.add("%s is %q; write a host name in lower case, as in claims.example.com", name, d.Name)
	}
}

// newDomain maps the domain of the props to the API, at its root.
func (c *ClaimAPI) newDomain(p ClaimAPIProps, stage awsapigatewayv2.HttpStage) {
	if p.Domain == nil {
		return
	}
	c.Domain = awsapigatewayv2.NewDomainName(c.Construct, jsii.String("Domain"), &awsapigatewayv2.DomainNameProps{
		DomainName: &p.Domain.Name, Certificate: p.Domain.Certificate,
		SecurityPolicy: awsapigatewayv2.SecurityPolicy_TLS_1_2,
	})
	awsapigatewayv2.NewApiMapping(c.Construct, jsii.String("Mapping"), &awsapigatewayv2.ApiMappingProps{
		Api: c.API, DomainName: c.Domain, Stage: stage,
	})
	c.URL = "https://" + p.Domain.Name
}

// onlyTrue leaves a property out of the template unless it is set.
func onlyTrue(value bool) *bool {
	if !value {
		return nil
	}
	return &value
}
