package infra

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsbackup"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// This file lists all permissions of the functions, and of what makes backups. docs/iam.md has the same list for readers.
// A test compares the two.

// A grant is a statement of a function's policy: actions on one resource.
type grant struct {
	actions    []string
	resource   string
	conditions map[string]any // the values, by operator and key
}

func (g grant) statement() awsiam.PolicyStatement {
	p := &awsiam.PolicyStatementProps{Actions: jsii.Strings(g.actions...), Resources: jsii.Strings(g.resource)}
	if g.conditions != nil {
		p.Conditions = &g.conditions
	}
	return awsiam.NewPolicyStatement(p)
}

// newRole makes a role that a service of AWS takes, and that may do what the grants allow.
func newRole(scope constructs.Construct, id, service string, grants []grant) awsiam.Role {
	role := awsiam.NewRole(scope, jsii.String(id), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String(service), nil),
	})
	for _, g := range grants {
		role.AddToPrincipalPolicy(g.statement())
	}
	return role
}

// onRows allows actions on the rows whose partition keys begin with prefix. A transaction needs the actions of its
// parts (DynamoDB Developer Guide, "Using IAM with DynamoDB transactions").
func onRows(table awsdynamodb.ITableV2, prefix string, actions ...string) grant {
	return grant{actions, *table.TableArn(), map[string]any{
		"ForAllValues:StringLike": map[string]any{"dynamodb:LeadingKeys": []string{prefix + "*"}},
	}}
}

// onPartition allows actions on the rows of one partition key.
func onPartition(table awsdynamodb.ITableV2, key string, actions ...string) grant {
	return grant{actions, *table.TableArn(), map[string]any{
		"ForAllValues:StringEquals": map[string]any{"dynamodb:LeadingKeys": []string{key}},
	}}
}

// onDueClaims allows a query of the claims of the table that are due.
func onDueClaims(dedupe awsdynamodb.ITableV2) grant {
	g := onRows(dedupe, "due#", "dynamodb:Query")
	g.resource += "/index/" + dueIndex
	return g
}

