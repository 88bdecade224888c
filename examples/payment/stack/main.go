// Command stack deploys examples/payment: its tables, the function, and an HTTP API whose callers have a token.
//
//	scripts/build-function ./examples/payment arm64 dist/payment/bootstrap
//	cdk deploy --app 'go run ./examples/payment/stack'
package main

import (
	"fmt"
	"os"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2authorizers"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

	"github.com/oncebox/oncebox/infra"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	defer jsii.Close()
	app := awscdk.NewApp(nil)
	if err := addPayments(awscdk.NewStack(app, jsii.String("payments"), nil)); err != nil {
		return err
	}
	app.Synth(nil)
	return nil
}

func addPayments(stack awscdk.Stack) error {
	table, err := infra.NewTable(stack, "Once", infra.TableProps{}) // or the dedupe table of claims and records
	if err != nil {
		return err
	}
	charges := awsdynamodb.NewTableV2(stack, jsii.String("Charges"), &awsdynamodb.TablePropsV2{
		PartitionKey: &awsdynamodb.Attribute{Name: jsii.String("id"), Type: awsdynamodb.AttributeType_STRING},
	})
	function := awslambda.NewFunction(stack, jsii.String("Payment"), &awslambda.FunctionProps{
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: awslambda.Architecture_ARM_64(),
		Handler:      jsii.String("bootstrap"),
		Code:         awslambda.Code_FromAsset(jsii.String("dist/payment"), nil),
		MemorySize:   jsii.Number(512),
		Timeout:      awscdk.Duration_Seconds(jsii.Number(20)), // API Gateway waits for 30 seconds
		Environment: &map[string]*string{
			"DEDUPE_TABLE": table.TableName(), "CHARGES": charges.TableName(),
			"PAYMENT_API": jsii.String("https://payments.example"),
		},
	})
	if err := infra.GrantNamespace(table, "payments", function); err != nil {
		return err
	}
	charges.Grant(function, jsii.String("dynamodb:PutItem")) // for the effect in the transaction
	if _, err := infra.NewHandlerAlarms(stack, "Alarms", "payments", function, infra.AlarmProps{}); err != nil {
		return err
	}

	// The token names the customer, to whom the keys belong.
	authorizer := awsapigatewayv2authorizers.NewHttpJwtAuthorizer(jsii.String("Login"),
		jsii.String("https://login.shop.example"),
		&awsapigatewayv2authorizers.HttpJwtAuthorizerProps{JwtAudience: jsii.Strings("shop")})
	api := awsapigatewayv2.NewHttpApi(stack, jsii.String("API"), nil)
	api.AddRoutes(&awsapigatewayv2.AddRoutesOptions{
		Path: jsii.String("/payments"), Methods: &[]awsapigatewayv2.HttpMethod{awsapigatewayv2.HttpMethod_POST},
		Integration: awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Integration"), function, nil),
		Authorizer:  authorizer,
	})
	awscdk.NewCfnOutput(stack, jsii.String("URL"), &awscdk.CfnOutputProps{Value: api.Url()})
	return nil
}
