// Package dynamostore keeps item banks on DynamoDB: the engine for production.
//
// It works on two tables, each with the string keys pk and sk, which
// CreateTables makes and docs/adr/0002-data-model.md describes. A claim is one
// TransactWriteItems request of 4 write units (twice one unit for each of the
// two rows, as long as both are within 1 KB), a claim that stood in the way comes back with it.
package dynamostore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Client is the part of *dynamodb.Client that the store calls.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// Store is an engine.Store on DynamoDB. It is safe for concurrent use.
type Store struct {
	client      Client
	bankTable   string
	dedupeTable string
}

var _ engine.Store = (*Store)(nil)

// New makes a Store on two existing tables: one for campaigns, items and
// loads, one for claims, which record deduplication may share.
func New(client Client, bankTable, dedupeTable string) *Store {
	return &Store{client, bankTable, dedupeTable}
}

// ifAbsent is the condition of every put-if-absent. It says nothing about who
// holds the row: the old row does, which comes back when the condition fails.
const ifAbsent = "attribute_not_exists(pk)"

// ifPresent is the condition of changes to rows that must be there.
const ifPresent = "attribute_exists(pk)"

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

func failed(doing string, err error) error {
	return dynamo.Translate(doing, err, engine.ErrTryAgain)
}
