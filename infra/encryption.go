package infra

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// encryptEnvironment encrypts the variables of the function with the key of the props, instead of a key of AWS.
func (p FunctionProps) encryptEnvironment(function awslambda.CfnFunction) {
	if p.EnvironmentKey != nil {
		function.SetKmsKeyArn(p.EnvironmentKey.KeyArn())
	}
}

// logKeyWarning is the CDK's id of the warning. Users acknowledge the warning with it.
const logKeyWarning = "oncebox:logKeyPolicy"

// encryptLogs lets CloudWatch Logs use the key of the props (CloudWatch Logs User Guide, "Encrypt log data in
// CloudWatch Logs using AWS Key Management Service"). It cannot change the policy of an imported key. For such a key
// the synthesis warns, because CloudFormation cannot make the log groups if the policy lacks the statement. The
// statement names all log groups of the account and region. If it named one group, key and log group would wait for
// each other.
func (p FunctionProps) encryptLogs(scope constructs.Construct) {
	if p.LogKey == nil {
		return
	}
	stack := awscdk.Stack_Of(scope)
	service := "logs." + *stack.Region() + "." + *stack.UrlSuffix()
	groups := *stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("logs"), Resource: jsii.String("*"), ArnFormat: awscdk.ArnFormat_NO_RESOURCE_NAME,
	})
	statement := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(&service, nil)},
		Actions: jsii.Strings(
			"kms:Decrypt", "kms:Describe*", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"),
		Resources:  jsii.Strings("*"), // in the policy of a key: this key
		Conditions: &map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": groups}},
	})
	if *p.LogKey.AddToResourcePolicy(statement, jsii.Bool(true)).StatementAdded {
		return
	}
	awscdk.Annotations_Of(scope).AddWarningV2(jsii.String(logKeyWarning), jsii.String(
		"The key of the logs was imported, so its policy is not changed here. It must allow "+
			"logs.REGION.amazonaws.com to use kms:Encrypt, kms:Decrypt, kms:ReEncrypt*, kms:GenerateDataKey* and "+
			"kms:Describe*, else the deployment fails. docs/deploy.md has the statement."))
}
