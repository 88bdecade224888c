package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// LatestLoad reads the last of the loads whose ids begin with the digest.
func (s *Store) LatestLoad(ctx context.Context, campaign, digest string) (*engine.Load, error) {
	q := s.partition(s.bankTable, loadPartition(campaign))
	q.KeyConditionExpression = aws.String("pk = :pk AND begins_with(sk, :digest)")
	q.ExpressionAttributeValues[":digest"] = text(digest + "#")
	q.ScanIndexForward = aws.Bool(false)
	q.Limit = aws.Int32(1)
	out, err := s.client.Query(ctx, q)
	if err != nil || len(out.Items) == 0 {
		return nil, failed("find load", err)
	}
	var row loadRow
	if err := dynamo.Decode(out.Items[0], &row); err != nil {
		return nil, err
	}
	return row.load(campaign), nil
}

// Loaded asks for one row of the campaign's loads.
func (s *Store) Loaded(ctx context.Context, campaign string) (bool, error) {
	q := s.partition(s.bankTable, loadPartition(campaign))
	q.ProjectionExpression = aws.String("pk")
	q.Limit = aws.Int32(1)
	out, err := s.client.Query(ctx, q)
	if err != nil {
		return false, failed("find loads", err)
	}
	return len(out.Items) > 0, nil
}

// StartLoad puts the load's row IF absent.
func (s *Store) StartLoad(ctx context.Context, l engine.Load) (bool, error) {
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(newLoadRow(l)), ConditionExpression: aws.String(ifAbsent),
	})
	if _, there := dynamo.ConditionFailure(err); there {
		return false, nil
	}
	return err == nil, failed("start load", err)
}

// AdvanceLoad replaces the load's row IF the one there is behind.
func (s *Store) AdvanceLoad(ctx context.Context, l engine.Load) error {
	const doing = "write load progress"
	behind := "rows_done < :rows"
	if l.Finished {
		behind = "rows_done <= :rows"
	}
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(newLoadRow(l)), ConditionExpression: aws.String(behind),
		ExpressionAttributeValues:           map[string]types.AttributeValue{":rows": number(l.Tally.Rows)},
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	old, ahead := dynamo.ConditionFailure(err)
	switch {
	case !ahead:
		return failed(doing, err)
	case old == nil:
		return fmt.Errorf("dynamodb: %s: %w: load %s was never started", doing, engine.ErrInconsistent, l.ID())
	}
	return nil
}

// AddItems is one transaction of {put item row IF absent, put bank row IF
// absent} per item. When it is cancelled, the items whose conditions failed have
// their answers and the others are unsettled.
func (s *Store) AddItems(ctx context.Context, additions []engine.AddRequest) ([]engine.AddResult, error) {
	actions := make([]types.TransactWriteItem, 0, 2*len(additions))
	for _, a := range additions {
		actions = append(actions,
			putIfAbsent(s.bankTable, newItemRow(a)),
			putIfAbsent(s.bankTable, newBankRow(a.Item)))
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if err != nil && !cancelled {
		return nil, failed("add items", err)
	}
	added := make([]engine.AddResult, len(additions))
	for i := range additions {
		if !cancelled {
			added[i].Outcome = engine.AddDone
			continue
		}
		if added[i], err = s.whyNotAdded(ctx, additions[i], reasons[2*i], reasons[2*i+1]); err != nil {
			return nil, err
		}
	}
	return added, nil
}

// whyNotAdded reads the reasons of an item's two puts. The item row comes
// first: a loaded item is usually in the bank as well.
func (s *Store) whyNotAdded(ctx context.Context, a engine.AddRequest, item, bank dynamo.Cancellation) (added engine.AddResult, err error) {
	var row itemRow
	found := item.Reason == dynamo.ConditionFailed
	switch {
	case found:
		err = dynamo.Decode(item.Item, &row)
	case item.Reason == dynamo.NoReason && bank.Reason == dynamo.ConditionFailed:
		// A difference is said only of what was read: that every failed
		// condition of a transaction is reported is documented nowhere.
		found, err = s.get(ctx, "read item", s.bankTable, itemKey(a.Item.Shard.Campaign, a.Item.Hash), &row)
		added.Outcome = engine.AddOrphan
	}
	if found && err == nil {
		added = engine.AddResult{Outcome: engine.AddKnown, Existing: row.itemRow()}
	}
	return added, err
}
