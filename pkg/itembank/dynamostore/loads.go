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

// Loads reads the campaign's partition of loads.
func (s *Store) Loads(ctx context.Context, campaign string) (some bool, unfinished []engine.Load, err error) {
	q := s.partition(s.bankTable, loadPartition(campaign))
	err = s.query(ctx, "find loads", q, func(page *dynamodb.QueryOutput) error {
		for _, attributes := range page.Items {
			var row loadRow
			if err := dynamo.Decode(attributes, &row); err != nil {
				return err
			}
			if some = true; !row.Finished {
				unfinished = append(unfinished, *row.load(campaign))
			}
		}
		return nil
	})
	return some, unfinished, err
}

// LatestLoad reads the load row with the highest number whose id begins with the digest.
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

// StartLoad puts the load row IF absent. The first load of a campaign is a transaction.
func (s *Store) StartLoad(ctx context.Context, l engine.Load, first bool) (started, conflict bool, err error) {
	if first {
		return s.startFirstLoad(ctx, l)
	}
	started, err = s.startLaterLoad(ctx, l)
	return started, false, err
}

func (s *Store) startLaterLoad(ctx context.Context, l engine.Load) (bool, error) {
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(newLoadRow(l)), ConditionExpression: aws.String(ifAbsent),
	})
	if _, there := dynamo.ConditionFailure(err); there {
		return false, nil
	}
	return err == nil, failed("start load", err)
}

// startFirstLoad is one transaction: {put load row IF absent, raise the version of the campaign IF it exists and is not
// deleted}.
func (s *Store) startFirstLoad(ctx context.Context, l engine.Load) (started, conflict bool, err error) {
	const doing = "start first load"
	count := types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(campaignKey(l.Campaign)),
		UpdateExpression: aws.String("ADD version :one"), ConditionExpression: aws.String(ifNotDeleted),
		ExpressionAttributeNames:  map[string]string{"#state": "state"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": number(1), ":deleted": deleted},
	}}
	_, err = s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{putIfAbsent(s.bankTable, newLoadRow(l)), count},
	})
	reasons, cancelled := dynamo.Cancellations(err, 2)
	if !cancelled {
		return err == nil, false, failed(doing, err)
	}
	const load, campaign = 0, 1
	switch with := func(r dynamo.Reason) bool { return reasons[load].Reason == r || reasons[campaign].Reason == r }; {
	case with(dynamo.ConditionFailed):
		return false, false, nil
	case with(dynamo.Conflict):
		return false, true, nil
	}
	return false, false, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
}

// UpdateLoad writes progress, or gives the load up.
func (s *Store) UpdateLoad(ctx context.Context, l engine.Load) (refused bool, err error) {
	if l.GivenUp {
		return s.giveUpLoad(ctx, l)
	}
	return s.advanceLoad(ctx, l)
}

// advanceLoad replaces the load row IF it is not given up, and has fewer rows, or the same rows while the load is now
// finished.
func (s *Store) advanceLoad(ctx context.Context, l engine.Load) (givenUp bool, err error) {
	const doing = "write load progress"
	behind := "attribute_not_exists(given_up) AND rows_done < :rows"
	if l.Finished {
		behind = "attribute_not_exists(given_up) AND rows_done <= :rows"
	}
	_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.bankTable), Item: dynamo.Encode(newLoadRow(l)), ConditionExpression: aws.String(behind),
		ExpressionAttributeValues:           map[string]types.AttributeValue{":rows": number(l.Tally.Rows)},
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	old, unmet := dynamo.ConditionFailure(err)
	switch {
	case !unmet:
		return false, failed(doing, err)
	case old == nil:
		return false, fmt.Errorf("dynamodb: %s: %w: load %s does not exist", doing, engine.ErrInconsistent, l.ID())
	}
	var row loadRow
	err = dynamo.Decode(old, &row)
	return row.GivenUp, err
}

// giveUpLoad updates the load row IF it is not finished.
func (s *Store) giveUpLoad(ctx context.Context, l engine.Load) (over bool, err error) {
	update := "SET given_up = :true"
	if l.Finished {
		update += ", finished = :true"
	}
	_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(newLoadRow(l).key),
		UpdateExpression: &update, ConditionExpression: aws.String("finished = :false"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":true": &types.AttributeValueMemberBOOL{Value: true}, ":false": &types.AttributeValueMemberBOOL{},
		},
	})
	if _, over = dynamo.ConditionFailure(err); over {
		return true, nil
	}
	return false, failed("give up load", err)
}

// AddItems is one transaction of {put item row IF absent, put bank row IF absent} for each item. If the transaction is
// cancelled, AddItems settles only the items whose conditions failed.
func (s *Store) AddItems(ctx context.Context, requests []engine.AddRequest) ([]engine.AddResult, error) {
	actions := make([]types.TransactWriteItem, 0, 2*len(requests))
	for _, r := range requests {
		actions = append(actions, putIfAbsent(s.bankTable, s.newItemRow(r)), putIfAbsent(s.bankTable, newBankRow(r.Item)))
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if err != nil && !cancelled {
		return nil, failed("add items", err)
	}
	results := make([]engine.AddResult, len(requests))
	for i := range requests {
		if !cancelled {
			results[i].Outcome = engine.AddDone
			continue
		}
		if results[i], err = s.whyNotAdded(ctx, requests[i], reasons[2*i], reasons[2*i+1]); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// whyNotAdded reads the cancellation reasons of an item's two puts. It reads the item row's first, because an item that
// was loaded is usually in the bank too.
//
// DynamoDB does not document that it reports every failed condition of a transaction, so an inconsistency is reported
// only after a read. The read is isolated: while a transaction adds the item, one of its rows may be visible before the
// other. For the same reason the row that this request wants to put is known only after that read: the transaction of
// an earlier try may be visible in part, and the item is not in the bank before all of it is.
func (s *Store) whyNotAdded(
	ctx context.Context, r engine.AddRequest, item, bank dynamo.Cancellation,
) (result engine.AddResult, err error) {
	switch {
	case item.Reason == dynamo.ConditionFailed:
		var row itemRow
		if err := dynamo.Decode(item.Item, &row); err != nil {
			return result, err
		}
		if row.LoadID != r.LoadID || row.Row != r.Row {
			return engine.AddResult{Outcome: engine.AddKnown, Existing: row.itemRow()}, nil
		}
	case item.Reason != dynamo.NoReason || bank.Reason != dynamo.ConditionFailed:
		return result, nil
	}
	read, err := s.readItem(ctx, r.Item)
	switch {
	case err != nil || read.Conflict:
		return result, err
	case read.Row != nil:
		return engine.AddResult{Outcome: engine.AddKnown, Existing: *read.Row}, nil
	case read.Free != nil:
		result.Outcome = engine.AddOrphan
	}
	return result, nil
}
