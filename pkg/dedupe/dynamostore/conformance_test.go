package dynamostore

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dedupetest"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func TestConformance(t *testing.T)                { dedupetest.Run(t, onDynoxide) }
func TestConformanceOnDynamoDBLocal(t *testing.T) { dedupetest.Run(t, onDynamoDBLocal) }
func TestMutants(t *testing.T)                    { dedupetest.RunMutants(t, onDynoxide) }

func onDynoxide(t *testing.T) dedupetest.Engine { return engine(t, testengine.Dynoxide(t)) }

func onDynamoDBLocal(t *testing.T) dedupetest.Engine { return engine(t, testengine.DynamoDBLocal(t)) }

const table = "test-dedupe"

// tablesMade keeps the cases of one process from making the table at once.
var tablesMade sync.Map

func engine(t *testing.T, endpoint string) dedupetest.Engine {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	made, _ := tablesMade.LoadOrStore(endpoint, sync.OnceValue(func() error {
		return bank.CreateTables(context.Background(), client, table)
	}))
	if err := made.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return dedupetest.Engine{Store: New(client, table), Raw: raw{client}}
}

// raw deletes entries as TTL deletion does.
type raw struct{ client *dynamodb.Client }

func (r raw) DropEntry(ctx context.Context, scope string, k dedupe.Key) error {
	_, err := r.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: aws.String(table), Key: dynamo.Encode(entryKey(scope, k)),
	})
	return err
}
