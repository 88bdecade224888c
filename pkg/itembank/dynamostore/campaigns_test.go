package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// listing is a client with campaigns, in pages of names. A request takes 5 ms on the clock of synctest.
type listing struct {
	dynamostore.Client
	pages, perPage int
	row            func(name string) row
}

func (l listing) Query(
	_ context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options),
) (*dynamodb.QueryOutput, error) {
	time.Sleep(5 * time.Millisecond) // on the clock of synctest
	page := 0
	if in.ExclusiveStartKey != nil {
		_, err := fmt.Sscan(in.ExclusiveStartKey["sk"].(*types.AttributeValueMemberS).Value, &page)
		if err != nil {
			return nil, err
		}
	}
	out := &dynamodb.QueryOutput{}
	for i := range l.perPage {
		out.Items = append(out.Items, row{"pk": text("campaigns"), "sk": text(fmt.Sprintf("c-%05d", page*l.perPage+i))})
	}
	if page++; page < l.pages {
		out.LastEvaluatedKey = row{"pk": text("campaigns"), "sk": text(fmt.Sprint(page))}
	}
	return out, nil
}

func (l listing) GetItem(
	_ context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	time.Sleep(5 * time.Millisecond) // on the clock of synctest
	name := strings.TrimPrefix(in.Key["pk"].(*types.AttributeValueMemberS).Value, "campaign#")
	item := l.row(name)
	if item == nil {
		return nil, &types.ProvisionedThroughputExceededException{}
	}
	return &dynamodb.GetItemOutput{Item: item}, nil
}

func campaignRow(name string) row {
	return row{"name": text(name), "scope": text("s-" + name), "state": text("by-times"), "layout": number(3)}
}

// TestCampaignsAreReadSeveralAtATime: 10,000 campaigns take 3.5 s and not 50 s, in the order of their names.
func TestCampaignsAreReadSeveralAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := dynamostore.New(listing{pages: 10, perPage: 1000, row: campaignRow}, bankTable, dedupeTable)
		begun := time.Now()
		all, err := store.Campaigns(t.Context())
		if took := time.Since(begun); err != nil || len(all) != 10_000 || took > 3500*time.Millisecond {
			t.Fatalf("got %d campaigns in %v, %v", len(all), took, err)
		}
		for i, c := range all {
			if want := fmt.Sprintf("c-%05d", i); c.Name != want {
				t.Fatalf("campaign %d is %s, want %s", i, c.Name, want)
			}
		}
	})
}

// TestUnreadableCampaigns: the others are listed, and the error names those that cannot be read, with their scopes. A
// request that fails makes no campaign unreadable.
func TestUnreadableCampaigns(t *testing.T) {
	t.Parallel()
	client := listing{pages: 2, perPage: 2, row: func(name string) row {
		r := campaignRow(name)
		switch name {
		case "c-00001":
			r["layout"] = number(4)
		case "c-00002":
			r["shards"], r["scope"] = text("many"), number(1)
		}
		return r
	}}
	store := dynamostore.New(client, bankTable, dedupeTable)
	all, err := store.Campaigns(t.Context())
	if len(all) != 2 || all[0].Name != "c-00000" || all[1].Name != "c-00003" {
		t.Errorf("got the campaigns %+v", all)
	}
	unreadable, ok := errors.AsType[*engine.UnreadableError](err)
	if !ok || !errors.Is(err, dynamostore.ErrLayout) || len(unreadable.Campaigns) != 2 {
		t.Fatalf("got the error %v", err)
	}
	named, err := itembank.NewOperator(store).Campaigns(t.Context())
	if told, ok := errors.AsType[*itembank.UnreadableError](err); len(named) != 2 || !ok || len(told.Campaigns) != 2 ||
		!errors.Is(err, dynamostore.ErrLayout) {
		t.Fatalf("the operator got %+v, %v", named, err)
	}
	for i, want := range []engine.Unreadable{{Name: "c-00001", Scope: "s-c-00001"}, {Name: "c-00002"}} {
		got := unreadable.Campaigns[i]
		if got.Name != want.Name || got.Scope != want.Scope || !strings.Contains(err.Error(), "\n"+want.Name+": "+got.Err.Error()) {
			t.Errorf("want %+v, got %+v in %v", want, got, err)
		}
	}

	client.row = func(name string) row {
		if name == "c-00001" {
			return nil
		}
		return campaignRow(name)
	}
	if _, err := dynamostore.New(client, bankTable, dedupeTable).Campaigns(t.Context()); errors.As(err, &unreadable) || !errors.Is(err, engine.ErrTryAgain) {
		t.Errorf("a read was throttled: got the error %v", err)
	}
}

// reads is a client that counts the reads of single rows.
type reads struct {
	dynamostore.Client
	count atomic.Int64
}

func (r *reads) GetItem(
	ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	r.count.Add(1)
	return r.Client.GetItem(ctx, in, options...)
}

// TestDeletedNamesCostNothing: a list of the campaigns does not read the rows of deleted ones.
func TestDeletedNamesCostNothing(t *testing.T) {
	t.Parallel()
	client, _, table := newTables(t)
	counted := &reads{Client: client}
	store := dynamostore.New(counted, table, table+"-dedupe")
	bank := itembank.NewOperator(store)
	for i := range 3 {
		name := fmt.Sprintf("campaign-%d", i)
		_, _, err := bank.CreateCampaign(t.Context(), name, itembank.Settings{Shards: 1})
		if err == nil && i > 0 {
			err = bank.DeleteCampaign(t.Context(), name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	counted.count.Store(0)
	all, err := store.Campaigns(t.Context())
	if n := counted.count.Load(); err != nil || len(all) != 1 || n != 1 {
		t.Errorf("got %d campaigns with %d reads, %v", len(all), n, err)
	}
}
