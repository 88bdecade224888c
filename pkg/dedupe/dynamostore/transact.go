package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// TransactResult is the result of a Transact. If one of its fields is set, nothing was written.
type TransactResult struct {
	Existing *dedupe.Existing // the entry that was found, as in dedupe.TxResult
	// Failed are the actions whose conditions failed, in order. The condition on the entry held.
	Failed []FailedCondition
}

// FailedCondition is an action whose condition was false.
type FailedCondition struct {
	Action int // its index in the actions of the effect
	// Old is the item as it was. It is set if the action asks for it with ReturnValuesOnConditionCheckFailure and the
	// item existed.
	Old map[string]types.AttributeValue
}

// Transact puts or finishes the entry of a record, together with up to MaxActions other actions, in one transaction.
// Of t it reads only Entry and Finish. Each attempt costs two write units for each item and each KB of it, also if a
// condition fails.
//
// The request has a random token of the SDK. With a token made from the record, DynamoDB would report success but write
// nothing if the record comes again after its entry was purged.
//
// Errors: a *dedupe.PoisonError for actions that DynamoDB can never do; the family dedupe.ErrTryAgain; other errors,
// such as a missing table or permission. It is safe to repeat after each of them.
func (s *Store) Transact(
	ctx context.Context, t dedupe.Transaction, actions []types.TransactWriteItem,
) (TransactResult, error) {
	if err := s.checkActions(t.Entry, actions); err != nil {
		return TransactResult{}, err
	}
	if t.Finish {
		result, _, err := s.transact(ctx, t, s.finishAction(t), actions)
		return result, err
	}
	var result TransactResult
	err := s.takeOver(ctx, &t.Entry, func(is free) (old *entryRow, err error) {
		result, old, err = s.transact(ctx, t, s.putAction(t, is), actions)
		return old, err
	})
	if err != nil {
		return TransactResult{}, err
	}
	return result, nil
}

// transact sends a transaction. If its action on the entry found a row, it returns the row, too.
func (s *Store) transact(
	ctx context.Context, t dedupe.Transaction, entry types.TransactWriteItem, actions []types.TransactWriteItem,
) (TransactResult, *entryRow, error) {
	outcome, err := dynamo.Transact(ctx, s.client, transacting, dedupe.ErrTryAgain, &dynamodb.TransactWriteItemsInput{
		TransactItems: append([]types.TransactWriteItem{entry}, actions...),
	})
	if err != nil {
		return TransactResult{}, nil, err
	}
	if outcome.Own != nil {
		return foundBy(t, outcome.Own.Item)
	}
	var result TransactResult
	for _, r := range outcome.Refused {
		if r.Invalid {
			return TransactResult{}, nil, &dedupe.PoisonError{Reason: reasonInvalid}
		}
		result.Failed = append(result.Failed, FailedCondition{r.Action, r.Old})
	}
	return result, nil, nil
}

const transacting = "put entry and effect"

// putAction puts the entry if its key is free.
func (s *Store) putAction(t dedupe.Transaction, is free) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &s.table, Item: entryItem(&t.Entry),
		ConditionExpression: &is.condition, ExpressionAttributeValues: is.values,
		ReturnValuesOnConditionCheckFailure: allOld,
	}}
}

// finishAction marks the entry as done, if it is the record's own.
func (s *Store) finishAction(t dedupe.Transaction) types.TransactWriteItem {
	owner := t.Entry.Owner.Digest()
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table, Key: dynamo.Encode(entryKey(t.Entry.Scope, t.Entry.Key)),
		UpdateExpression:                    aws.String("SET d = :done"),
		ConditionExpression:                 aws.String("o = :owner AND attribute_not_exists(d)"),
		ExpressionAttributeValues:           map[string]types.AttributeValue{":owner": binary(owner[:]), ":done": yes},
		ReturnValuesOnConditionCheckFailure: allOld,
	}}
}

// foundBy returns the row that the action on the entry has found.
func foundBy(t dedupe.Transaction, row map[string]types.AttributeValue) (
	result TransactResult, old *entryRow, err error,
) {
	switch {
	case len(row) > 0:
		old, result.Existing, err = existingOf(row)
	case t.Finish:
		result.Existing = &dedupe.Existing{}
	default: // without the old row, the record that has the key is unknown
		err = fmt.Errorf("dynamodb: %s: the key of the entry is taken, and the answer does not say by what", transacting)
	}
	return result, old, err
}
