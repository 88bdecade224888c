package dynamostore_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/enginetest"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func TestEngine(t *testing.T) {
	t.Parallel()
	testOn(t, testengine.Dynoxide(t))
}

func TestEngineOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	testOn(t, testengine.DynamoDBLocal(t))
}

func testOn(t *testing.T, endpoint string) {
	t.Helper()
	client := newClient(t, endpoint)
	enginetest.Run(t, func(testing.TB) engine.Store { return dynamostore.New(client, table) })
}

const table = "test-dedupe"

// tables makes the table once at each endpoint.
var tables sync.Map

func newClient(t *testing.T, endpoint string) *dynamodb.Client {
	t.Helper()
	client := itembankengines.Client(endpoint, nil)
	made, _ := tables.LoadOrStore(endpoint, sync.OnceValue(func() error {
		return bank.CreateDedupeTable(context.Background(), client, table)
	}))
	if err := made.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return client
}
