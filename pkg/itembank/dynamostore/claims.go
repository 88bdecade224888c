package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// FreeItems reads part of a bank partition. Later pages begin with a condition on the sort key, because an
// ExclusiveStartKey is documented only for keys that DynamoDB returned. An Eventual read has half the price.
func (s *Store) FreeItems(
	ctx context.Context, shard engine.Shard, r engine.Range, limit int, c engine.Consistency,
) (engine.FreePage, error) {
	q := s.partition(s.bankTable, bankPartition(shard))
	q.ConsistentRead = aws.Bool(bool(c))
	setRange(q, r)
	q.Limit = aws.Int32(int32(limit))
	out, err := s.client.Query(ctx, q)
	if err != nil {
		return engine.FreePage{}, failed("read bank", err)
	}
	page := engine.FreePage{More: out.LastEvaluatedKey != nil}
	for _, attributes := range out.Items {
		var row bankRow
		if err := dynamo.Decode(attributes, &row); err != nil {
			return engine.FreePage{}, err
		}
		item, err := row.freeItem(shard)
		if err != nil {
			return engine.FreePage{}, err
		}
		page.Items = append(page.Items, item)
	}
	return page, nil
}

// setRange restricts a query to a range of hashes.
func setRange(q *dynamodb.QueryInput, r engine.Range) {
	condition := *q.KeyConditionExpression
	if r.After != nil {
		q.ExpressionAttributeValues[":after"] = text(r.After.String())
	}
	if r.Through != nil {
		q.ExpressionAttributeValues[":through"] = text(r.Through.String())
	}
	switch {
	case r.After != nil && r.Through != nil:
		// BETWEEN includes both ends. The next possible text after a text is the same text with one more character.
		q.ExpressionAttributeValues[":after"] = text(r.After.String() + "0")
		condition += " AND sk BETWEEN :after AND :through"
	case r.After != nil:
		condition += " AND sk > :after"
	case r.Through != nil:
		condition += " AND sk <= :through"
	}
	q.KeyConditionExpression = aws.String(condition)
}

// Take is one transaction: {delete each bank row IF it exists and has not ended, put claim row IF absent}. The SDK's
// random token makes its own retries of this call safe. Correctness does not depend on it.
func (s *Store) Take(
	ctx context.Context, items []engine.FreeItem, claim engine.Claim,
) (result engine.TakeResult, err error) {
	var actions []types.TransactWriteItem
	for _, item := range items {
		actions = append(actions, s.takeFree(item, claim.ClaimedAt))
	}
	claimed := len(actions) // the position of the claim's action and of its cancellation reason
	var shard engine.Shard  // a block has no item, and no shard
	if len(items) > 0 {
		shard = items[0].Shard
	}
	actions = append(actions, putIfAbsent(s.dedupeTable, s.newClaimRow(claim, shard)))
	_, cause := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(cause, len(actions))
	if !cancelled {
		return result, failed("claim", cause)
	}
	result.ClaimConflict = reasons[claimed].Reason == dynamo.Conflict
	result.ClaimThrottled = reasons[claimed].Reason == dynamo.Throttled
	for _, item := range reasons[:claimed] {
		result.ItemGone = result.ItemGone || item.Reason == dynamo.ConditionFailed
		result.ItemConflict = result.ItemConflict || item.Reason == dynamo.Conflict
		result.ItemThrottled = result.ItemThrottled || item.Reason == dynamo.Throttled
	}
	if reasons[claimed].Reason == dynamo.ConditionFailed {
		var row claimRow
		if err := dynamo.Decode(reasons[claimed].Item, &row); err != nil {
			return engine.TakeResult{}, err
		}
		if result.Held, err = row.claim(claim.Key()); err != nil {
			return engine.TakeResult{}, err
		}
	}
	if result.Taken() { // cancelled for an unknown reason: no claim was made
		return engine.TakeResult{}, fmt.Errorf("dynamodb: claim: %w: %w", engine.ErrTryAgain, cause)
	}
	return result, nil
}

// takeFree deletes a bank row that exists and has not ended at time t.
func (s *Store) takeFree(item engine.FreeItem, t time.Time) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(bankKey(item)),
		ConditionExpression:       aws.String(ifPresent + " AND (attribute_not_exists(ends_at) OR ends_at > :now)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":now": number(millis(t))},
	}}
}

// HeldClaim reads a claim row: isolated, or with an eventually consistent GetItem, which costs half a read unit.
func (s *Store) HeldClaim(
	ctx context.Context, key engine.ClaimKey, c engine.Consistency,
) (held *engine.Claim, conflict bool, err error) {
	if c == engine.Strong {
		return s.isolatedClaim(ctx, key)
	}
	held, err = s.eventualClaim(ctx, key)
	return held, false, err
}

func (s *Store) eventualClaim(ctx context.Context, key engine.ClaimKey) (*engine.Claim, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(s.dedupeTable), Key: dynamo.Encode(s.claimKey(key)),
	})
	if err != nil || out.Item == nil {
		return nil, failed("read claim", err)
	}
	var row claimRow
	if err := dynamo.Decode(out.Item, &row); err != nil {
		return nil, err
	}
	return row.claim(key)
}
