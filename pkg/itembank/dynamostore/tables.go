package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// TableClient is the part of *dynamodb.Client that CreateTables calls.
type TableClient interface {
	CreateTable(
		context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options),
	) (*dynamodb.CreateTableOutput, error)
	DescribeTable(
		context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(
		context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options),
	) (*dynamodb.DescribeTimeToLiveOutput, error)
	UpdateTimeToLive(
		context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options),
	) (*dynamodb.UpdateTimeToLiveOutput, error)
}

// ErrOtherTable says that a table of this name exists, but has other keys or lacks the index. The table was not
// changed.
var ErrOtherTable = errors.New("the table exists with other keys than pk and sk, both strings, " +
	"or it is the dedupe table and lacks the index \"due\" (due, a string, and ends_at, a number; keys only)")

// purgeAttribute is the TTL attribute: DynamoDB deletes rows some time after this time.
const purgeAttribute = "purge_at"

// tableWait limits the wait for a new table, which usually takes a few seconds.
const tableWait = 2 * time.Minute

// CreateTables creates the tables of a Store that do not exist: on demand, with TTL on purge_at. The dedupe table
// gets the index over claims that end. CreateTables is safe to repeat.
//
// Use it for local engines and first steps. Production tables should also have point-in-time recovery and deletion
// protection, which CreateTables does not turn on.
//
// Errors: ErrOtherTable, engine.ErrTryAgain.
func CreateTables(ctx context.Context, client TableClient, bankTable, dedupeTable string) error {
	if err := createTable(ctx, client, bankTable, nil); err != nil {
		return failed("create table "+bankTable, err)
	}
	return CreateDedupeTable(ctx, client, dedupeTable)
}

// CreateDedupeTable creates only the dedupe table, as CreateTables does.
func CreateDedupeTable(ctx context.Context, client TableClient, name string) error {
	index := types.GlobalSecondaryIndex{
		IndexName: aws.String(dueIndex), KeySchema: keySchema("due", "ends_at"),
		Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
	}
	return failed("create table "+name, createTable(ctx, client, name, &index))
}

func keySchema(partition, sort string) []types.KeySchemaElement {
	return []types.KeySchemaElement{
		{AttributeName: aws.String(partition), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
	}
}

func createTable(ctx context.Context, client TableClient, name string, index *types.GlobalSecondaryIndex) error {
	table := &dynamodb.CreateTableInput{
		TableName: aws.String(name), KeySchema: keySchema("pk", "sk"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
	}
	if index != nil {
		table.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{*index}
		table.AttributeDefinitions = append(table.AttributeDefinitions,
			types.AttributeDefinition{AttributeName: aws.String("due"), AttributeType: types.ScalarAttributeTypeS},
			types.AttributeDefinition{AttributeName: aws.String("ends_at"), AttributeType: types.ScalarAttributeTypeN})
	}
	_, err := client.CreateTable(ctx, table)
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return err
	}
	describe := &dynamodb.DescribeTableInput{TableName: aws.String(name)}
	out, err := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay = 100 * time.Millisecond
	}).WaitForOutput(ctx, describe, tableWait)
	if err != nil {
		return err
	}
	if !fits(out.Table, table) {
		return ErrOtherTable
	}
	return enableTTL(ctx, client, name)
}

// fits reports whether a table has the wanted keys, and the wanted index if there is one.
func fits(found *types.TableDescription, wanted *dynamodb.CreateTableInput) bool {
	if !sameKeys(found.KeySchema, wanted.KeySchema) {
		return false
	}
	kinds := map[string]types.ScalarAttributeType{}
	for _, a := range found.AttributeDefinitions {
		kinds[aws.ToString(a.AttributeName)] = a.AttributeType
	}
	for _, a := range wanted.AttributeDefinitions {
		if kinds[aws.ToString(a.AttributeName)] != a.AttributeType {
			return false
		}
	}
	for _, w := range wanted.GlobalSecondaryIndexes {
		if !slices.ContainsFunc(found.GlobalSecondaryIndexes, func(i types.GlobalSecondaryIndexDescription) bool {
			return aws.ToString(i.IndexName) == *w.IndexName && sameKeys(i.KeySchema, w.KeySchema)
		}) {
			return false
		}
	}
	return true
}

func sameKeys(found, wanted []types.KeySchemaElement) bool {
	return slices.EqualFunc(found, wanted, func(f, w types.KeySchemaElement) bool {
		return aws.ToString(f.AttributeName) == *w.AttributeName && f.KeyType == w.KeyType
	})
}

// enableTTL enables TTL. It reads the setting first, because DynamoDB returns an error if TTL is already enabled.
func enableTTL(ctx context.Context, client TableClient, name string) error {
	ttl, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(name)})
	if err != nil {
		return err
	}
	if d := ttl.TimeToLiveDescription; d != nil && aws.ToString(d.AttributeName) != "" {
		if aws.ToString(d.AttributeName) != purgeAttribute {
			return fmt.Errorf("its TTL attribute is %q, not %q", aws.ToString(d.AttributeName), purgeAttribute)
		}
		return nil
	}
	_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: aws.String(name), TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String(purgeAttribute), Enabled: aws.Bool(true),
		},
	})
	return err
}
