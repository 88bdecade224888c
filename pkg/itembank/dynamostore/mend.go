package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// Mend is one transaction of the change and a condition check.
func (s *Store) Mend(ctx context.Context, m itembank.Mending) (bool, error) {
	const doing = "mend"
	_, err := s.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		TransactItems: []types.TransactWriteItem{s.change(m), {ConditionCheck: s.basis(m)}},
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
	return false, fmt.Errorf("dynamodb: %s: %w: %w", doing, itembank.ErrTryAgain, err)
}

func (s *Store) change(m itembank.Mending) types.TransactWriteItem {
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
func (s *Store) basis(m itembank.Mending) *types.ConditionCheck {
	switch {
	case m.IfRow != nil:
		check := &types.ConditionCheck{
			TableName: aws.String(s.bankTable), Key: dynamo.Encode(itemKey(m.Campaign, m.Hash)),
			ConditionExpression:       aws.String("generation = :generation AND attribute_not_exists(#state)"),
			ExpressionAttributeNames:  map[string]string{"#state": "state"},
			ExpressionAttributeValues: map[string]types.AttributeValue{":generation": number(int64(m.IfRow.Generation))},
		}
		if m.IfRow.State != "" {
			check.ConditionExpression = aws.String("generation = :generation AND #state = :state")
			check.ExpressionAttributeValues[":state"] = text(string(m.IfRow.State))
		}
		return check
	case m.IfClaim != nil:
		return &types.ConditionCheck{
			TableName: aws.String(s.dedupeTable), Key: dynamo.Encode(claimKey(m.IfClaim.Scope, m.IfClaim.Claimant)),
			ConditionExpression:       aws.String("claim_id = :id"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":id": text(m.IfClaim.ID)},
		}
	default:
		return &types.ConditionCheck{
			TableName: aws.String(s.bankTable), Key: dynamo.Encode(bankKey(*m.IfFree)), ConditionExpression: aws.String(ifPresent),
		}
	}
}
