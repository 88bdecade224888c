package dynamostore_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/enginerows"
	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// newTables makes tables that no other test has.
func newTables(t *testing.T) (*dynamodb.Client, *dynamostore.Store, string) {
	t.Helper()
	client := itembankengines.Client(testengine.Dynoxide(t), nil)
	bank := enginerows.NewName()
	if err := dynamostore.CreateTables(t.Context(), client, bank, bank+"-dedupe"); err != nil {
		t.Fatal(err)
	}
	return client, dynamostore.New(client, bank, bank+"-dedupe"), bank
}

// TestAnotherLayoutIsRefused: what another version of oncebox made is neither read nor changed. A campaign beside it
// could share its scope.
func TestAnotherLayoutIsRefused(t *testing.T) {
	t.Parallel()
	for _, layout := range []int64{0, 1, 4} {
		client, store, table := newTables(t)
		put(t, client, table, "campaigns", "spring", nil)
		put(t, client, table, "campaign#spring", "meta", map[string]types.AttributeValue{
			"name": itembankengines.Text("spring"), "layout": itembankengines.Number(layout),
		})
		bank := itembank.NewOperator(store)
		_, read := bank.Campaign(t.Context(), "spring")
		_, listed := bank.Campaigns(t.Context())
		_, _, again := bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
		_, _, beside := bank.CreateCampaign(t.Context(), "summer", itembank.Settings{})
		opened := bank.OpenCampaign(t.Context(), "spring")
		says := fmt.Sprintf("campaign \"spring\" has layout %d, and this version of oncebox reads layouts 2 and 3; use the version that "+
			"made it, or load the items into new tables", layout)
		for doing, err := range map[string]error{
			"read": read, "list": listed, "create it": again, "create another": beside, "open": opened,
		} {
			if !errors.Is(err, dynamostore.ErrLayout) || !strings.HasSuffix(err.Error(), says) {
				t.Errorf("%s: got %v, want %v: %s", doing, err, dynamostore.ErrLayout, says)
			}
		}
	}
}

// TestScopeOfAnotherLayout: a scope whose rules this version does not know gets no campaign.
func TestScopeOfAnotherLayout(t *testing.T) {
	t.Parallel()
	for _, layout := range []int64{1, 4} {
		client, store, table := newTables(t)
		put(t, client, table, "scope#s", "meta", map[string]types.AttributeValue{"layout": itembankengines.Number(layout)})
		_, err := store.CreateCampaign(t.Context(), engine.Campaign{Name: "c", Scope: "s", Shards: 1})
		if c, readErr := store.Campaign(t.Context(), "c"); !errors.Is(err, dynamostore.ErrLayout) || c != nil || readErr != nil {
			t.Errorf("want %v, got %v, and the campaign %+v, %v", dynamostore.ErrLayout, err, c, readErr)
		}
	}
}

// TestRowsOfLayout2: campaigns and scopes of layout 2 are read, and get a campaign beside them. The fence is no campaign.
func TestRowsOfLayout2(t *testing.T) {
	t.Parallel()
	client, store, table := newTables(t)
	bank := itembank.NewOperator(store)
	create := func(name string) {
		t.Helper()
		if _, _, err := bank.CreateCampaign(t.Context(), name, itembank.Settings{Scope: "year"}); err != nil {
			t.Fatal(err)
		}
	}
	create("spring")
	for _, pk := range []string{"campaign#spring", "scope#year"} {
		_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: &table, UpdateExpression: aws.String("SET layout = :two"),
			Key:                       map[string]types.AttributeValue{"pk": itembankengines.Text(pk), "sk": itembankengines.Text("meta")},
			ExpressionAttributeValues: map[string]types.AttributeValue{":two": itembankengines.Number(2)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	put(t, client, table, "campaigns", "!", nil)
	put(t, client, table, "campaign#!", "meta", map[string]types.AttributeValue{
		"name": itembankengines.Text("!"), "layout": itembankengines.Number(3),
	})
	create("summer")
	if all, err := bank.Campaigns(t.Context()); err != nil || len(all) != 2 || all[0].Name != "spring" || all[1].Name != "summer" {
		t.Errorf("got %+v, %v", all, err)
	}
}

func put(t *testing.T, client *dynamodb.Client, table, pk, sk string, attributes map[string]types.AttributeValue) {
	t.Helper()
	row := map[string]types.AttributeValue{"pk": itembankengines.Text(pk), "sk": itembankengines.Text(sk)}
	maps.Copy(row, attributes)
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: row})
	if err != nil {
		t.Fatal(err)
	}
}
