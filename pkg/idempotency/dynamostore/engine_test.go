package dynamostore_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
	"github.com/oncebox/oncebox/pkg/idempotency/enginetest"
	"github.com/oncebox/oncebox/pkg/idempotency/powertools"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// TestEngine: the rules of an engine hold for rows of all formats.
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
	stores := map[string]engine.Transactor{"native": dynamostore.New(client, table)}
	for _, format := range []powertools.Format{powertools.Python, powertools.TypeScript} {
		stores[string(format)] = hashed{newPowertools(t, client, theirTable(format)), format}
	}
	for name, store := range stores {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(testing.TB) engine.Store { return store })
			enginetest.RunTransactor(t, func(testing.TB) (engine.Transactor, enginetest.Counters) {
				return store, counters{client}
			})
		})
	}
}

// counters are items of the same table.
type counters struct{ client *dynamodb.Client }

func counter(name string) row { return row{"pk": text("counter#" + name), "sk": text("n")} }

func add(name string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(table), Key: counter(name), UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: row{":one": &types.AttributeValueMemberN{Value: "1"}},
	}}
}

func (counters) Add(name, onlyOnce string) engine.Effects {
	if name == onlyOnce {
		return dynamostore.Effects(add(name))
	}
	once := add(onlyOnce)
	once.Update.ConditionExpression = aws.String("attribute_not_exists(pk)")
	return dynamostore.Effects(add(name), once)
}

func (c counters) Count(t testing.TB, name string) int {
	t.Helper()
	out, err := c.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(table), Key: counter(name), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Item) == 0 {
		return 0
	}
	n, err := strconv.Atoi(out.Item["n"].(*types.AttributeValueMemberN).Value)
	if err != nil {
		t.Fatal(err)
	}
	return n
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
