package dynamostore_test

import (
	"context"
	"maps"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/itembanktest"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func TestConformance(t *testing.T)                { itembanktest.Run(t, onDynoxide) }
func TestConformanceOnDynamoDBLocal(t *testing.T) { itembanktest.Run(t, onDynamoDBLocal) }
func TestMutants(t *testing.T)                    { itembanktest.RunMutants(t, onDynoxide) }

func onDynoxide(t *testing.T) itembanktest.Engine {
	return newEngine(t, testengine.Dynoxide(t))
}

func onDynamoDBLocal(t *testing.T) itembanktest.Engine {
	return newEngine(t, testengine.DynamoDBLocal(t))
}

const bankTable, dedupeTable = "test-bank", "test-dedupe"

// tablesMade keeps the cases of one process from making the tables at once.
var tablesMade sync.Map

func newEngine(t *testing.T, endpoint string) itembanktest.Engine {
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

type row = map[string]types.AttributeValue

func (r raw) PutBankRow(ctx context.Context, i engine.FreeItem) error {
	return r.put(ctx, bankTable, dynamostore.BankKey(i), row{"item": text(i.Value), "ends_at": millis(i.EndsAt)})
}

func (r raw) DropBankRow(ctx context.Context, i engine.FreeItem) error {
	return r.drop(ctx, bankTable, dynamostore.BankKey(i))
}

func (r raw) PutItemRow(ctx context.Context, campaign string, i engine.ListedItem) error {
	attributes := row{
		"load_id": text(i.LoadID), "row": number(i.Row), "generation": number(int64(i.Generation)), "ends_at": millis(i.EndsAt),
		"returns": number(int64(i.Returns)),
	}
	if i.State != "" {
		attributes["state"] = text(string(i.State))
	}
	return r.put(ctx, bankTable, dynamostore.ItemKey(campaign, i.Hash), attributes)
}

func (r raw) DropItemRow(ctx context.Context, campaign string, h engine.Hash) error {
	return r.drop(ctx, bankTable, dynamostore.ItemKey(campaign, h))
}

func (r raw) PutClaim(ctx context.Context, c engine.Claim) error {
	return r.put(ctx, dedupeTable, dynamostore.ClaimKey(c.Scope, c.Claimant), row{
		"claim_id": text(c.ID), "campaign": text(c.Campaign), "item": text(c.Item), "item_hash": text(c.ItemHash.String()),
		"claimed_at": millis(c.ClaimedAt), "ends_at": millis(c.EndsAt),
	})
}

func (r raw) DropClaim(ctx context.Context, scope, claimant string) error {
	return r.drop(ctx, dedupeTable, dynamostore.ClaimKey(scope, claimant))
}

// put writes the attributes that have a value.
func (r raw) put(ctx context.Context, table string, key [2]string, attributes row) error {
	attributes["pk"], attributes["sk"] = text(key[0]), text(key[1])
	maps.DeleteFunc(attributes, func(_ string, v types.AttributeValue) bool { return v == nil })
	_, err := r.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes})
	return err
}

func (r raw) drop(ctx context.Context, table string, key [2]string) error {
	_, err := r.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: row{"pk": text(key[0]), "sk": text(key[1])}})
	return err
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// millis is nil for the zero time, which is no attribute.
func millis(t time.Time) types.AttributeValue {
	if t.IsZero() {
		return nil
	}
	return number(t.UnixMilli())
}
