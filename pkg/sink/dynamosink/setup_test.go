package dynamosink

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func clientOf(endpoint string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// db is an engine with a dedupe table and a table for items. The partition key of the latter is a text, "key".
type db struct {
	client        *dynamodb.Client
	entries, name string // tables
}

func newDB(t testing.TB, endpoint string) db {
	t.Helper()
	d := db{clientOf(endpoint), "entries-" + rand.Text(), "items-" + rand.Text()}
	must(t, bank.CreateDedupeTable(t.Context(), d.client, d.entries))
	_, err := d.client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &d.name, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("key"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("key"), KeyType: types.KeyTypeHash}},
	})
	must(t, err)
	return d
}

// get returns an item, or nil.
func (d db) get(t testing.TB, id string) item {
	t.Helper()
	out, err := d.client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &d.name, ConsistentRead: aws.Bool(true), Key: item{"key": &types.AttributeValueMemberS{Value: id}},
	})
	must(t, err)
	return out.Item
}

func (d db) put(t testing.TB, i item) {
	t.Helper()
	_, err := d.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &d.name, Item: i})
	must(t, err)
}

// A mode is a kind of sink under test. client is the client of the sink. Tests put their own client before the
// engine's.
type mode func(t testing.TB, d db, client dynamostore.Client) sinktest.TxTarget

var modes = map[string]mode{"insert": inserts, "upsert": upserts, "own": counts, "versions": withVersions}

func inserts(t testing.TB, d db, client dynamostore.Client) sinktest.TxTarget {
	store := dynamostore.New(client, d.entries)
	sink, err := New(store, Table{Name: d.name, Key: []Attribute{{"key", "id"}}})
	must(t, err)
	return sinktest.TxTarget{
		Sink: sink, Entries: store,
		Effects: func(t testing.TB, id string) int { return min(len(d.get(t, id)), 1) },
		Refused: func(t testing.TB, id string) []byte {
			d.put(t, item{"key": &types.AttributeValueMemberS{Value: "taken"}})
			return fmt.Appendf(nil, `{"id":"taken","fp":"x","other":%q}`, id)
		},
	}
}

// upserts uses the id as the key of an item. All records have the same version.
func upserts(t testing.TB, d db, client dynamostore.Client) sinktest.TxTarget {
	store := dynamostore.New(client, d.entries)
	sink, err := New(store, Table{Name: d.name, Key: []Attribute{{"key", "id"}}, Version: Attribute{"v", "v"}})
	must(t, err)
	return sinktest.TxTarget{
		Sink: sink, Entries: store,
		Effects: func(t testing.TB, id string) int { return min(len(d.get(t, id)), 1) },
		Payload: func(id, fp string) []byte { return versioned(id, "", fp, 1, false) },
		Refused: func(t testing.TB, id string) []byte {
			d.put(t, item{
				"key": &types.AttributeValueMemberS{Value: "by-another-program"}, "v": &types.AttributeValueMemberS{Value: "x"},
			})
			return fmt.Appendf(nil, `{"id":"by-another-program","fp":%q,"v":1}`, id)
		},
	}
}

// withVersions uses the member item as the key of an item. It is for the cases of versions.
func withVersions(t testing.TB, d db, client dynamostore.Client) sinktest.TxTarget {
	store := dynamostore.New(client, d.entries)
	sink, err := New(store, Table{
		Name: d.name, Key: []Attribute{{"key", "item"}}, Version: Attribute{"v", "v"},
		DeletePath: "op", DeleteValue: "delete",
	})
	must(t, err)
	return sinktest.TxTarget{
		Sink: sink, Entries: store,
		Versions: &sinktest.Versions{
			Payload: func(id, i string, version any, deletes bool) []byte { return versioned(id, i, "x", version, deletes) },
			Item: func(t testing.TB, i string) string {
				row := d.get(t, i)
				if row[DeletedAttribute] != nil {
					return ""
				}
				return textOf(row["id"])
			},
		},
	}
}

func versioned(id, i, fp string, version any, deletes bool) []byte {
	op := "write"
	if deletes {
		op = "delete"
	}
	if text, ok := version.(string); ok {
		version = fmt.Sprintf("%q", text)
	}
	return fmt.Appendf(nil, `{"id":%q,"item":%q,"fp":%q,"v":%v,"op":%q}`, id, i, fp, version, op)
}

// counts counts effects in an item, with actions of the caller.
func counts(_ testing.TB, d db, client dynamostore.Client) sinktest.TxTarget {
	store := dynamostore.New(client, d.entries)
	effect := func(_ context.Context, o dedupe.Output) ([]types.TransactWriteItem, error) {
		update := &types.Update{
			TableName: &d.name, Key: item{"key": &types.AttributeValueMemberS{Value: o.ID}},
			UpdateExpression:          aws.String("ADD n :one"),
			ExpressionAttributeValues: item{":one": &types.AttributeValueMemberN{Value: "1"}},
		}
		if strings.Contains(string(o.Data), "refused") {
			update.ConditionExpression, update.ExpressionAttributeNames = aws.String("attribute_exists(#m)"), map[string]string{"#m": "missing"}
		}
		return []types.TransactWriteItem{{Update: update}}, nil
	}
	return sinktest.TxTarget{
		Sink: NewEffect(store, effect, nil), Entries: store,
		Effects: func(t testing.TB, id string) (n int) {
			if i := d.get(t, id); i != nil {
				_, err := fmt.Sscan(textOf(i["n"]), &n)
				must(t, err)
			}
			return n
		},
		Refused: func(_ testing.TB, id string) []byte { return fmt.Appendf(nil, `{"id":%q,"fp":"refused"}`, id) },
	}
}
