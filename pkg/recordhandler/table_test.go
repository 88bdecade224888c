package recordhandler_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	bank "github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

// dedupeTable makes a dedupe table.
func dedupeTable(t *testing.T) (client *dynamodb.Client, name string) {
	t.Helper()
	client = dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(testengine.Dynoxide(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
	name = "entries-" + rand.Text()
	must(t, bank.CreateDedupeTable(t.Context(), client, name))
	return client, name
}

// TestFunctionThatIsSwitchedToATable: a function with a stream sink fails in the middle of a batch. Then it gets a
// table as its sink, in the same scope, and the batch again: each record becomes an item, and none is written twice.
func TestFunctionThatIsSwitchedToATable(t *testing.T) {
	t.Parallel()
	client, entries := dedupeTable(t)
	itemTable := "items-" + rand.Text()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &itemTable, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
	})
	must(t, err)
	store := dynamostore.New(client, entries)
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=dynamodb:" + itemTable + "?key=id",
		"ONCEBOX_DEAD_LETTERS=dir:" + t.TempDir(),
	})
	must(t, err)
	raw := rawOf(t, event(`{"id":"a"}`, `{"id":"b"}`, `{"id":"a"}`, `{"id":"c"}`, `{"id":"c","n":2}`))

	sent := 0
	before, err := recordhandler.New(dedupe.Parts{
		Ledger: store, Acks: store, DeadLetters: noLetters{},
		Sink: dedupe.SinkFunc(func(context.Context, dedupe.Output) error {
			sent++
			return errors.New("the stream is gone")
		}),
	}, recordhandler.Options{Format: o.Format, Sink: recordhandler.SinkSetting{Own: "unique"}}, slog.New(slog.DiscardHandler))
	must(t, err)
	if _, err := before.Handle(t.Context(), raw); !errors.Is(err, recordhandler.ErrNoProgress) || sent == 0 {
		t.Fatalf("%d records were sent: %v", sent, err)
	}

	h, err := recordhandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.DiscardHandler))
	must(t, err)
	for _, want := range []dedupe.Tally{
		{In: 5, Retry: 4, Natural: 1, Out: 4},
		{In: 5, Skipped: 5},
	} {
		r, err := h.Deliver(t.Context(), raw)
		must(t, err)
		equal(t, "tally", r.Tally, want)
	}
	items, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &itemTable, ConsistentRead: aws.Bool(true)})
	must(t, err)
	equal(t, "items", len(items.Items), 4)
}

type noLetters struct{}

func (noLetters) Put(context.Context, []dedupe.DeadLetter) (int, error) {
	return 0, errors.New("there is no dead letter in this test")
}

// TestTableWithAnotherStore: an item and its entry are written in one transaction, so they must be in one service.
func TestTableWithAnotherStore(t *testing.T) {
	t.Parallel()
	store, err := sqlitestore.OpenMemory(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	o, err := recordhandler.ParseOptions([]string{
		"ONCEBOX_ID_PATH=id", "ONCEBOX_SINK=dynamodb:items?key=id",
		"ONCEBOX_DEAD_LETTERS=dir:" + filepath.Join(t.TempDir(), "dead"),
	})
	must(t, err)
	_, err = recordhandler.Open(t.Context(), sdkconfig.Load, store, o, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "choose dynamodb: as the store") {
		t.Errorf("got %v", err)
	}
}
