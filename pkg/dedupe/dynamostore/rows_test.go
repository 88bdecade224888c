package dynamostore

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dedupetest"
)

// TestCheckpointRow: the row as operators, and later versions, find it
// (docs/operations.md, "What stayed, in a new stack").
func TestCheckpointRow(t *testing.T) {
	t.Parallel()
	e := onDynoxide(t)
	k := dedupe.CheckpointKey{
		Scope: "rows", Stream: dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "orders"}, Shard: "shardId-000000000001",
	}
	if err := e.Store.AdvanceCheckpoint(t.Context(), k, dedupe.Checkpoint{Sequence: "4711", Consumer: "the-function"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"sequence": strings.Repeat("0", 124) + "4711", "consumer": "the-function"} {
		if got := attribute(t, e, "checkpoint#rows#123456789012/eu-central-1/orders", k.Shard, name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// attribute reads one attribute of a row, past the store.
func attribute(t *testing.T, e dedupetest.Engine, pk, sk, name string) string {
	t.Helper()
	out, err := e.Raw.(raw).client.GetItem(t.Context(), &dynamodb.GetItemInput{
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
