package infra

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// accessLogFields is a line of the access log. Personal data stays out of it: no
// path and no caller, which name claimants, no address and no browser. The request
// id leads to the function's log.
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
}

// newAccessLogGroup makes a log group of a name that AWS has set apart: API Gateway
// writes every other one into a policy of the region that has room for a few dozen
// (CloudWatch Logs User Guide, "Enable logging from AWS services", on log groups and
// /aws/vendedlogs/). The name has a part of the stack's id, so that a group that
// stayed is not in the way of the next stack.
func newAccessLogGroup(scope constructs.Construct, retention awslogs.RetentionDays, disposable bool) awslogs.LogGroup {
	id := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), awscdk.Stack_Of(scope).StackId(), nil))
	return awslogs.NewLogGroup(scope, jsii.String("AccessLogs"), &awslogs.LogGroupProps{
		LogGroupName:  jsii.String("/aws/vendedlogs/" + apiName(scope) + "/" + *id),
		Retention:     retention,
		RemovalPolicy: removalPolicy(disposable),
	})
}

func writeAccessLogs(stage awsapigatewayv2.HttpStage, logs awslogs.LogGroup) {
	format, err := json.Marshal(accessLogFields)
	if err != nil {
		panic(err) // a map of texts
	}
	stage.Node().DefaultChild().(awsapigatewayv2.CfnStage).SetAccessLogSettings(&awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		DestinationArn: awsapigatewayv2.NewLogGroupLogDestination(logs).Bind(stage).DestinationArn,
		Format:         jsii.String(string(format)),
	})
}
