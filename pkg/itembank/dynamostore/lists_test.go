package dynamostore_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// TestReconcileRefusesRowsWithOtherKeys: a list finds a row with the keys of another row, but a claim, a release or a
// load does not.
func TestReconcileRefusesRowsWithOtherKeys(t *testing.T) {
	t.Parallel()
	engine := itembankengines.Dynoxide(t)
	for name, test := range map[string]struct {
		table string
		own   func(campaign string) itembankengines.Key
		other func(own itembankengines.Key) itembankengines.Key
	}{
		"claim in another partition": {dedupeTable, ownClaim, otherPartition},
		"claim without its slot": {dedupeTable, ownClaim, func(k itembankengines.Key) itembankengines.Key {
			return itembankengines.Key{k[0], strings.TrimPrefix(k[1], "1#")}
		}},
		"item row in another partition": {bankTable, ownItem, otherPartition},
		"item row in capital letters": {bankTable, ownItem, func(k itembankengines.Key) itembankengines.Key {
			return itembankengines.Key{k[0], strings.ToUpper(k[1])}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, campaign := t.Context(), "places-"+strings.ToLower(rand.Text())
			bank := itembank.NewOperator(engine.Store)
			_, _, err := bank.CreateCampaign(ctx, campaign, itembank.Settings{Shards: 1})
			if err == nil {
				_, err = bank.Load(ctx, campaign, itembank.Items(placedItem), nil)
			}
			if err == nil {
				_, err = bank.Claim(ctx, campaign, "ann")
			}
			if err != nil {
				t.Fatal(err)
			}
			if r, err := bank.Reconcile(ctx, campaign); err != nil || len(r.Inconsistencies) > 0 {
				t.Fatalf("before: %+v, %v", r, err)
			}

			own := test.own(campaign)
			other := test.other(own)
			if err := move(ctx, engine.Raw.(itembankengines.DynamoDBRaw), test.table, own, other); err != nil {
				t.Fatal(err)
			}
			_, err = bank.Reconcile(ctx, campaign)
			if where := fmt.Sprintf("the row %q, %q ", other[0], other[1]); !errors.Is(err, itembank.ErrInconsistent) || !strings.Contains(err.Error(), where) {
				t.Errorf("want %v and %s, got %v", itembank.ErrInconsistent, where, err)
			}
		})
	}
}

const placedItem = "SAVE-10" // its hash has letters

func ownClaim(campaign string) itembankengines.Key {
	return itembankengines.ClaimKey(engine.ClaimKey{Scope: campaign, Claimant: "ann", Slot: 1})
}

func ownItem(campaign string) itembankengines.Key {
	return itembankengines.ItemKey(campaign, engine.HashItem(placedItem))
}

func otherPartition(k itembankengines.Key) itembankengines.Key {
	partition, number := k[0][:len(k[0])-2], k[0][len(k[0])-2:]
	if number == "01" {
		return itembankengines.Key{partition + "02", k[1]}
	}
	return itembankengines.Key{partition + "01", k[1]}
}

// move puts a row under another key.
func move(ctx context.Context, r itembankengines.DynamoDBRaw, table string, from, to itembankengines.Key) error {
	out, err := r.Client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(table), Key: row{"pk": text(from[0]), "sk": text(from[1])}})
	if err != nil {
		return err
	}
	return errors.Join(r.Put(ctx, table, to, out.Item), r.Drop(ctx, table, from))
}
