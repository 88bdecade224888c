package main

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines" //nolint:depguard // a user has DynamoDB Local
	"github.com/oncebox/oncebox/internal/testkit/testengine"      //nolint:depguard // a user has DynamoDB Local
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const dedupe, stock, orders = "order-dedupe", "order-stock", "order-orders"

type tables struct {
	t      *testing.T
	client *dynamodb.Client
}

func newTables(t *testing.T) tables {
	t.Helper()
	endpoint, stop := testengine.FreshDynoxide(t)
	t.Cleanup(stop)
	client := itembankengines.Client(endpoint, nil)
	must(t, dynamostore.CreateDedupeTable(t.Context(), client, dedupe))
	for table, key := range map[string]string{stock: "item", orders: "id"} {
		_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
			TableName: &table, BillingMode: types.BillingModePayPerRequest,
			AttributeDefinitions: []types.AttributeDefinition{
				{AttributeName: &key, AttributeType: types.ScalarAttributeTypeS},
			},
			KeySchema: []types.KeySchemaElement{{AttributeName: &key, KeyType: types.KeyTypeHash}},
		})
		must(t, err)
	}
	return tables{t, client}
}

func (s tables) setStock(pieces int64) {
	s.t.Helper()
	_, err := s.client.PutItem(s.t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(stock),
		Item:      map[string]types.AttributeValue{"item": text("mug"), "pieces": number(pieces)},
	})
	must(s.t, err)
}

// left returns the pieces in the stock, and how many orders were taken.
func (s tables) left() (pieces string, taken int32) {
	s.t.Helper()
	out, err := s.client.GetItem(s.t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String(stock), Key: map[string]types.AttributeValue{"item": text("mug")},
	})
	must(s.t, err)
	all, err := s.client.Scan(s.t.Context(), &dynamodb.ScanInput{TableName: aws.String(orders)})
	must(s.t, err)
	return out.Item["pieces"].(*types.AttributeValueMemberN).Value, all.Count
}

// TestOrder: an order takes its items once. One that the stock cannot serve changes nothing, and can be repeated.
func TestOrder(t *testing.T) {
	t.Parallel()
	rows := newTables(t)
	rows.setStock(3)
	s, err := newShop(rows.client, dedupe, stock, orders)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first, second := order{"o-1", "mug", 2}, order{"o-2", "mug", 2}
	var receipts [2]receipt
	for i := range receipts {
		receipts[i], err = s.order(ctx, first)
		must(t, err)
	}
	if receipts[0].Order != "o-1" || receipts[0] != receipts[1] {
		t.Errorf("the receipts are %v", receipts)
	}
	if _, err := s.order(ctx, order{"o-3", "mug", 0}); !errors.Is(err, errNotAnOrder) {
		t.Error(err)
	}
	if _, err := s.order(ctx, second); !errors.Is(err, errSoldOut) {
		t.Error(err)
	}
	if pieces, taken := rows.left(); pieces != "1" || taken != 1 {
		t.Errorf("the stock has %s pieces after %d orders", pieces, taken)
	}
	rows.setStock(5)
	if _, err := s.order(ctx, second); err != nil {
		t.Error(err)
	}
	if pieces, taken := rows.left(); pieces != "3" || taken != 2 {
		t.Errorf("the stock has %s pieces after %d orders", pieces, taken)
	}
}
