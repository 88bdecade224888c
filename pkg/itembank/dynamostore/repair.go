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

// Repair is one transaction of the change and of what it rests on: a condition check,
// or the count of a return in the item row.
func (s *Store) Repair(ctx context.Context, m engine.RepairRequest) (bool, error) {
	const doing = "repair"
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{s.change(m), s.basis(m)},
	})
	reasons, cancelled := dynamo.Cancellations(err, 2)
	if !cancelled {
		return err == nil, failed(doing, err)
	}
	for _, r := range reasons {
		if r.Reason == dynamo.ConditionFailed {
			return false, nil
		}
	}
	return false, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, err)
}

func (s *Store) change(m engine.RepairRequest) types.TransactWriteItem {
	switch {
	case m.PutFree != nil:
		return putIfAbsent(s.bankTable, newBankRow(*m.PutFree))
	case m.DropFree != nil:
		return types.TransactWriteItem{Delete: &types.Delete{
			TableName: aws.String(s.bankTable), Key: dynamo.Encode(bankKey(*m.DropFree)), ConditionExpression: aws.String(ifPresent),
		}}
	default:
		return putIfAbsent(s.bankTable, itemRow{
			key: itemKey(m.Campaign, m.Hash), LoadID: m.PutRow.LoadID, Row: m.PutRow.Row,
			Generation: m.PutRow.Generation, EndsAt: millis(m.PutRow.EndsAt),
		})
	}
}

// basis is what the change rests on.
func (s *Store) basis(m engine.RepairRequest) types.TransactWriteItem {
	switch {
	case m.IfRow != nil:
		return s.rowAsSeen(m)
	case m.IfClaim != nil:
		return check(s.dedupeTable, claimKey(m.IfClaim.Scope, m.IfClaim.Claimant), types.ConditionCheck{
			ConditionExpression:       aws.String("claim_id = :id"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":id": text(m.IfClaim.ID)},
		})
	default:
		return check(s.bankTable, bankKey(*m.IfFree), types.ConditionCheck{ConditionExpression: aws.String(ifPresent)})
	}
}

// rowAsSeen checks the item row, and counts in it if the item returns.
func (s *Store) rowAsSeen(m engine.RepairRequest) types.TransactWriteItem {
	condition := "generation = :generation"
	names := map[string]string{"#state": "state", "#returns": "returns"}
	values := map[string]types.AttributeValue{
		":generation": number(int64(m.IfRow.Generation)), ":returns": number(int64(m.IfRow.Returns)),
	}
	if m.IfRow.State == "" {
		condition += " AND attribute_not_exists(#state)"
	} else {
		condition += " AND #state = :state"
		values[":state"] = text(string(m.IfRow.State))
	}
	if m.IfRow.Returns == 0 {
		condition += " AND (attribute_not_exists(#returns) OR #returns = :returns)"
	} else {
		condition += " AND #returns = :returns"
	}
	row := itemKey(m.Campaign, m.Hash)
	if m.PutFree == nil {
		return check(s.bankTable, row, types.ConditionCheck{
			ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		})
	}
	values[":one"] = number(1)
	return types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(s.bankTable), Key: dynamo.Encode(row), UpdateExpression: aws.String(countReturn),
		ConditionExpression: &condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	}}
}

func check(table string, row key, c types.ConditionCheck) types.TransactWriteItem {
	c.TableName, c.Key = aws.String(table), dynamo.Encode(row)
	return types.TransactWriteItem{ConditionCheck: &c}
}
