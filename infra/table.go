package infra

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskinesis"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// These are the attributes that the stores read and write.
const (
	partitionKey = "pk"
	sortKey      = "sk"
	ttlAttribute = "purge_at"
)

// This is the index of claims with an end. Only their rows have both attributes, so the index has no other rows.
const (
	dueIndex     = "due"
	dueAttribute = "due"
	endAttribute = "ends_at"
)

// TableProps are the settings of a table. All are optional.
type TableProps struct {
	// EncryptionKey encrypts the table instead of a key that DynamoDB owns. The CDK then needs a stack with a region.
	EncryptionKey awskms.IKey

	// WarmReadUnits and WarmWriteUnits are the units a second that the table serves from its first second. Set both
	// or neither. Without them, a new table serves 12,000 and 4,000, and doubles that within 30 minutes of such
	// traffic.
	//
	// A claim takes 2 write units of the bank table and 2 of the dedupe table. A new record takes 1 of the dedupe
	// table. So 4,000 write units are 2,000 claims or 4,000 records a second.
	//
	// You can raise the units later, and never lower them. AWS charges for each raise once (DynamoDB Developer Guide,
	// "Understanding DynamoDB warm throughput").
	WarmReadUnits, WarmWriteUnits int

	// KinesisStream gets each change of a row of a dedupe table: Kinesis Data Streams for DynamoDB. It is for the history
	// of claims (docs/claims.md). A bank table and the dedupe table of records have none.
	KinesisStream awskinesis.IStream

	// Disposable deletes the table with the stack, and all claims with it. It is for tests.
	Disposable bool
}

// This is the lowest warm throughput, which every table has anyway (CloudFormation, "AWS::DynamoDB::GlobalTable
// WarmThroughput").
const minWarmReadUnits, minWarmWriteUnits = 12000, 4000

// check returns all problems with a table in the stack of scope.
func (p TableProps) check(scope constructs.Construct, names naming) error {
	wrong := problems{naming: names}
	if p.EncryptionKey != nil && *awscdk.Token_IsUnresolved(awscdk.Stack_Of(scope).Region()) {
		wrong.add("EncryptionKey of a table needs a stack with a region; set Env in its StackProps")
	}
	tooFew := p.WarmReadUnits < minWarmReadUnits || p.WarmWriteUnits < minWarmWriteUnits
	if tooFew && (p.WarmReadUnits != 0 || p.WarmWriteUnits != 0) {
		wrong.add("%s is %d and %s is %d; choose at least %d and %d, or set neither", wrong.of("WarmReadUnits"),
			p.WarmReadUnits, wrong.of("WarmWriteUnits"), p.WarmWriteUnits, minWarmReadUnits, minWarmWriteUnits)
	}
	return wrong.err()
}

// NewTable makes a table that claims, records or both can use, also as the bank table: all tables have the same keys.
// The table is on demand, has point-in-time recovery and deletion protection, and stays when the stack is deleted. Its
// index is for claims that end, and costs nothing without them.
//
// CloudFormation chooses the name. Do not change id or scope of a table that is in use: CloudFormation would make a
// new, empty table.
func NewTable(scope constructs.Construct, id string, p TableProps) (awsdynamodb.TableV2, error) {
	if err := p.check(scope, nil); err != nil {
		return nil, fmt.Errorf("table %s: %w", id, err)
	}
	return newDedupeTable(scope, id, p), nil
}

// newDedupeTable makes a table from checked props, with the index of claims with an end.
func newDedupeTable(scope constructs.Construct, id string, p TableProps) awsdynamodb.TableV2 {
	table := newTable(scope, id, p, p.KinesisStream)
	table.AddGlobalSecondaryIndex(&awsdynamodb.GlobalSecondaryIndexPropsV2{
		IndexName:      jsii.String(dueIndex),
		PartitionKey:   &awsdynamodb.Attribute{Name: jsii.String(dueAttribute), Type: awsdynamodb.AttributeType_STRING},
		SortKey:        &awsdynamodb.Attribute{Name: jsii.String(endAttribute), Type: awsdynamodb.AttributeType_NUMBER},
		ProjectionType: awsdynamodb.ProjectionType_KEYS_ONLY,
		WarmThroughput: p.warmThroughput(), // an index that is slower than its table throttles the table
	})
	return table
}

// newTable makes a table from checked props. If changes is not nil, it gets the changes of the table.
func newTable(scope constructs.Construct, id string, p TableProps, changes awskinesis.IStream) awsdynamodb.TableV2 {
	props := &awsdynamodb.TablePropsV2{
		PartitionKey:        &awsdynamodb.Attribute{Name: jsii.String(partitionKey), Type: awsdynamodb.AttributeType_STRING},
		SortKey:             &awsdynamodb.Attribute{Name: jsii.String(sortKey), Type: awsdynamodb.AttributeType_STRING},
		TimeToLiveAttribute: jsii.String(ttlAttribute),
		Billing:             awsdynamodb.Billing_OnDemand(nil),
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
		DeletionProtection: jsii.Bool(!p.Disposable),
		RemovalPolicy:      removalPolicy(p.Disposable),
		WarmThroughput:     p.warmThroughput(),
		KinesisStream:      changes,
	}
	if p.EncryptionKey != nil {
		props.Encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.EncryptionKey, nil)
	}
	table := awsdynamodb.NewTableV2(scope, jsii.String(id), props)
	markServed(table, p.serves())
	return table
}

// serves returns what a table serves from its first second.
func (p TableProps) serves() units {
	return units{max(p.WarmReadUnits, minWarmReadUnits), max(p.WarmWriteUnits, minWarmWriteUnits)}
}

func (p TableProps) warmThroughput() *awsdynamodb.WarmThroughput {
	if p.WarmReadUnits == 0 && p.WarmWriteUnits == 0 {
		return nil
	}
	return &awsdynamodb.WarmThroughput{
		ReadUnitsPerSecond: jsii.Number(p.WarmReadUnits), WriteUnitsPerSecond: jsii.Number(p.WarmWriteUnits),
	}
}

// nameOf returns the name of a table, or a stand-in for a table that does not exist yet.
func nameOf(table awsdynamodb.ITableV2, standIn string) string {
	if table == nil {
		return standIn
	}
	return *table.TableName()
}

// removalPolicy keeps a table in every case, unless it is disposable. Deletion protection would make a rollback fail
// that had to delete the table, and an empty table costs nothing.
func removalPolicy(disposable bool) awscdk.RemovalPolicy {
	if disposable {
		return awscdk.RemovalPolicy_DESTROY
	}
	return awscdk.RemovalPolicy_RETAIN
}

// keepUnlessRolledBack keeps a resource, unless the deployment that makes it fails and is rolled back. In that case the
// resource is empty and unused.
func keepUnlessRolledBack(disposable bool) awscdk.RemovalPolicy {
	if disposable {
		return awscdk.RemovalPolicy_DESTROY
	}
	return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
}
