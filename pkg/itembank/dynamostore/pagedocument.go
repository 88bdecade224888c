package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// pageRow is stored under the same partition key as the campaign row. It exists only while the campaign does.
type pageRow struct {
	key
	Document []byte `dynamodbav:"document"`
}

func pageKey(campaign string) key {
	k := campaignKey(campaign)
	k.SK = "page"
	return k
}

// PutPageDocument is one transaction: {check that the campaign row exists and is not deleted, put the page row}.
func (s *Store) PutPageDocument(ctx context.Context, campaign string, document []byte) (bool, error) {
	return s.ifFirst(ctx, "write page", check(s.bankTable, campaignKey(campaign), types.ConditionCheck{
		ConditionExpression:       aws.String(ifNotDeleted),
		ExpressionAttributeNames:  map[string]string{"#state": "state"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":deleted": deleted},
	}), types.TransactWriteItem{Put: &types.Put{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(pageRow{pageKey(campaign), document}),
	}})
}

// deleteCampaign is one transaction: {put the campaign row, delete the page row, delete the name in the list of all}.
func (s *Store) deleteCampaign(ctx context.Context, campaign *types.Put, name string) (bool, error) {
	return s.ifFirst(ctx, "delete campaign", types.TransactWriteItem{Put: campaign},
		deleteRow(s.bankTable, pageKey(name)), deleteRow(s.bankTable, nameKey(name)))
}

// ifFirst makes all actions or none. done = false: the condition of the first action failed.
func (s *Store) ifFirst(ctx context.Context, doing string, actions ...types.TransactWriteItem) (done bool, err error) {
	_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	switch {
	case !cancelled:
		return err == nil, failed(doing, err)
	case reasons[0].Reason == dynamo.ConditionFailed:
		return false, nil
	}
	return false, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
}

// PageDocument reads the page row. The row is large, and an eventually consistent read costs half as much.
func (s *Store) PageDocument(ctx context.Context, campaign string, c engine.Consistency) ([]byte, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(pageKey(campaign)),
		ConsistentRead: aws.Bool(bool(c)),
	})
	if err != nil || out.Item == nil {
		return nil, failed("read page", err)
	}
	var row pageRow
	if err := dynamo.Decode(out.Item, &row); err != nil {
		return nil, err
	}
	return row.Document, nil
}
