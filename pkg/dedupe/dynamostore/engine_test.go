package dynamostore

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/enginetest"
	"github.com/oncebox/oncebox/pkg/format"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func TestEngine(t *testing.T) {
	client := newClient(t, testengine.Dynoxide(t))
	for name, from := range map[string]int{"puts": FullRequest, "statements": 1} {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(*testing.T) dedupe.Store { return withStatements(client, from) })
		})
	}
}

func TestEngineOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	client := newClient(t, testengine.DynamoDBLocal(t))
	enginetest.Run(t, func(*testing.T) dedupe.Store { return withStatements(client, 1) })
}

// withStatements makes a store that puts entries by statements from a number of entries on.
func withStatements(client Client, from int, options ...Option) *Store {
	return New(client, table, append(options, WithStatements(dynamo.Statements{From: from}))...)
}

func TestLedger(t *testing.T) {
	enginetest.RunLedger(t, enginetest.OneRowAKey, ledgersAt(t, testengine.Dynoxide(t)))
}

func TestLedgerOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	enginetest.RunLedger(t, enginetest.OneRowAKey, ledgersAt(t, testengine.DynamoDBLocal(t)))
}

// ledgersAt opens ledgers, each with its own client. Every second one puts entries by statements.
func ledgersAt(t *testing.T, endpoint string) enginetest.Open {
	newClient(t, endpoint) // makes the table
	var opened atomic.Int64
	return func(testing.TB, func() time.Time) dedupe.Ledger {
		from := FullRequest
		if opened.Add(1)%2 == 0 {
			from = 1
		}
		return withStatements(newClient(t, endpoint), from)
	}
}

// TestDeletedEntry: an entry that DynamoDB has deleted after its purge time is absent.
func TestDeletedEntry(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	s := New(client, table)
	e := entries(1)[0]
	e.Scope, e.Key, e.PurgeAt = "deleted", format.KeyOf("a"), 100
	put := func(want *dedupe.Entry) {
		t.Helper()
		got, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{e})
		if err != nil || got[0].Err != nil || (got[0].Existing == nil) != (want == nil) {
			t.Fatalf("want the existing entry %+v, got %+v, %v", want, got, err)
		}
	}
	put(nil)
	put(&e)
	if _, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(table), Key: dynamo.Encode(entryKey(e.Scope, e.Key)),
	}); err != nil {
		t.Fatal(err)
	}
	raise := dedupe.RaiseRequest{Scope: e.Scope, Key: e.Key, Owner: e.Owner.Digest(), PurgeAt: 200}
	if got, err := s.RaisePurge(t.Context(), []dedupe.RaiseRequest{raise}); err != nil || got[0].Err != nil || got[0].Raised {
		t.Errorf("a deleted entry was raised: %+v, %v", got, err)
	}
	put(nil)
}

const table = "test-dedupe"

// tables makes the table once at each endpoint.
var tables sync.Map

func newClient(t *testing.T, endpoint string) *dynamodb.Client {
	t.Helper()
	client := dynamodb.New(clientOptions(endpoint))
	made, _ := tables.LoadOrStore(endpoint, sync.OnceValue(func() error {
		return bank.CreateDedupeTable(context.Background(), client, table)
	}))
	if err := made.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return client
}

func clientOptions(endpoint string) dynamodb.Options {
	return dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
}
