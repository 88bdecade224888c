package dynamostore_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/enginerows"
	"github.com/oncebox/oncebox/internal/itembankengines"
	"github.com/oncebox/oncebox/internal/testengine"
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

// TestLayoutOfCampaigns: an earlier version of oncebox reads the campaigns whose rules it keeps, and no
// others. Where there are others it creates no campaign: it looks at the first of the list.
func TestLayoutOfCampaigns(t *testing.T) {
	t.Parallel()
	client, store, table := newTables(t)
	bank := itembank.New(store)
	create := func(name string, s itembank.Settings) {
		if _, _, err := bank.CreateCampaign(t.Context(), name, s); err != nil {
			t.Fatal(err)
		}
	}
	create("0-usual", itembank.Settings{})
	wantLayouts(t, client, table, map[string]string{"0-usual": "2"})
	create("1-emails", itembank.Settings{ClaimantAs: itembank.Email})
	create("2-usual", itembank.Settings{})
	create("3-choice", itembank.Settings{Choice: true})
	create("4-columns", itembank.Settings{Columns: true})
	wantLayouts(t, client, table, map[string]string{
		"!": "3", "0-usual": "2", "1-emails": "3", "2-usual": "2", "3-choice": "3", "4-columns": "3",
	})
	if all, err := bank.Campaigns(t.Context()); len(all) != 5 || all[0].Name != "0-usual" || err != nil {
		t.Errorf("got %+v, %v", all, err)
	}

	// A later version has put a campaign of its own.
	put(t, client, table, "campaign#!", map[string]types.AttributeValue{"name": itembankengines.Text("!"), "layout": itembankengines.Number(4)})
	if _, _, err := bank.CreateCampaign(t.Context(), "5-usual", itembank.Settings{}); !errors.Is(err, dynamostore.ErrLayout) {
		t.Errorf("want %v, got %v", dynamostore.ErrLayout, err)
	}
}

// wantLayouts compares the layouts of the campaigns, in the order in which an earlier version lists them.
func wantLayouts(t *testing.T, client *dynamodb.Client, table string, want map[string]string) {
	t.Helper()
	page, err := client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String(table), KeyConditionExpression: aws.String("pk = :pk"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": itembankengines.Text("campaigns")},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Items) != len(want) {
		t.Errorf("want the campaigns %v, got %v", want, page.Items)
	}
	for i, listed := range page.Items {
		name := textOf(listed["sk"])
		if _, fenced := want["!"]; fenced && i == 0 && name != "!" {
			t.Errorf("an earlier version meets %s first", name)
		}
		row, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(table), Key: map[string]types.AttributeValue{
			"pk": itembankengines.Text("campaign#" + name), "sk": itembankengines.Text("meta"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := row.Item["layout"].(*types.AttributeValueMemberN); got == nil || got.Value != want[name] {
			t.Errorf("%s: want layout %s, got %v", name, want[name], row.Item["layout"])
		}
	}
}

// TestScopeOfALaterVersion: a scope with rules that this version does not know is refused.
func TestScopeOfALaterVersion(t *testing.T) {
	t.Parallel()
	client, store, table := newTables(t)
	put(t, client, table, "scope#s", map[string]types.AttributeValue{"layout": itembankengines.Number(4)})
	_, err := store.CreateCampaign(t.Context(), engine.Campaign{Name: "c", Scope: "s", Shards: 1})
	if c, readErr := store.Campaign(t.Context(), "c"); !errors.Is(err, dynamostore.ErrLayout) || c != nil || readErr != nil {
		t.Errorf("want %v, got %v, and the campaign %+v, %v", dynamostore.ErrLayout, err, c, readErr)
	}
}

// put puts a row with the sort key of campaigns and scopes.
func put(t *testing.T, client *dynamodb.Client, table, pk string, attributes map[string]types.AttributeValue) {
	t.Helper()
	attributes["pk"], attributes["sk"] = itembankengines.Text(pk), itembankengines.Text("meta")
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(table), Item: attributes})
	if err != nil {
		t.Fatal(err)
	}
}

func textOf(v types.AttributeValue) string {
	s, _ := v.(*types.AttributeValueMemberS)
	return s.Value
}
