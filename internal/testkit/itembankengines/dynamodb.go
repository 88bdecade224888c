package itembankengines

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/enginetest"
)

// Tables are the names of the tables of a store.
type Tables struct{ Bank, Dedupe string }

// Shared are the tables of all tests of a process that need none of their own.
var Shared = Tables{"test-bank", "test-dedupe"}

// OwnTables names tables that no other test uses. A test that lists campaigns again and again needs them: a list reads
// each campaign of the table.
func OwnTables() Tables {
	name := enginerows.NewName()
	return Tables{"bank-" + name, "dedupe-" + name}
}

// tablesMade holds, for each endpoint, the function that makes the shared tables once.
var tablesMade sync.Map

// DynamoDB opens the shared tables at an endpoint. It first makes sure that they exist.
func DynamoDB(t testing.TB, endpoint string) enginetest.Engine {
	t.Helper()
	made, _ := tablesMade.LoadOrStore(endpoint, sync.OnceValue(func() error { return Shared.create(endpoint) }))
	if err := made.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return Shared.engine(endpoint)
}

// Create makes the tables at an endpoint, and opens them.
func (tables Tables) Create(t testing.TB, endpoint string) enginetest.Engine {
	t.Helper()
	if err := tables.create(endpoint); err != nil {
		t.Fatal(err)
	}
	return tables.engine(endpoint)
}

func (tables Tables) create(endpoint string) error {
	return dynamostore.CreateTables(context.Background(), Client(endpoint, nil), tables.Bank, tables.Dedupe)
}

func (tables Tables) engine(endpoint string) enginetest.Engine {
	client := Client(endpoint, nil)
	return enginetest.Engine{Store: CallersClock{tables.Store(client)}, Raw: DynamoDBRaw{client, tables}}
}

// Store opens the tables.
func (tables Tables) Store(client dynamostore.Client) *dynamostore.Store {
	return dynamostore.WithRowShards(client, tables.Bank, tables.Dedupe, dynamo.RowShards{N: partitions})
}

// CallersClock hides the engine's clock, for tests that set the caller's clock.
type CallersClock struct{ engine.Store }

// ServerTime implements engine.Store.
func (CallersClock) ServerTime() time.Time { return time.Time{} }

// Client returns a client of a local engine. If httpClient is nil, the SDK's own is used.
func Client(endpoint string, httpClient aws.HTTPClient) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: httpClient,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// A Key is the partition key and the sort key of a row.
//
// This file defines the keys of rows a second time. A store with other keys would not find the rows of existing
// tables. It would fail the tests that use these keys.
type Key [2]string

// partitions is the number of partitions of item rows and of claims. The functions have 256, which makes a list 256
// requests; four are enough for a list that goes on in the next.
const partitions = 4

// BankKey returns the key of a bank row.
func BankKey(i engine.FreeItem) Key {
	return Key{fmt.Sprintf("bank#%s#1#%02d", i.Shard.Campaign, i.Shard.Number), i.Hash.String()}
}

// ItemKey returns the key of an item row.
func ItemKey(campaign string, h engine.Hash) Key {
	return Key{fmt.Sprintf("item#%s#%03d", campaign, h.ShardOf(partitions)), h.String()}
}

// ClaimKey returns the key of a claim row.
func ClaimKey(k engine.ClaimKey) Key {
	shard := engine.HashItem(k.Claimant).ShardOf(partitions)
	return Key{fmt.Sprintf("claim#%s#%03d", k.Scope, shard), fmt.Sprintf("%d#%s", k.Slot, k.Claimant)}
}

// Row holds the attributes of a row.
type Row = map[string]types.AttributeValue

// DynamoDBRaw writes single rows of package dynamostore.
type DynamoDBRaw struct {
	Client *dynamodb.Client
	Tables Tables
}

