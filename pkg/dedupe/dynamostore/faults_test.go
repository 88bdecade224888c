package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// down is a table that throttles every put, which no local engine does.
type down struct {
	Client
	asked atomic.Int32
}

func (d *down) PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	d.asked.Add(1)
	return nil, &types.ThrottlingException{}
}

// TestTableDown: every entry fails, none is taken for a duplicate, and the
// table is not asked once for each.
func TestTableDown(t *testing.T) {
	t.Parallel()
	const n, concurrency = 500, 8
	client := &down{}
	entries := make([]dedupe.Entry, n)
	for i := range entries {
		entries[i] = dedupe.Entry{Scope: "s", Key: format.KeyOf(fmt.Sprint(i)), Arrival: time.Unix(1, 0)}
	}
	results, err := New(client, table, WithConcurrency(concurrency)).PutIfAbsent(t.Context(), entries)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Existing != nil || !errors.Is(r.Err, dedupe.ErrTryAgain) {
			t.Fatalf("entry %d: want %v, got %+v", i, dedupe.ErrTryAgain, r)
		}
	}
	if asked := client.asked.Load(); asked > 2*concurrency {
		t.Errorf("the table was asked %d times", asked)
	}
}
