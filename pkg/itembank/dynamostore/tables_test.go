package dynamostore_test

import (
	"crypto/rand"
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestCreateTables(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, endpoint string) {
		testCreateTables(t, itembankengines.Client(endpoint, nil))
	})
}

func testCreateTables(t *testing.T, client *dynamodb.Client) {
	table, dedupe := "table-"+rand.Text(), "dedupe-"+rand.Text()
	for range 2 { // it is safe to repeat
		if err := dynamostore.CreateTables(t.Context(), client, table, dedupe); err != nil {
			t.Fatal(err)
		}
	}
	if err := dynamostore.CreateDedupeTable(t.Context(), client, table); !errors.Is(err, dynamostore.ErrOtherTable) {
		t.Errorf("a table without the index: want %v, got %v", dynamostore.ErrOtherTable, err)
	}
	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	if b := out.Table.BillingModeSummary; b == nil || b.BillingMode != types.BillingModePayPerRequest {
		t.Errorf("the table is not on demand: %+v", b)
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	if got := aws.ToString(ttl.TimeToLiveDescription.AttributeName); got != "purge_at" {
		t.Errorf("want TTL on purge_at, got %q", got)
	}

	other := "other-" + rand.Text()
	_, err = client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(other), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := dynamostore.CreateTables(t.Context(), client, other, dedupe); !errors.Is(err, dynamostore.ErrOtherTable) {
		t.Errorf("want %v, got %v", dynamostore.ErrOtherTable, err)
	}
}
