package stack

// An acceptance is the reason why the findings of a rule in resources of templates are left. A finding without an
// acceptance fails [TestCheckers], and so does an acceptance without a finding.
type acceptance struct {
	rule      string // regular expressions, each of the whole text; "" is any
	resource  string
	templates string
	reason    string
}

// accepted lists the acceptances for the findings of cfn-lint and cdk-nag.
var accepted = []acceptance{
	{rule: `W3005`, reason: "the CDK writes out orders that CloudFormation finds by itself"},
	{
		rule: `F3033`, resource: `.*Alarm.*`, templates: `plain-.*`,
		reason: "it takes the default of the parameter, no topic, for one; without a topic a condition leaves the list out",
	},

	// Who may do what.
	{
		rule: `AwsSolutions-APIG4`, templates: `link`,
		reason: "with links the function checks the signed token of each claimant, and it serves the claim page to everybody",
	},
	{
		rule: `AwsSolutions-APIG4`, templates: `plain-.*`,
		reason: "it does not follow parameters: routes of the API have AWS_IAM by default, and the page needs no authorization",
	},
	{
		rule: `AwsSolutions-APIG4`, templates: `every-setting`,
		reason: "the golden of claims.auth=open, which a user has chosen: something in front of the API checks callers",
	},
	{
		rule:   `AwsSolutions-IAM5\[Action::kms:(GenerateDataKey|ReEncrypt)\*\]`,
		reason: "DynamoDB asks for all forms of both actions, on a customer's key alone and through DynamoDB alone",
	},
	{
		rule:   `AwsSolutions-IAM5\[Resource::.*/(poison/[^*]+|aws/lambda)/\*\]`,
		reason: "objects of dead letters have names that are not known before, below their own prefix",
	},
	{
		rule: `AwsSolutions-IAM5\[Resource::arn:<AWS::Partition>:s3:::their-lake/(events|records)/\*\]`, templates: `objects|former-keys`,
		reason: "delivered objects have names that are not known before, below the prefix that the user chose",
	},
	{
		rule:     `AwsSolutions-IAM5\[Resource::(arn:<AWS::Partition>:s3:::their-exports/oncebox-Claims/|<.*Table.*\.Arn>/export/)\*\]`,
		resource: `.*ExportRole.*`, templates: `customer-key`,
		reason: "DynamoDB chooses the names of exports and of their objects, below the prefix of the API",
	},
	{
		rule:     `AwsSolutions-IAM5\[Resource::arn:<AWS::Partition>:backup:eu-west-1:123456789012:recovery-point:\*\]`,
		resource: `.*BackupRole.*`, templates: `customer-key`,
		reason: "AWS Backup chooses the names of backups; the role copies them to the vault of the user only",
	},
	{
		rule: `AwsSolutions-IAM5\[Resource::<ArchiveDA4CB258\.Arn>/claims/\*\]`, templates: `example-history`,
		reason: "as for every bucket of delivered objects",
	},
	{
		rule: `AwsSolutions-IAM5\[Resource::.*:table/their-items/stream/\*\]`, templates: `from-table`,
		reason: "Lambda lists the streams of the table, and a list has no stream of its own",
	},
	{
		rule: `AwsSolutions-IAM5\[Resource::\*\]`, resource: `.*FunctionRole.*`, templates: `valkey|customer-key`,
		reason: "Lambda makes a network interface in a VPC, and EC2 cannot limit all of these actions to a resource",
	},

	{
		rule: `AwsSolutions-IAM5\[Resource::\*\]`, resource: `.*FunctionRole.*`, templates: `every-setting`,
		reason: "Lambda sends traces to X-Ray, whose actions know no resources",
	},
	{
		rule: `AwsSolutions-IAM4\[.*/AWSCodeDeployRoleForLambdaLimited\]`, resource: `.*Canary.*`,
		reason: "AWS keeps the policy that CodeDeploy needs; only CodeDeploy can take the role",
	},

	// What happens to what fails.
	{
		rule: `Serverless-LambdaDLQ`,
		reason: "the API waits for the claim function; the mapping stores batches that fail in the dead-letter bucket; the " +
			"next sweep does what a failed one left",
	},
	{
		rule: `Serverless-LambdaAsyncFailureDestination|Serverless-EventBusDLQ`, resource: `.*Sweep.*`,
		reason: "the event of a sweep says nothing: the next sweep does what a failed one left, and an alarm counts failures",
	},
	{
		rule: `Serverless-EventBusDLQ`, resource: `.*BackupSchedule.*`, templates: `customer-key`,
		reason: "the event of an export says nothing: the next hour makes another, and an alarm counts those that succeed",
	},
	{
		rule: `AwsSolutions-SQS3|Serverless-SQSRedrivePolicy`, resource: `.*NotifyQueue.*`,
		reason: "the queue holds a message for each dead letter until a person takes it; no consumer fails at it",
	},
	{
		rule: `Serverless-SQSRedrivePolicy`, resource: `.*SourceDeadLetterQueue.*`, templates: `from-queue`,
		reason: "it is a dead-letter queue itself; no consumer fails at it",
	},
	{
		rule: `Serverless-LambdaEventSourceMappingDestination`, templates: `from-queue|plain-records-of-queue`,
		reason: "Lambda has no such destination for a queue, which has a redrive policy instead",
	},
	{
		rule: `Serverless-SNSRedrivePolicy`, templates: `example`,
		reason: "an e-mail address needs no queue for messages that do not arrive; alarms show in CloudWatch too",
	},

	// What costs.
	{
		rule: `AwsSolutions-S1`, resource: `.*DeadLetterBucket.*|Archive.*`,
		reason: "access logs need a second bucket with logs of its own; who needs them gives a bucket that has them",
	},
	{
		rule: `AwsSolutions-SF[12]|Serverless-StepFunctionStateMachineXray`, resource: `.*BackupExports.*`, templates: `customer-key`,
		reason: "Step Functions keeps the history of an execution for 90 days, which says what failed; it is two requests a table",
	},
	{
		rule:   `Serverless-LambdaTracing`,
		reason: "X-Ray charges each trace; the log lines and metrics of each invocation have its times",
	},
	{
		rule: `AwsSolutions-KDS3`, templates: `customer-key|example|feature-flags|objects|queue|table|valkey`,
		reason: "the goldens with a customer's key, which a user has chosen: the rule warns of its price",
	},
	{
		rule: `AwsSolutions-SNS3`, templates: `example`,
		reason: "a policy that asks for TLS would take the place of the default one, which lets alarms publish",
	},
}
