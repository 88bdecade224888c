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

// Repair is one transaction of a change and its condition, if it has one. The condition is a condition check, or the update of the
// item row that counts a return. The end of an item is one update of the item row with the condition.
func (s *Store) Repair(ctx context.Context, r engine.RepairRequest) (bool, error) {
	const doing = "repair"
	actions := s.change(r)
	if r.IfRow != nil || r.IfClaim != nil {
		actions = append(actions, s.condition(r))
	}
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
	reasons, cancelled := dynamo.Cancellations(err, len(actions))
	if !cancelled {
		return err == nil, failed(doing, err)
	}
	for _, c := range reasons {
		if c.Reason == dynamo.ConditionFailed {
			return false, nil
		}
	}
	return false, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
}

// change returns the actions that make a change. It returns none if the action of the condition makes the change.
func (s *Store) change(r engine.RepairRequest) []types.TransactWriteItem {
	switch {
	case r.PutFree != nil:
		return []types.TransactWriteItem{putIfAbsent(s.bankTable, newBankRow(*r.PutFree))}
	case r.PutClaim != nil:
		actions := []types.TransactWriteItem{putIfAbsent(s.dedupeTable, s.newClaimRow(*r.PutClaim, r.Shard))}
		for _, item := range r.More {
			if item.Free != nil {
				actions = append(actions, s.dropFree(*item.Free))
				continue
			}
			other := r
			other.Hash, other.IfRow = item.Hash, item.IfRow
			actions = append(actions, s.itemRowCondition(other))
		}
		return actions
	case r.DropFree != nil:
		return []types.TransactWriteItem{s.dropFree(*r.DropFree)}
	case r.PutRow != nil:
		return []types.TransactWriteItem{putIfAbsent(s.bankTable, itemRow{
			key: s.itemKey(r.Campaign, r.Hash), LoadID: r.PutRow.LoadID, Row: r.PutRow.Row,
			EndsAt: millis(r.PutRow.EndsAt), State: string(r.PutRow.State), Columns: r.PutRow.Columns,
		})}
	}
	return nil
}

func (s *Store) dropFree(item engine.FreeItem) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(bankKey(item)), ConditionExpression: aws.String(ifPresent),
	}}
}

// condition returns the action that tests the condition of a change.
func (s *Store) condition(r engine.RepairRequest) types.TransactWriteItem {
	if r.IfRow != nil {
		return s.itemRowCondition(r)
	}
	return check(s.dedupeTable, s.claimKey(r.IfClaim.Key()), types.ConditionCheck{
		ConditionExpression:       aws.String("claim_id = :id"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":id": text(r.IfClaim.ID)},
	})
}

// itemRowCondition returns the action that tests that the item row is unchanged. The action also counts a return if the
// item goes back to the bank or to a claimant, and writes the state if the item ends.
func (s *Store) itemRowCondition(r engine.RepairRequest) types.TransactWriteItem {
	condition := ifPresent
	names := map[string]string{"#state": "state", "#returns": "returns"}
	values := map[string]types.AttributeValue{":returns": number(int64(r.IfRow.Returns))}
	if r.IfRow.State == "" {
		condition += " AND attribute_not_exists(#state)"
	} else {
		condition += " AND #state = :state"
		values[":state"] = text(string(r.IfRow.State))
	}
	if r.IfRow.Returns == 0 {
		condition += " AND (attribute_not_exists(#returns) OR #returns = :returns)"
	} else {
		condition += " AND #returns = :returns"
	}
	condition += " AND " + ifMarked(r.IfRow.Withdraw)
	names["#withdraw"] = "withdraw"
	row := s.itemKey(r.Campaign, r.Hash)
	change := ""
	switch {
	case r.PutFree != nil, r.PutClaim != nil:
		change = countReturn + " REMOVE #state"
		values[":one"] = number(1)
	case r.End != "":
		change = "SET #state = :end"
		values[":end"] = text(string(r.End))
	default:
		return check(s.bankTable, row, types.ConditionCheck{
			ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		})
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(row), UpdateExpression: &change,
		ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
}

func check(table string, row key, c types.ConditionCheck) types.TransactWriteItem {
	c.TableName, c.Key = aws.String(table), dynamo.Encode(row)
	return types.TransactWriteItem{ConditionCheck: &c}
}
