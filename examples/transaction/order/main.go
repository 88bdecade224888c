// Command order is a Lambda function that takes an order once for its id, however often the call comes: it takes the
// items from the stock, and keeps the order as a row, in the transaction that stores its result.
//
// A call is {"id":"o-1","item":"mug","count":2}. The function reads DEDUPE_TABLE, STOCK and ORDERS (tables with the
// partition keys item and id).
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"strconv"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
)

func main() {
	client, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	s, err := newShop(client, os.Getenv("DEDUPE_TABLE"), os.Getenv("STOCK"), os.Getenv("ORDERS"))
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(s.order)
}

// shop has the tables that orders change.
type shop struct {
	runner        *idempotency.Runner
	stock, orders string
}

func newShop(client *dynamodb.Client, dedupe, stock, orders string) (*shop, error) {
	settings := idempotency.Settings{LeaseUntilDeadline: true}
	runner, err := idempotency.New(dynamostore.New(client, dedupe), "orders", settings)
	return &shop{runner, stock, orders}, err
}

type order struct {
	ID    string `json:"id"`
	Item  string `json:"item"`
	Count int64  `json:"count"`
}

type receipt struct {
	Order  string `json:"order"`
	Number int64  `json:"number"` // of the execution that took the order
}

var (
	errNotAnOrder = errors.New(`send {"id":ID,"item":ITEM,"count":NUMBER}`)
	errSoldOut    = errors.New("the stock has fewer of the item; nothing was taken, and the id can be used again")
)

// order returns the same receipt to each call of an order. If the stock does not have the items, DynamoDB refuses the
// action on it: nothing is written, and the next call looks again.
func (s *shop) order(ctx context.Context, o order) (receipt, error) {
	if o.ID == "" || o.Item == "" || o.Count < 1 {
		return receipt{}, errNotAnOrder
	}
	out, err := idempotency.Do(ctx, s.runner, o.ID, o, s.take)
	if refused, ok := errors.AsType[*dynamostore.RefusedError](err); ok && refused.Actions[0].Index == takesFromStock {
		return receipt{}, errSoldOut
	}
	return out.Value, err
}

// takesFromStock is the place of the action on the stock.
const takesFromStock = 0

// take is the function that runs once. DynamoDB makes both changes and stores the receipt, or does nothing.
func (s *shop) take(_ context.Context, e idempotency.Execution, o order) (receipt, error) {
	e.Commit(dynamostore.Effects(
		types.TransactWriteItem{Update: &types.Update{
			TableName: &s.stock, Key: map[string]types.AttributeValue{"item": text(o.Item)},
			UpdateExpression:    aws.String("ADD pieces :change"),
			ConditionExpression: aws.String("pieces >= :count"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":change": number(-o.Count), ":count": number(o.Count),
			},
		}},
		types.TransactWriteItem{Put: &types.Put{
			TableName: &s.orders,
			Item: map[string]types.AttributeValue{
				"id": text(o.ID), "item": text(o.Item), "count": number(o.Count),
			},
		}},
	))
	return receipt{o.ID, e.Number}, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
