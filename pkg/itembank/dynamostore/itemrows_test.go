package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// partial is a client that reads at most a given number of rows of a batch, as a throttled DynamoDB does. A local
// engine reads all of them.
type partial struct {
	dynamostore.Client
	rows int
}

func (p partial) BatchGetItem(
	ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	keys := in.RequestItems[bankTable]
	all := keys.Keys
	if p.rows == 0 {
		return &dynamodb.BatchGetItemOutput{UnprocessedKeys: in.RequestItems}, nil
	}
	n := min(p.rows, len(all))
	keys.Keys = all[:n]
	out, err := p.Client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{bankTable: keys},
	}, options...)
	if err == nil && n < len(all) {
		keys.Keys = all[n:]
		out.UnprocessedKeys = map[string]types.KeysAndAttributes{bankTable: keys}
	}
	return out, err
}

// TestItemRowsReadsUnprocessedKeysAgain: another request reads the rows that a reply leaves out. A reply without any
// row is ErrThrottled.
func TestItemRowsReadsUnprocessedKeysAgain(t *testing.T) {
	t.Parallel()
	e := itembankengines.Dynoxide(t)
	ctx, campaign := t.Context(), "unprocessed-"+rand.Text()[:8]
	shard := engine.Shard{Campaign: campaign}
	var hashes []engine.Hash
	for _, item := range []string{"a", "b", "c", "d", "e"} {
		h := engine.HashItem(item)
		hashes = append(hashes, h)
		if item == "c" {
			continue
		}
		add := engine.AddRequest{Item: engine.FreeItem{Shard: shard, Hash: h, Value: item}, LoadID: "load " + item}
		if _, err := e.Store.AddItems(ctx, []engine.AddRequest{add}); err != nil {
			t.Fatal(err)
		}
	}
	client := e.Raw.(itembankengines.DynamoDBRaw).Client
	store := itembankengines.Shared.Store(partial{client, 2})
	rows, err := store.ItemRows(ctx, campaign, hashes, engine.Strong)
	var loads []string
	for _, row := range rows {
		if row == nil {
			row = &engine.ItemRow{}
		}
		loads = append(loads, row.LoadID)
	}
	if want := []string{"load a", "load b", "", "load d", "load e"}; err != nil || !slices.Equal(loads, want) {
		t.Errorf("want %q, got %q, %v", want, loads, err)
	}
	stuck := itembankengines.Shared.Store(partial{client, 0})
	if rows, err := stuck.ItemRows(ctx, campaign, hashes, engine.Strong); !errors.Is(err, engine.ErrThrottled) || !errors.Is(err, itembank.ErrTryAgain) {
		t.Errorf("nothing was read: want %v, got %v, %v", engine.ErrThrottled, rows, err)
	}
}
