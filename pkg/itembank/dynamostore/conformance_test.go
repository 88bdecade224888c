package dynamostore_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/enginetest"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

func TestMain(m *testing.M) { os.Exit(enginetest.Main(m)) }

func TestConformance(t *testing.T)                { itembanktest.Run(t, onDynoxide) }
func TestConformanceOnDynamoDBLocal(t *testing.T) { itembanktest.Run(t, onDynamoDBLocal) }
func TestMutants(t *testing.T)                    { itembanktest.RunMutants(t, onDynoxide) }

func onDynoxide(t *testing.T) itembanktest.Engine {
	return engine(t, enginetest.Dynoxide(t))
}

func onDynamoDBLocal(t *testing.T) itembanktest.Engine {
	return engine(t, enginetest.DynamoDBLocal(t))
}

const bankTable, dedupeTable = "test-bank", "test-dedupe"

// tablesMade keeps the cases of one process from making the tables at once.
var tablesMade sync.Map

func engine(t *testing.T, endpoint string) itembanktest.Engine {
	client := newClient(endpoint, nil)
	made, _ := tablesMade.LoadOrStore(endpoint, sync.OnceValue(func() error {
		return dynamostore.CreateTables(context.Background(), client, bankTable, dedupeTable)
	}))
	if err := made.(func() error)(); err != nil {
		t.Fatal(err)
	}
	return itembanktest.Engine{Store: dynamostore.New(client, bankTable, dedupeTable), Raw: raw{client}}
}

// newClient makes a client for a local engine; httpClient may be nil.
func newClient(endpoint string, httpClient aws.HTTPClient) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint), HTTPClient: httpClient,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// raw writes single rows without conditions.
type raw struct{ client *dynamodb.Client }

func (r raw) PutBankRow(ctx context.Context, i itembank.FreeItem) error {
	key := dynamostore.BankKey(i)
	_, err := r.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(bankTable), Item: map[string]types.AttributeValue{
		"pk": text(key[0]), "sk": text(key[1]), "item": text(i.Value),
	}})
	return err
}

func (r raw) DropItemRow(ctx context.Context, campaign string, h itembank.Hash) error {
	return r.drop(ctx, bankTable, dynamostore.ItemKey(campaign, h))
}

func (r raw) DropClaim(ctx context.Context, scope, claimant string) error {
	return r.drop(ctx, dedupeTable, dynamostore.ClaimKey(scope, claimant))
}

func (r raw) drop(ctx context.Context, table string, key [2]string) error {
	_, err := r.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: map[string]types.AttributeValue{
		"pk": text(key[0]), "sk": text(key[1]),
	}})
	return err
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
