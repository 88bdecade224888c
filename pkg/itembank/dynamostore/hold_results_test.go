package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// updating is a client whose updates return an error.
type updating struct {
	dynamostore.Client
	err error
}

func (u updating) UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return nil, u.err
}

// TestIndexAttributes: the row of a hold has the attributes that put it into the index. A confirmed claim and a claim
// without an end have none of them, so they cost nothing there. A store with other attributes would not find the holds
// of existing tables.
func TestIndexAttributes(t *testing.T) {
	onLocalEngines(t, func(t *testing.T, endpoint string) {
		itembankengines.DynamoDB(t, endpoint) // makes the tables
		client := itembankengines.Client(endpoint, nil)
		ctx, bank := t.Context(), itembank.NewOperator(itembankengines.Shared.Store(client))
		for _, hold := range []time.Duration{time.Minute, 0} {
			name := "index-" + strings.ToLower(rand.Text())
			_, _, create := bank.CreateCampaign(ctx, name, itembank.Settings{Hold: hold, Shards: 12})
			_, load := bank.Load(ctx, name, itembank.Items("seat"), nil)
			grant, err := bank.Claim(ctx, name, "ann")
			if err := errors.Join(create, load, err); err != nil {
				t.Fatal(err)
			}
			ends, due := "", ""
			if hold > 0 {
				ends, due = fmt.Sprint(grant.Claim.EndsAt.UnixMilli()), fmt.Sprintf("due#%s#%02d", name, engine.HashItem("seat").ShardOf(12))
			}
			wantIndexed(t, client, name, ends, due)
			if hold > 0 {
				if _, err := bank.Confirm(ctx, name, "ann", grant.Claim.ID); err != nil {
					t.Fatal(err)
				}
				wantIndexed(t, client, name, "", "")
			}
		}
	})
}

// wantIndexed compares the attributes of ann's claim row that are keys of the index.
func wantIndexed(t *testing.T, client *dynamodb.Client, scope, ends, due string) {
	t.Helper()
	key := itembankengines.ClaimKey(engine.ClaimKey{Scope: scope, Claimant: "ann", Slot: 1})
	out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(dedupeTable), Key: row{"pk": text(key[0]), "sk": text(key[1])}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ EndsAt, Due string }
	if n, ok := out.Item["ends_at"].(*types.AttributeValueMemberN); ok {
		got.EndsAt = n.Value
	}
	if s, ok := out.Item["due"].(*types.AttributeValueMemberS); ok {
		got.Due = s.Value
	}
	if len(out.Item) == 0 || got.EndsAt != ends || got.Due != due {
		t.Errorf("want the keys %q and %q in the index, got %+v of %v", ends, due, got, out.Item)
	}
}

// TestConfirmClaimReadsConflicts: a conflict with a transaction is a result, and so is a failed condition. Local
// engines never return the conflict.
func TestConfirmClaimReadsConflicts(t *testing.T) {
	t.Parallel()
	held := row{
		"claim_id": text("id-1"), "campaign": text("spring"), "item": text("A-1"),
		"item_hash": text(engine.HashItem("A-1").String()), "claimed_at": &types.AttributeValueMemberN{Value: "1"},
	}
	for _, test := range []struct {
		name     string
		err      error
		conflict bool
		held     bool
		fails    bool
		want     error // if fails is set; nil: any error
	}{
		{name: "conflict", err: &types.TransactionConflictException{}, conflict: true},
		{name: "another claim", err: &types.ConditionalCheckFailedException{Item: held}, held: true},
		{name: "no claim", err: &types.ConditionalCheckFailedException{}},
		{name: "throttled", err: &types.ThrottlingException{}, fails: true, want: engine.ErrThrottled},
		{name: "server error", err: &types.InternalServerError{}, fails: true},
	} {
		got, err := dynamostore.New(updating{err: test.err}, bankTable, dedupeTable).ConfirmClaim(t.Context(), engine.Claim{Claimant: "ann"})
		switch {
		case (err != nil) != test.fails, test.want != nil && !errors.Is(err, test.want),
			got.Conflict != test.conflict, (got.Held != nil) != test.held:
			t.Errorf("%s: got %+v, %v", test.name, got, err)
		case got.Held != nil && (got.Held.Claimant != "ann" || got.Held.ID != "id-1"):
			t.Errorf("%s: got %+v", test.name, *got.Held)
		}
	}
}

// TestDueClaimsRefusesOtherRows: a row of the index that is not a claim is an error.
func TestDueClaimsRefusesOtherRows(t *testing.T) {
	t.Parallel()
	for _, keys := range [][2]string{{"item#spring#001", "1#ann"}, {"claim#spring", "1#ann"}, {"claim#spring#001", "ann"}} {
		store := dynamostore.New(index{row: row{"pk": text(keys[0]), "sk": text(keys[1])}}, bankTable, dedupeTable)
		if _, err := store.DueClaims(t.Context(), engine.Shard{}, time.Time{}, time.Now(), 1); !errors.Is(err, engine.ErrInconsistent) {
			t.Errorf("%v: want %v, got %v", keys, engine.ErrInconsistent, err)
		}
	}
	throttled := dynamostore.New(index{err: &types.ThrottlingException{}}, bankTable, dedupeTable)
	if _, err := throttled.DueClaims(t.Context(), engine.Shard{}, time.Time{}, time.Now(), 1); !errors.Is(err, engine.ErrThrottled) {
		t.Errorf("want %v, got %v", engine.ErrThrottled, err)
	}
}

// index is a client whose queries return a row, or an error.
type index struct {
	dynamostore.Client
	row row
	err error
}

func (i index) Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return &dynamodb.QueryOutput{Items: []map[string]types.AttributeValue{i.row}}, i.err
}
