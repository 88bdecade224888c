package infra

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// accessLogFields are the members of a line of the access log. No member holds personal data: path and caller would
// name the claimant, and address and user agent would identify a person. The request id finds the line in the
// function's log. The errors are texts of API Gateway and of its authorizers. They say why a request was refused
// before it reached the function, and contain no token and no part of a token.
var accessLogFields = map[string]string{
	"requestId":               "$context.requestId",
	"requestTime":             "$context.requestTime",
	"routeKey":                "$context.routeKey",
	"status":                  "$context.status",
	"responseLength":          "$context.responseLength",
	"responseLatency":         "$context.responseLatency",
	"integrationStatus":       "$context.integration.status",
	"integrationLatency":      "$context.integration.latency",
	"integrationErrorMessage": "$context.integrationErrorMessage",
	"errorMessage":            "$context.error.message",
	"authorizerError":         "$context.authorizer.error",
}

// newAccessLogGroup makes a log group whose name begins with /aws/vendedlogs/. API Gateway adds every other group to
// a resource policy of the region, which has room for a few dozen (CloudWatch Logs User Guide, "Enable logging from
// AWS services"). The name ends with a part of the stack's id. So a group that stayed does not collide with the group
// of the next stack.
func newAccessLogGroup(scope constructs.Construct, p FunctionProps, disposable bool) awslogs.LogGroup {
	return awslogs.NewLogGroup(scope, jsii.String("AccessLogs"), &awslogs.LogGroupProps{
		LogGroupName:  accessLogGroupName(scope, apiName(scope)),
		Retention:     p.LogRetention,
		EncryptionKey: p.LogKey,
		RemovalPolicy: keepUnlessRolledBack(disposable),
	})
}

func accessLogGroupName(scope constructs.Construct, api string) *string {
	id := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), awscdk.Stack_Of(scope).StackId(), nil))
	return jsii.String("/aws/vendedlogs/" + api + "/" + *id)
}

func writeAccessLogs(stage awsapigatewayv2.HttpStage, logs awslogs.LogGroup) {
	format, err := json.Marshal(accessLogFields)
	if err != nil {
		panic(err) // a map of strings can always be encoded
	}
	settings := &awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		DestinationArn: awsapigatewayv2.NewLogGroupLogDestination(logs).Bind(stage).DestinationArn,
		Format:         jsii.String(string(format)),
	}
	stage.Node().DefaultChild().(awsapigatewayv2.CfnStage).SetAccessLogSettings(settings)
}
