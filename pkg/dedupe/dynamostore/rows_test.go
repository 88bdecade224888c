package dynamostore

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/internal/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TestCheckpointRow: operators and later versions read this row (docs/operations.md, "What stayed, in a new stack").
func TestCheckpointRow(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	k := dedupe.CheckpointKey{
		Scope: "rows", Stream: dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "orders"}, Shard: "shardId-000000000001",
	}
	if err := New(client, table).AdvanceCheckpoint(t.Context(), k, dedupe.Checkpoint{Sequence: "4711", Consumer: "the-function"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"sequence": strings.Repeat("0", 124) + "4711", "consumer": "the-function"} {
		if got := attribute(t, client, "checkpoint#rows#123456789012/eu-central-1/orders", k.Shard, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// attribute reads one attribute of a row from the table.
func attribute(t *testing.T, client *dynamodb.Client, pk, sk, name string) string {
	t.Helper()
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: new(table), Key: dynamo.Encode(key{pk, sk}), ConsistentRead: new(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	row := map[string]any{}
	if err := dynamo.Decode(out.Item, &row); err != nil {
		t.Fatal(err)
	}
	text, _ := row[name].(string)
	return text
}
