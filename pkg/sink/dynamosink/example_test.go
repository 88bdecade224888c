package dynamosink_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
)

// Each record is a change of a customer. The table has the latest change of each customer.
func Example() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	sink, err := dynamosink.New(dynamostore.New(client, "oncebox-dedupe"), dynamosink.Table{
		Name: "customers", Key: []dynamosink.Attribute{{Name: "customer", Path: "customer.id"}},
		Version:    dynamosink.Attribute{Name: "changed_at_ms", Path: "changed_at_ms"},
		DeletePath: "change", DeleteValue: "delete",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(dedupe.Parts{Tx: sink}) // with a Format and a DeadLetterStore
}

// The effect of a record is to count it for its customer.
func ExampleNewEffect() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	count := func(_ context.Context, o dedupe.Output) ([]types.TransactWriteItem, error) {
		return []types.TransactWriteItem{{Update: &types.Update{
			TableName:                 aws.String("counts"),
			Key:                       map[string]types.AttributeValue{"customer": &types.AttributeValueMemberS{Value: o.PartitionKey}},
			UpdateExpression:          aws.String("ADD orders :one"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
		}}}, nil
	}
	sink := dynamosink.NewEffect(dynamostore.New(client, "oncebox-dedupe"), count, nil)
	fmt.Println(dedupe.Parts{Tx: sink}) // with a Format and a DeadLetterStore
}
