package dynamostore

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

var clicks = dedupe.Stream{Account: "123456789012", Region: "eu-central-1", Name: "clicks"}

// TestRowNames pins names that operators, the policies of a function and later versions use.
func TestRowNames(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	s := New(client, table)
	owner := dedupe.Position{Stream: clicks, Shard: "shardId-000000000001", Sequence: "4711", Sub: 3}.Owner()
	arrival := time.UnixMilli(1_795_176_000_123)
	results, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{{
		Scope: "rows", Key: format.KeyOf("order-1"), Owner: owner, Fingerprint: "fp", Version: "v1", Arrival: arrival, PurgeAt: 1_795_200_000,
	}})
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	if _, err := s.ClaimConsumer(t.Context(), "rows", clicks, "the-function"); err != nil {
		t.Fatal(err)
	}
	id := format.KeyOf("order-1")
	entry := "record#rows#" + base64.RawURLEncoding.EncodeToString(id[:])
	for _, want := range []struct{ pk, sk, name, value string }{
		{entry, "entry", "r", "1/4711#3"},
		{entry, "entry", "purge_at", "1.7952e+09"},
		{"consumer#rows", "123456789012/eu-central-1/clicks", "function", "the-function"},
		{"consumer#rows", "123456789012/eu-central-1/clicks", "ledger", "keys"},
	} {
		if got := attribute(t, client, want.pk, want.sk, want.name); got != want.value {
			t.Errorf("%s, %s: got %q, want %q", want.pk, want.name, got, want.value)
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
	return fmt.Sprint(row[name])
}

// queries counts the pages that a client reads.
type queries struct {
	*dynamodb.Client
	pages atomic.Int32
}

func (q *queries) Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	q.pages.Add(1)
	return q.Client.Query(ctx, in, options...)
}

// TestPagesOfAcks: further acks are read as long as a page overlaps the batch. A batch that comes again late does not
// read all acks that were written since.
func TestPagesOfAcks(t *testing.T) {
	t.Parallel()
	client := &queries{Client: newClient(t, testengine.Dynoxide(t))}
	s := New(client, table)
	k := dedupe.AckKey{Scope: "pages-" + strings.ReplaceAll(t.Name(), "/", "-"), Stream: clicks, Shard: "shardId-000000000001", Sink: "s"}
	mark := dedupe.Owner{}.Mark()
	const acks = 5 * ackPage / 2
	for i := range acks { // the acks end at 0, 10, 20 and so on
		a := dedupe.Ack{First: fmt.Sprint(max(0, 10*i-9)), Last: fmt.Sprint(10 * i), Owners: mark[:]}
		if err := s.WriteAck(t.Context(), k, a); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name                    string
		first, last             int
		pages                   int32
		acks                    int
		firstOfFirst, endOfLast string
	}{
		{"the newest records", 10*acks + 1, 10*acks + 9, 1, 0, "", ""},
		{"an old batch: the second page is behind it", 1, 5, 2, 1, "1", "10"},
		{"a batch of the first page and a half", 1, 15 * ackPage, 3, 3 * ackPage / 2, "1", fmt.Sprint(15 * ackPage)},
		{"a batch of all", 0, 10 * acks, 3, acks, "0", fmt.Sprint(10 * (acks - 1))},
	} {
		client.pages.Store(0)
		got, err := s.ReadAcks(t.Context(), k, fmt.Sprint(test.first), fmt.Sprint(test.last))
		if err != nil || len(got) != test.acks || client.pages.Load() != test.pages {
			t.Errorf("%s: want %d acks of %d pages, got %d of %d, %v", test.name, test.acks, test.pages, len(got), client.pages.Load(), err)
			continue
		}
		if len(got) > 0 && (got[0].First != test.firstOfFirst || got[len(got)-1].Last != test.endOfLast) {
			t.Errorf("%s: got %s to %s", test.name, got[0].First, got[len(got)-1].Last)
		}
	}
}
