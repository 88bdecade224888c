package dynamostore

import (
	"context"
	"errors"
	"fmt"
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

// ErrOtherTable says that a table of this name exists and has other keys. It was not
// changed.
var ErrOtherTable = errors.New("the table exists with other keys than pk and sk, both strings")

// purgeAttribute is the TTL attribute: DynamoDB deletes rows some time after this time.
const purgeAttribute = "purge_at"

// tableWait limits the wait for a new table, which usually takes a few seconds.
const tableWait = 2 * time.Minute

// CreateTables creates the tables that do not exist: on demand, with TTL on purge_at. It is
// safe to repeat.
//
// It is for local engines and first steps. Production tables should also have point-in-time
// recovery and deletion protection, which CreateTables does not turn on.
//
// Errors: ErrOtherTable, engine.ErrTryAgain.
func CreateTables(ctx context.Context, client TableClient, names ...string) error {
	for _, name := range names {
		if err := createTable(ctx, client, name); err != nil {
			return failed("create table "+name, err)
		}
	}
	return nil
}

func createTable(ctx context.Context, client TableClient, name string) error {
	keys := []types.KeySchemaElement{
		{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
		{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
	}
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String(name), KeySchema: keys, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
	})
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
	if !sameKeys(out.Table) {
		return ErrOtherTable
	}
	return enableTTL(ctx, client, name)
}

func sameKeys(t *types.TableDescription) bool {
	keys := t.KeySchema
	if len(keys) != 2 || aws.ToString(keys[0].AttributeName) != "pk" || aws.ToString(keys[1].AttributeName) != "sk" {
		return false
	}
	texts := 0
	for _, a := range t.AttributeDefinitions {
		name := aws.ToString(a.AttributeName)
		if (name == "pk" || name == "sk") && a.AttributeType == types.ScalarAttributeTypeS {
			texts++
		}
	}
	return texts == 2
}

// enableTTL reads the setting first: DynamoDB returns an error if TTL is enabled already.
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
