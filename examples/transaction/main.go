// Command transaction is a Lambda function that books payments of a Kinesis stream: each payment changes the balance of
// an account, and is kept as a row, exactly once.
//
// A record is {"id":"p-1","account":"a-1","cents":-250}. The function reads DEDUPE_TABLE, ACCOUNTS and PAYMENTS (tables
// with the partition keys account and id) and DEAD_LETTERS (s3://BUCKET/PREFIX). The event source mapping needs
// ReportBatchItemFailures.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"log/slog"
	"os"
	"strconv"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/recordhandler"
	"github.com/oncebox/oncebox/pkg/sink/dynamosink"
)

func main() {
	slog.SetDefault(slog.New(slog.NewJSONHandler(os.Stdout, nil)))
	ctx := context.Background()
	client, err := awsclient.NewDynamoDB(ctx, awsclient.FromEnvironment)
	letters, lettersErr := deadletter.Open(ctx, awsclient.FromEnvironment, os.Getenv("DEAD_LETTERS"), nil)
	if err := errors.Join(err, lettersErr); err != nil {
		log.Fatal(err)
	}
	books := books{os.Getenv("ACCOUNTS"), os.Getenv("PAYMENTS")}
	handler, err := newHandler(dynamostore.New(client, os.Getenv("DEDUPE_TABLE")), letters, books)
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(handler)
}

// ledger holds the methods of *dynamostore.Store that the function needs.
type ledger interface {
	dynamosink.Store
	dedupe.Acks
	dedupe.Consumers
}

// newHandler makes the function from its parts. The tests use other parts.
func newHandler(store ledger, letters dedupe.DeadLetterStore, b books) (*recordhandler.Handler, error) {
	reader, err := format.NewJSON(format.Options{IDPath: "id", Volatile: []string{"sent_at"}})
	if err != nil {
		return nil, err
	}
	return recordhandler.New(dedupe.Parts{
		Tx: dynamosink.NewEffect(store, b.book, nil), Acks: store, Consumers: store, Format: reader, DeadLetters: letters,
	}, recordhandler.Options{Sink: recordhandler.SinkSetting{Own: "books"}}, slog.Default())
}

// books are the tables that payments change.
type books struct{ accounts, payments string }

type payment struct {
	Account string `json:"account"`
	Cents   int64  `json:"cents"`
}

// book returns the changes of a payment. DynamoDB makes all of them, together with the entry of the record, or none.
// A payment that would overdraw its account fails the condition, and is stored as a dead letter.
func (b books) book(_ context.Context, o dedupe.Output) ([]types.TransactWriteItem, error) {
	var p payment
	if json.Unmarshal(o.Data, &p) != nil || p.Account == "" || p.Cents == 0 {
		return nil, &dedupe.PoisonError{Reason: "it is not a payment"}
	}
	return []types.TransactWriteItem{
		{Update: &types.Update{
			TableName: &b.accounts, Key: map[string]types.AttributeValue{"account": text(p.Account)},
			UpdateExpression:    aws.String("ADD cents :change"),
			ConditionExpression: aws.String("cents >= :least"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":change": number(p.Cents), ":least": number(max(-p.Cents, 0)),
			},
		}},
		{Put: &types.Put{
			TableName: &b.payments,
			Item: map[string]types.AttributeValue{
				"id": text(o.ID), "account": text(p.Account), "cents": number(p.Cents),
			},
		}},
	}, nil
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
