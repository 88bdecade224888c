package infra

import (
	"errors"
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// The attributes that the stores read and write.
const (
	partitionKey = "pk"
	sortKey      = "sk"
	ttlAttribute = "purge_at"
)

// TableProps are the settings of a table. All are optional.
type TableProps struct {
	// EncryptionKey encrypts the table instead of a key that DynamoDB owns. The CDK
	// wants to know the region of the stack then.
	EncryptionKey awskms.IKey

	// WarmReadUnits and WarmWriteUnits are the units per second that the table
	// serves from its first second on. Both or none: 0 leaves an on-demand table at
	// 12,000 and 4,000, which it doubles within 30 minutes of such traffic. A claim
	// takes 2 write units of the bank and 2 of the dedupe table, a new record 1 of
	// the dedupe table, so 4,000 are 2,000 claims or 4,000 records a second. Units
	// can be raised later and never lowered, and raising them is billed once
	// (DynamoDB Developer Guide, "Understanding DynamoDB warm throughput").
	WarmReadUnits, WarmWriteUnits int

	// Disposable lets the table go with its stack. That is for tests: a table that
	// is made again has forgotten who holds what.
	Disposable bool
}

// Leasts of warm throughput: what a table has anyway (CloudFormation,
// "AWS::DynamoDB::GlobalTable WarmThroughput").
const leastWarmReadUnits, leastWarmWriteUnits = 12000, 4000

// check says all that is wrong with a table in the stack of scope.
func (p TableProps) check(scope constructs.Construct) error {
	var wrong []error
	if p.EncryptionKey != nil && *awscdk.Token_IsUnresolved(awscdk.Stack_Of(scope).Region()) {
		wrong = append(wrong, errors.New("the table's EncryptionKey needs a stack with a region: set the Env of its StackProps"))
	}
	cold := p.WarmReadUnits < leastWarmReadUnits || p.WarmWriteUnits < leastWarmWriteUnits
	if cold && (p.WarmReadUnits != 0 || p.WarmWriteUnits != 0) {
		wrong = append(wrong, fmt.Errorf("the WarmReadUnits are %d and the WarmWriteUnits %d, want at least %d and %d, or neither",
			p.WarmReadUnits, p.WarmWriteUnits, leastWarmReadUnits, leastWarmWriteUnits))
	}
	return errors.Join(wrong...)
}

// NewTable makes a table for claims, for records, or for both, and as the bank
// table: all have the same keys. It is on demand, with point-in-time recovery and
// deletion protection, and stays when the stack goes.
//
// Table names are made by CloudFormation. Do not change the id or the scope of a
// table that is in use: CloudFormation would make another, empty one.
func NewTable(scope constructs.Construct, id string, p TableProps) (awsdynamodb.TableV2, error) {
	if err := p.check(scope); err != nil {
		return nil, fmt.Errorf("table %s: %w", id, err)
	}
	return newTable(scope, id, p), nil
}

// newTable makes a table whose props are checked.
func newTable(scope constructs.Construct, id string, p TableProps) awsdynamodb.TableV2 {
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
	}
	if p.EncryptionKey != nil {
		props.Encryption = awsdynamodb.TableEncryptionV2_CustomerManagedKey(p.EncryptionKey, nil)
	}
	if p.WarmReadUnits > 0 || p.WarmWriteUnits > 0 {
		props.WarmThroughput = &awsdynamodb.WarmThroughput{
			ReadUnitsPerSecond: jsii.Number(p.WarmReadUnits), WriteUnitsPerSecond: jsii.Number(p.WarmWriteUnits),
		}
	}
	return awsdynamodb.NewTableV2(scope, jsii.String(id), props)
}

// nameOf is the name of a table that exists, for the function's parser to check.
func nameOf(table awsdynamodb.ITableV2, otherwise string) string {
	if table == nil {
		return otherwise
	}
	return *table.TableName()
}

func removalPolicy(disposable bool) awscdk.RemovalPolicy {
	if disposable {
		return awscdk.RemovalPolicy_DESTROY
	}
	return awscdk.RemovalPolicy_RETAIN
}