// PutBankRow puts or replaces a bank row.
func (r DynamoDBRaw) PutBankRow(ctx context.Context, i engine.FreeItem) error {
	return r.Put(ctx, r.Tables.Bank, BankKey(i), Row{"item": Text(i.Value), "ends_at": millis(i.EndsAt)})
}

// DropBankRow deletes a bank row, if it exists.
func (r DynamoDBRaw) DropBankRow(ctx context.Context, i engine.FreeItem) error {
	return r.Drop(ctx, r.Tables.Bank, BankKey(i))
}

// PutItemRow puts or replaces an item row.
func (r DynamoDBRaw) PutItemRow(ctx context.Context, campaign string, i engine.ListedItem) error {
	attributes := Row{
		"load_id": Text(i.LoadID), "row": Number(i.Row), "ends_at": millis(i.EndsAt),
		"returns": Number(int64(i.Returns)),
	}
	if i.State != "" {
		attributes["state"] = Text(string(i.State))
	}
	if i.Withdraw {
		attributes["withdraw"] = &types.AttributeValueMemberBOOL{Value: true}
	}
	if i.Columns != "" {
		attributes["columns"] = Text(i.Columns)
	}
	return r.Put(ctx, r.Tables.Bank, ItemKey(campaign, i.Hash), attributes)
}

// DropItemRow deletes an item row, if it exists.
func (r DynamoDBRaw) DropItemRow(ctx context.Context, campaign string, h engine.Hash) error {
	return r.Drop(ctx, r.Tables.Bank, ItemKey(campaign, h))
}

// PutClaim puts or replaces a claim row.
func (r DynamoDBRaw) PutClaim(ctx context.Context, c engine.Claim) error {
	attributes := Row{
		"claim_id": Text(c.ID), "campaign": Text(c.Campaign), "item": Text(c.Item), "item_hash": Text(c.ItemHash.String()),
		"claimed_at": millis(c.ClaimedAt), "ends_at": millis(c.EndsAt),
	}
	if c.More != "" {
		more := &types.AttributeValueMemberL{}
		for _, item := range c.More.Items() {
			more.Value = append(more.Value, Text(item))
		}
		attributes["more"] = more
	}
	return r.Put(ctx, r.Tables.Dedupe, ClaimKey(c.Key()), attributes)
}

// DropClaim deletes a claim row, if it exists.
func (r DynamoDBRaw) DropClaim(ctx context.Context, k engine.ClaimKey) error {
	return r.Drop(ctx, r.Tables.Dedupe, ClaimKey(k))
}

// DropCampaign deletes the row of a campaign, and its name from the list.
func (r DynamoDBRaw) DropCampaign(ctx context.Context, name string) error {
	if err := r.Drop(ctx, r.Tables.Bank, Key{"campaigns", name}); err != nil {
		return err
	}
	return r.Drop(ctx, r.Tables.Bank, Key{"campaign#" + name, "meta"})
}

// DropScope deletes the row of a scope, if it exists.
func (r DynamoDBRaw) DropScope(ctx context.Context, name string) error {
	return r.Drop(ctx, r.Tables.Bank, Key{"scope#" + name, "meta"})
}

// Put puts or replaces a row with the attributes that have a value.
func (r DynamoDBRaw) Put(ctx context.Context, table string, key Key, attributes Row) error {
	attributes["pk"], attributes["sk"] = Text(key[0]), Text(key[1])
	maps.DeleteFunc(attributes, func(_ string, v types.AttributeValue) bool { return v == nil })
	_, err := r.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes})
	return err
}

// Drop deletes a row, if it exists.
func (r DynamoDBRaw) Drop(ctx context.Context, table string, key Key) error {
	_, err := r.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: Row{"pk": Text(key[0]), "sk": Text(key[1])}})
	return err
}

// Text returns an attribute of type S.
func Text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

// Number returns an attribute of type N.
func Number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// millis returns a time in milliseconds. For the zero time it returns nil, which means that the row has no such
// attribute.
func millis(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return nil
	}
	return Number(t.UnixMilli())
}
