package infra

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

// corsMaxAge is how long browsers remember API Gateway's CORS answer. It is the longest time that any browser
// accepts.
const corsMaxAge = 2 * time.Hour

func (p ClaimAPIProps) checkPage() error {
	wrong := problems{naming: p.names}
	if p.hasPage() && p.Auth.kind == authIAM {
		wrong.add("%s needs %s, %s or %s: browsers sign no requests", p.names.of("Page"),
			p.names.of(string(authLink)), p.names.of(string(authJWT)), p.names.of(string(authOpen)))
	}
	for _, origin := range p.CORSOrigins {
		if err := claimapi.ValidateOrigin(origin); err != nil {
			wrong.add("%s: %q %w", p.names.of("CORSOrigins"), origin, err)
		}
	}
	return wrong.err()
}

// cors returns nil without origins. In that case API Gateway sends no CORS headers.
func (p ClaimAPIProps) cors() *awsapigatewayv2.CorsPreflightOptions {
	if len(p.CORSOrigins) == 0 {
		return nil
	}
	methods := []awsapigatewayv2.CorsHttpMethod{
		awsapigatewayv2.CorsHttpMethod_GET, awsapigatewayv2.CorsHttpMethod_POST, awsapigatewayv2.CorsHttpMethod_DELETE,
	}
	return &awsapigatewayv2.CorsPreflightOptions{
		AllowOrigins: jsii.Strings(p.CORSOrigins...), AllowMethods: &methods,
		AllowHeaders:  jsii.Strings(claimapi.CORSRequestHeaders()...),
		ExposeHeaders: jsii.Strings(claimapi.CORSResponseHeaders()...),
		MaxAge:        awscdk.Duration_Seconds(jsii.Number(corsMaxAge.Seconds())),
	}
}
