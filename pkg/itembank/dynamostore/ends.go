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

// ItemRow reads the row of an item.
func (s *Store) ItemRow(ctx context.Context, campaign string, h engine.Hash) (*engine.ItemRow, error) {
	var row itemRow
	found, err := s.get(ctx, "read item", s.bankTable, itemKey(campaign, h), &row)
	if err != nil || !found {
		return nil, err
	}
	item := row.itemRow()
	return &item, nil
}

// CloseClaim is one transaction: {delete claim IF claim_id = :id AND ended}, and
// either {put bank row IF absent, count in item row} or {mark item row}. The item
// row's condition is its generation, and no state, or the state that it has already.
func (s *Store) CloseClaim(ctx context.Context, c engine.CloseRequest) (engine.CloseResult, error) {
	const doing = "close claim"
	const claim, item, bank = 0, 1, 2 // positions of the actions and of their reasons
	actions := []types.TransactWriteItem{claim: s.deleteClaim(c), item: s.endItemRow(c)}
	if c.Return != nil {
		actions = append(actions, putIfAbsent(s.bankTable, newBankRow(*c.Return)))
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if !cancelled {
		return engine.CloseResult{}, failed(doing, err)
	}
	found := engine.CloseResult{
		ClaimChanged: reasons[claim].Reason == dynamo.ConditionFailed,
		ItemChanged:  reasons[item].Reason == dynamo.ConditionFailed,
		ItemFree:     c.Return != nil && reasons[bank].Reason == dynamo.ConditionFailed,
	}
	for _, r := range reasons {
		found.Conflict = found.Conflict || r.Reason == dynamo.Conflict
		found.Throttled = found.Throttled || r.Reason == dynamo.Throttled
	}
	if found.Closed() { // cancelled, and nothing says why: never closed
		return engine.CloseResult{}, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
	}
	return found, nil
}

func (s *Store) deleteClaim(c engine.CloseRequest) types.TransactWriteItem {
	condition, values := "claim_id = :id", map[string]types.AttributeValue{":id": text(c.Claim.ID)}
	if !c.EndedBy.IsZero() {
		condition += " AND ends_at < :ended"
		values[":ended"] = number(millis(c.EndedBy))
	}
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: aws.String(s.dedupeTable), Key: dynamo.Encode(claimKey(c.Claim.Scope, c.Claim.Claimant)),
		ConditionExpression: aws.String(condition), ExpressionAttributeValues: values,
	}}
}

// endItemRow marks the row of an item that ends, and counts in that of one that
// returns, at the price of a condition check.
func (s *Store) endItemRow(c engine.CloseRequest) types.TransactWriteItem {
	table, row := aws.String(s.bankTable), dynamo.Encode(itemKey(c.Claim.Campaign, c.Claim.ItemHash))
	condition := "generation = :generation AND attribute_not_exists(#state)"
	if c.Marked {
		condition = "generation = :generation AND #state = :state"
	}
	names := map[string]string{"#state": "state"}
	values := map[string]types.AttributeValue{":generation": number(int64(c.Generation))}
	change := setState
	if c.Return != nil {
		change, names["#returns"], values[":one"] = countReturn, "returns", number(1)
	} else {
		values[":state"] = text(string(c.State))
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: table, Key: row, UpdateExpression: aws.String(change), ConditionExpression: aws.String(condition),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
}

const (
	setState    = "SET #state = :state"
	countReturn = "ADD #returns :one"
)

// EndItems is one transaction of {delete bank row IF there and ended, mark item
// row IF there and without a state} per item. When it is cancelled, the items whose
// conditions failed have their answers and the others are not settled.
func (s *Store) EndItems(ctx context.Context, endings []engine.EndRequest) ([]engine.EndResult, error) {
	actions := make([]types.TransactWriteItem, 0, 2*len(endings))
	for _, e := range endings {
		actions = append(actions, s.deleteFree(e), s.markItem(e))
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if err != nil && !cancelled {
		return nil, failed("end items", err)
	}
	answers := make([]engine.EndResult, len(endings))
	for i := range answers {
		switch {
		case !cancelled:
			answers[i] = engine.EndDone
		case reasons[2*i].Reason == dynamo.ConditionFailed:
			answers[i] = engine.EndNotFree
		case reasons[2*i].Reason == dynamo.NoReason && reasons[2*i+1].Reason == dynamo.ConditionFailed:
			if answers[i], err = s.notMarked(ctx, endings[i]); err != nil {
				return nil, err
			}
		}
	}
	return answers, nil
}

func (s *Store) deleteFree(e engine.EndRequest) types.TransactWriteItem {
	condition, values := ifPresent, map[string]types.AttributeValue(nil)
	if !e.EndedBy.IsZero() {
		condition, values = "ends_at <= :ended", map[string]types.AttributeValue{":ended": number(millis(e.EndedBy))}
	}
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(bankKey(e.Item)),
		ConditionExpression: aws.String(condition), ExpressionAttributeValues: values,
	}}
}

func (s *Store) markItem(e engine.EndRequest) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(itemKey(e.Item.Shard.Campaign, e.Item.Hash)),
		UpdateExpression:          aws.String(setState),
		ConditionExpression:       aws.String(ifPresent + " AND attribute_not_exists(#state)"),
		ExpressionAttributeNames:  map[string]string{"#state": "state"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":state": text(string(e.State))},
	}}
}

// notMarked says of an item whose row could not be marked whether it is in the
// bank. A difference is said only of what was read: that every failed condition of
// a transaction is reported is documented nowhere.
func (s *Store) notMarked(ctx context.Context, e engine.EndRequest) (engine.EndResult, error) {
	var row bankRow
	found, err := s.get(ctx, "read free item", s.bankTable, bankKey(e.Item), &row)
	if err != nil || !found {
		return engine.EndNotFree, err
	}
	return engine.EndInconsistent, nil
}