func claimGrants(bank, dedupe awsdynamodb.ITableV2) []grant {
	grants := []grant{
		onRows(bank, "campaign#", "dynamodb:GetItem", "dynamodb:UpdateItem"),
		onRows(bank, "bank#", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"),
		onRows(bank, "item#", "dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem"),
		onRows(bank, "load#", "dynamodb:Query"),
		onRows(dedupe, "claim#", "dynamodb:DeleteItem", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"),
		onDueClaims(dedupe),
	}
	return append(append(grants, tableKey(bank)...), tableKey(dedupe)...)
}

func sweepGrants(bank, dedupe awsdynamodb.ITableV2, counts bool) []grant {
	grants := []grant{
		onRows(bank, "campaigns", "dynamodb:Query"),
		onRows(bank, "campaign#", "dynamodb:GetItem"),
		onRows(bank, "bank#", "dynamodb:PutItem"),
		onRows(bank, "item#", "dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:UpdateItem"),
		onRows(dedupe, "claim#", "dynamodb:DeleteItem", "dynamodb:GetItem"),
		onDueClaims(dedupe),
	}
	if counts {
		grants = append(grants, onRows(bank, "bank#", "dynamodb:Query"), onRows(bank, "load#", "dynamodb:Query"))
	}
	return append(append(grants, tableKey(bank)...), tableKey(dedupe)...)
}

// entryGrants are the permissions for the ledger. The entries of a Valkey ledger are not in AWS.
func (p RecordDedupeProps) entryGrants(dedupe awsdynamodb.ITableV2, scope string) []grant {
	switch {
	case p.hasValkey():
		return nil
	case p.hasLog():
		return []grant{onRows(dedupe, "log#"+scope+"#", "dynamodb:PutItem", "dynamodb:Query")}
	}
	actions := []string{"dynamodb:PutItem", "dynamodb:UpdateItem"}
	if p.Sink.scheme() != "dynamodb" { // otherwise each entry is a part of a transaction
		actions = append(actions, "dynamodb:BatchGetItem", "dynamodb:PartiQLInsert")
	}
	return []grant{
		onRows(dedupe, "record#"+scope+"#", actions...),
		onPartition(dedupe, "run#"+scope, "dynamodb:GetItem", "dynamodb:UpdateItem"),
	}
}

// dedupeGrants are the permissions for the row of the consumer, and for acks.
func dedupeGrants(dedupe awsdynamodb.ITableV2, scope string, consumer, acks bool) (grants []grant) {
	if consumer {
		grants = append(grants, onPartition(dedupe, "consumer#"+scope, "dynamodb:PutItem"))
	}
	if acks {
		grants = append(grants, onRows(dedupe, "ack#"+scope+"#", "dynamodb:PutItem", "dynamodb:Query"))
	}
	return append(grants, tableKey(dedupe)...)
}

// namespaceGrants are the permissions of a function of the user's own, which are not in docs/iam.md.
func namespaceGrants(table awsdynamodb.ITableV2, namespace string) []grant {
	rows := onRows(table, "once#"+namespace+"#", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem")
	return append(tableKey(table), rows)
}

// tableKey returns the permissions that a request to a table with a customer managed key needs (DynamoDB Developer
// Guide, "How DynamoDB uses AWS KMS").
func tableKey(table awsdynamodb.ITableV2) []grant {
	return onKey(table.EncryptionKey(), "dynamodb",
		"kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*")
}

// onKey allows the use of a customer managed key through one service, in any region: names of services in China may
// end with amazonaws.com.cn. Without such a key it returns no permission.
func onKey(key awskms.IKey, service string, actions ...string) []grant {
	if key == nil {
		return nil
	}
	return []grant{{actions, *key.KeyArn(), map[string]any{
		"StringLike": map[string]any{"kms:ViaService": service + ".*.amazonaws.com*"},
	}}}
}

// onFormerKeys allows decrypting data that services encrypted before a resource got another key. Lambda is always
// among the services: the permissions change before the alias moves, and until then the alias points to a version
// whose variables have the former key.
func onFormerKeys(keys []awskms.IKey, services ...string) (all []grant) {
	for _, service := range append(services, "lambda") {
		for _, key := range keys {
			all = append(all, onKey(key, service, "kms:Decrypt")...)
		}
	}
	return all
}

// formerKeyGrants are the permissions for data that the claim function reads.
func (p ClaimAPIProps) formerKeyGrants() []grant {
	services := []string{"dynamodb"}
	if p.ChallengeSecret != nil {
		services = append(services, "secretsmanager")
	}
	return onFormerKeys(p.FormerKeys, services...)
}

// formerKeyGrants are the permissions for data that the function reads, and that Lambda reads with its role. Data
// that the function only writes needs no former key.
func (p RecordDedupeProps) formerKeyGrants() []grant {
	services := []string{"dynamodb"}
	if source := p.Source.kind.traits().service; source != "" && source != "dynamodb" {
		services = append(services, source)
	}
	if p.Sink.scheme() == "s3" {
		services = append(services, "s3")
	}
	if p.LedgerSecret != nil {
		services = append(services, "secretsmanager")
	}
	return onFormerKeys(p.FormerKeys, services...)
}

// writeStream allows ListShards, too, because the sink aggregates records that go to the same shard.
func writeStream(destination awskinesis.IStream) []grant {
	return append(onKey(destination.EncryptionKey(), "kinesis", "kms:GenerateDataKey"),
		grant{[]string{"kinesis:ListShards", "kinesis:PutRecords"}, *destination.StreamArn(), nil})
}

// putItems allows puts in a transaction, which has no permission of its own. A delete is a put, too.
func putItems(table awsdynamodb.ITableV2) []grant {
	return append(tableKey(table), grant{[]string{"dynamodb:PutItem"}, *table.TableArn(), nil})
}

// storeDeadLetters returns permissions for the function, which stores poison records, and with batches for Lambda, which
// stores the batches that it gives up (Lambda Developer Guide, "Retain discarded batch records for a Kinesis Data
// Streams event source").
func storeDeadLetters(bucket awss3.IBucket, scope string, batches bool) []grant {
	grants := append(onKey(bucket.EncryptionKey(), "s3", "kms:GenerateDataKey"), putObjects(bucket, poisonPrefix(scope)))
	if !batches {
		return grants
	}
	return append(grants, putObjects(bucket, batchPrefix), grant{[]string{"s3:ListBucket"}, *bucket.BucketArn(), nil})
}

// putObjects allows new objects below a prefix while the bucket belongs to its account. After a bucket is deleted,
// another account can make a bucket with the same name.
func putObjects(bucket awss3.IBucket, prefix string) grant {
	keys := strings.TrimPrefix(prefix+"/*", "/") // without a prefix, all keys
	return grant{[]string{"s3:PutObject"}, *bucket.ArnForObjects(&keys), map[string]any{
		"StringEquals": map[string]any{"s3:ResourceAccount": *bucket.Env().Account},
	}}
}

// sendMessages allows SendMessage, which includes SendMessageBatch.
func sendMessages(queue awssqs.IQueue) []grant {
	return append(onKey(queue.EncryptionMasterKey(), "sqs", "kms:Decrypt", "kms:GenerateDataKey"),
		grant{[]string{"sqs:SendMessage"}, *queue.QueueArn(), nil})
}

// readSecret returns the permission to read the password of a Valkey ledger, or the secret of a challenge.
func readSecret(secret awssecretsmanager.ISecret) []grant {
	if secret == nil {
		return nil
	}
	return append(onKey(secret.EncryptionKey(), "secretsmanager", "kms:Decrypt"),
		grant{[]string{"secretsmanager:GetSecretValue"}, *secret.SecretArn(), nil})
}

// backupGrants are the permissions of AWS Backup for these tables and vaults: what AWSBackupServiceRolePolicyForBackup
// has for tables (AWS Managed Policy Reference).
func backupGrants(tables []awsdynamodb.ITableV2, vault awsbackup.IBackupVault, copyTo string) (all []grant) {
	for _, table := range tables {
		all = append(all, grant{[]string{
			"dynamodb:DescribeTable", "dynamodb:ListTagsOfResource", "dynamodb:StartAwsBackupJob",
		}, *table.TableArn(), nil})
	}
	for _, vault := range []string{*vault.BackupVaultArn(), copyTo} {
		all = append(all, grant{[]string{"backup:CopyIntoBackupVault", "backup:DescribeBackupVault"}, vault, nil})
	}
	points := awscdk.Stack_Of(vault).FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("backup"), Resource: jsii.String("recovery-point"), ResourceName: jsii.String("*"),
		ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
	all = append(all, grant{[]string{"backup:TagResource"}, *points, nil},
		grant{[]string{"backup:CopyFromBackupVault"}, *points, map[string]any{
			"ForAllValues:ArnEquals": map[string]any{"backup:CopyTargets": []string{copyTo}},
		}})
	if key := tables[0].EncryptionKey(); key != nil {
		all = append(append(all, onKey(key, "dynamodb", "kms:Decrypt", "kms:GenerateDataKey")...),
			grant{[]string{"kms:DescribeKey"}, *key.KeyArn(), nil},
			grant{[]string{"kms:CreateGrant"}, *key.KeyArn(), map[string]any{
				"Bool": map[string]any{"kms:GrantIsForAWSResource": "true"},
			}})
	}
	return all
}

// exportGrants are the permissions of an export, which DynamoDB writes to the bucket with the role of its caller
// (DynamoDB Developer Guide, "Requesting a table export in DynamoDB").
func exportGrants(tables []awsdynamodb.ITableV2, bucket awss3.IBucket, prefix string) []grant {
	objects := putObjects(bucket, prefix)
	objects.actions = []string{"s3:AbortMultipartUpload", "s3:PutObject", "s3:PutObjectAcl"}
	all := []grant{objects}
	for _, table := range tables {
		all = append(all, grant{[]string{"dynamodb:ExportTableToPointInTime"}, *table.TableArn(), nil},
			grant{[]string{"dynamodb:DescribeExport"}, *table.TableArn() + "/export/*", nil})
	}
	return append(all, onKey(tables[0].EncryptionKey(), "dynamodb", "kms:Decrypt", "kms:DescribeKey")...)
}

// grants returns the permissions that Lambda needs for the settings of the function.
func (p FunctionProps) grants() []grant {
	return slices.Concat(p.interfaceGrants(), p.traceGrants(), p.environmentGrants())
}

// interfaceGrants are for Lambda, which makes the network interfaces of a function in a VPC with the function's role.
// It needs all of these permissions (AWS managed policy AWSLambdaVPCAccessExecutionRole) on all resources (Lambda
// Developer Guide, "Giving Lambda functions access to resources in an Amazon VPC"). Requests of the function itself
// name their function (the same guide, "Using source function ARN to control function access behavior"), and are not
// allowed.
func (p FunctionProps) interfaceGrants() []grant {
	if len(p.Subnets) == 0 {
		return nil
	}
	return []grant{{[]string{
		"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface",
		"ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses",
	}, "*", map[string]any{"Null": map[string]any{"lambda:SourceFunctionArn": "true"}}}}
}

// traceGrants are for Lambda, which sends traces with the function's role. The actions have no resources (Service
// Authorization Reference, "Actions, resources, and condition keys for AWS X-Ray").
func (p FunctionProps) traceGrants() []grant {
	if !p.Tracing {
		return nil
	}
	return []grant{{[]string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"}, "*", nil}}
}

// environmentGrants are for Lambda, which decrypts the variables with the function's role when a container starts.
func (p FunctionProps) environmentGrants() []grant {
	return onKey(p.EnvironmentKey, "lambda", "kms:Decrypt")
}

func writeLogs(group awslogs.LogGroup) grant {
	return grant{[]string{"logs:CreateLogStream", "logs:PutLogEvents"}, *group.LogGroupArn(), nil}
}
