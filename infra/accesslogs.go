package infra

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
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
