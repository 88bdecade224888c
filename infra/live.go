package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// liveAlias is the name of the alias that all callers use, but for the mapping of a dedupe function with a canary.
const liveAlias = "live"

// newLive makes the alias of a function, and publishes a version for it. Lambda changes the code and the
// configuration of a function in two calls. Between these calls, a function with strict variables refuses to start
// (terraform-provider-aws, issue 24572). CloudFormation publishes the version after both calls, and then moves the
// alias. So callers of the alias get the old version until the new one is complete.
func newLive(scope constructs.Construct, function awslambda.Function) awslambda.Alias {
	return awslambda.NewAlias(scope, jsii.String("Live"), &awslambda.AliasProps{
		AliasName: jsii.String(liveAlias), Version: function.CurrentVersion(),
	})
}

// permitFirst makes the integrations of an API wait for the permissions of their function. CloudFormation does not
// know this order. Without it, an API that is changed to another function or alias could call it too early, and would
// answer 500 until the permission exists.
func permitFirst(api awsapigatewayv2.HttpApi) {
	var permissions []awslambda.CfnPermission
	var integrations []awsapigatewayv2.CfnIntegration
	for _, c := range *api.Node().FindAll(constructs.ConstructOrder_PREORDER) {
		switch c := c.(type) {
		case awslambda.CfnPermission:
			permissions = append(permissions, c)
		case awsapigatewayv2.CfnIntegration:
			integrations = append(integrations, c)
		}
	}
	for _, integration := range integrations {
		for _, permission := range permissions {
			integration.AddResourceDependency(permission, nil)
		}
	}
}
