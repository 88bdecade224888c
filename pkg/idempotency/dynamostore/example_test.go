package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
)

// The function of a Lambda handler. The table has the string keys pk and sk, and purge_at as its TTL attribute.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // in Lambda: the context of the invocation
	defer cancel()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	store := dynamostore.New(client, "oncebox-dedupe")
	runner, err := idempotency.New(store, "payments", idempotency.Settings{LeaseUntilDeadline: true})
	if err != nil {
		log.Fatal(err)
	}
	charge := func(_ context.Context, e idempotency.Execution, cents int) (string, error) {
		return fmt.Sprint("charged ", cents, " with the key ", e.KeyFor("charge")), nil // calls the bank
	}
	out, err := idempotency.Do(ctx, runner, "order-1", 1990, charge)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Value, out.Replayed)
}

// A payment that is booked once for its key, however often the call comes: the account is debited in the transaction
// that stores the result.
func ExampleEffects() {
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	runner, err := idempotency.New(dynamostore.New(client, "oncebox-dedupe"), "payments", idempotency.Settings{})
	if err != nil {
		log.Fatal(err)
	}
	pay := func(_ context.Context, e idempotency.Execution, cents int) (string, error) {
		amount := &types.AttributeValueMemberN{Value: strconv.Itoa(cents)}
		e.Commit(dynamostore.Effects(types.TransactWriteItem{Update: &types.Update{
			TableName: aws.String("accounts"),
			Key:       map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "ann"}},

			UpdateExpression:          aws.String("SET cents = cents - :amount"),
			ConditionExpression:       aws.String("cents >= :amount"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":amount": amount},
		}}))
		return fmt.Sprint("paid ", cents), nil
	}
	out, err := idempotency.Do(ctx, runner, "order-1", 1990, pay)
	if refused, ok := errors.AsType[*dynamostore.RefusedError](err); ok {
		log.Fatalf("not enough money: %v", refused) // nothing was written, and the key is free
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Value)
}
