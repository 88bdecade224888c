// Package dynamostore keeps campaigns in DynamoDB. It is the engine for production.
//
// It uses two tables, each with the string keys pk and sk: one for campaigns, items and loads, and one for claims.
// [CreateTables] makes them for tests and first steps. docs/adr/0002-data-model.md describes the rows.
//
//	store := dynamostore.New(client, "oncebox-bank", "oncebox-dedupe") // a *dynamodb.Client
//	bank := itembank.NewOperator(store)
//
// A claim is one TransactWriteItems request and costs 4 write units: two for each of its two rows, if a row has at most
// 1 KB. If the claimant already holds a claim, the reply has that claim.
//
// Use a client with explicit time-outs, such as the client of package awsclient. The SDK's default client waits for a
// reply without a limit.
package dynamostore

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/aws/serverclock"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// Client is the part of *dynamodb.Client that a Store calls. A Client that calls another must pass the options on: a
// Store reads DynamoDB's time through them.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	BatchGetItem(
		context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options),
	) (*dynamodb.BatchGetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactGetItems(
		context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options),
	) (*dynamodb.TransactGetItemsOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactWriteItems(
		context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options),
	) (*dynamodb.TransactWriteItemsOutput, error)
}

// Store implements engine.Store on DynamoDB. It is safe for concurrent use.
type Store struct {
	client      Client
	bankTable   string
	dedupeTable string
	rowShards   int
	server      *serverclock.Clock
}

var _ engine.Store = (*Store)(nil)

// New makes a Store on two existing tables: bankTable for campaigns, items and loads,
// dedupeTable for claims. Record deduplication can use the same dedupeTable.
func New(client Client, bankTable, dedupeTable string) *Store {
	return WithRowShards(client, bankTable, dedupeTable, dynamo.RowShards{N: rowShards})
}

// WithRowShards makes a Store for the tests of this module, with another number of partition keys than New. No other Store
// finds its rows. Other modules cannot call it.
func WithRowShards(client Client, bankTable, dedupeTable string, shards dynamo.RowShards) *Store {
	clock := serverclock.New()
	return &Store{
		client: dated{client, dynamo.Dates(clock)}, bankTable: bankTable, dedupeTable: dedupeTable,
		rowShards: shards.N, server: clock,
	}
}

// ifAbsent is the condition of every put-if-absent. It does not name an owner: if the condition fails, the reply has
// the old row, which names its owner.
const ifAbsent = "attribute_not_exists(pk)"

// ifPresent is the condition for changes of rows that must exist.
const ifPresent = "attribute_exists(pk)"

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// failed translates an error of the SDK. If a request is still throttled after the SDK's retries, the error is
// engine.ErrThrottled.
func failed(doing string, err error) error {
	if dynamo.IsThrottled(err) {
		return dynamo.Translate(doing, err, engine.ErrThrottled)
	}
	return dynamo.Translate(doing, err, engine.ErrTryAgain)
}
