package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/pkg/claimapi"
)

func (p ClaimAPIProps) checkPage() error {
	wrong := problems{naming: p.names}
	if auth := wrong.of("Auth"); p.hasPage() && p.Auth == AuthIAM {
		wrong.add("%s needs %s=link, %[2]s=jwt or %[2]s=open: browsers sign no requests", wrong.of("Page"), auth)
	}
	for _, origin := range p.Settings.CORSOrigins {
		if err := claimapi.ValidateOrigin(origin); err != nil {
			wrong.add("%s: %q %w", wrong.of("CORSOrigins"), origin, err)
		}
	}
	return wrong.err()
}

// cors returns nil without origins. In that case API Gateway sends no CORS headers.
func (p ClaimAPIProps) cors() *awsapigatewayv2.CorsPreflightOptions {
	if len(p.Settings.CORSOrigins) == 0 {
		return nil
	}
	methods := []awsapigatewayv2.CorsHttpMethod{
		awsapigatewayv2.CorsHttpMethod_GET, awsapigatewayv2.CorsHttpMethod_POST, awsapigatewayv2.CorsHttpMethod_DELETE,
	}
	return &awsapigatewayv2.CorsPreflightOptions{
		AllowOrigins: jsii.Strings(p.Settings.CORSOrigins...), AllowMethods: &methods,
		AllowHeaders:  jsii.Strings(claimapi.CORSRequestHeaders()...),
		ExposeHeaders: jsii.Strings(claimapi.CORSResponseHeaders()...),
		MaxAge:        awscdk.Duration_Seconds(jsii.Number(claimapi.CORSMaxAge.Seconds())),
	}
}
