package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/awserror"
	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// MaxActions is how many actions can be done with a result. A transaction has at most 100 (API reference,
// TransactWriteItems), and one is for the record.
const MaxActions = 99

type effects []types.TransactWriteItem

// Effects returns actions for Execution.Commit, on any tables of the account and region: up to MaxActions, each on an
// item of its own, and none on the record of the key. DynamoDB does all of them and stores the result, or does nothing.
// They must not be changed after Commit. An action that is refused comes back as a *RefusedError.
//
// In a transaction a write costs two write units for each KB of an item. The table must not be a global one: DynamoDB
// has no transactions across regions.
func Effects(actions ...types.TransactWriteItem) engine.Effects {
	return effects(slices.Clone(actions))
}

// RefusedError says which actions DynamoDB has refused. Nothing was done, and the key is free: the next call runs the
// function again.
type RefusedError struct{ Actions []RefusedAction }

// RefusedAction is an action that DynamoDB has refused.
type RefusedAction struct {
	// Index is the place of the action in the arguments of Effects. It is -1 if DynamoDB does not say which action is
	// invalid.
	Index  int
	Action types.TransactWriteItem
	// Invalid says that the action can never be done: for example, its item is too large, or its key has another type
	// than the table's. Otherwise its condition failed.
	Invalid bool
	// Old is the item as it was. It is set if the condition failed, the action asks for it with
	// ReturnValuesOnConditionCheckFailure, and the item existed.
	Old map[string]types.AttributeValue
}

func (e *RefusedError) Error() string {
	texts := make([]string, len(e.Actions))
	for i, a := range e.Actions {
		texts[i] = a.text()
	}
	return "dynamodb: nothing was written: " + strings.Join(texts, "; ")
}

func (a RefusedAction) text() string {
	kind, table := "", ""
	switch {
	case a.Index < 0:
		return "DynamoDB refuses the transaction as invalid; an item may be too large, a key may have another type than " +
			"the table's, or a table may have replicas"
	case a.Action.Put != nil:
		kind, table = "Put", aws.ToString(a.Action.Put.TableName)
	case a.Action.Update != nil:
		kind, table = "Update", aws.ToString(a.Action.Update.TableName)
	case a.Action.Delete != nil:
		kind, table = "Delete", aws.ToString(a.Action.Delete.TableName)
	case a.Action.ConditionCheck != nil:
		kind, table = "ConditionCheck", aws.ToString(a.Action.ConditionCheck.TableName)
	}
	why := "its condition failed"
	if a.Invalid {
		why = "it is invalid"
	}
	return fmt.Sprintf("action %d (%s in the table %s): %s", a.Index, kind, table, why)
}

var faults = map[dynamo.Fault]string{
	dynamo.NoAction:  "it is not exactly one of Put, Update, Delete and ConditionCheck",
	dynamo.SameItem:  "an action before it is on the same item",
	dynamo.OnOwnItem: "it is on the record of the key",
}

// CheckEffects implements engine.Transactor.
func (s *Store) CheckEffects(key engine.Key, e engine.Effects) error {
	actions, ok := e.(effects)
	switch {
	case !ok:
		return fmt.Errorf("a store on DynamoDB does the actions of dynamostore.Effects, not a %T", e)
	case len(actions) > MaxActions:
		return fmt.Errorf("there are %d actions; a transaction has up to %d", len(actions), MaxActions)
	}
	own, err := s.rows.key(key)
	if err != nil {
		return err
	}
	if fault, at := dynamo.FaultOf(s.table, own, actions); fault != dynamo.NoFault {
		return fmt.Errorf("action %d: %s", at, faults[fault])
	}
	return nil
}

const completing = "complete record and do its effects"

// CompleteWith implements engine.Transactor.
func (s *Store) CompleteWith(
	ctx context.Context, key engine.Key, token string, c engine.Completion, e engine.Effects,
) (engine.Answer, error) {
	update, err := s.updateOf(key, token, s.completion(token, c), nil)
	if err != nil {
		return engine.Answer{}, err
	}
	actions := e.(effects)
	in := &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String(requestToken(key, token)),
		TransactItems: append([]types.TransactWriteItem{{Update: &types.Update{
			TableName: update.TableName, Key: update.Key,
			UpdateExpression: update.UpdateExpression, ConditionExpression: update.ConditionExpression,
			ExpressionAttributeNames:            update.ExpressionAttributeNames,
			ExpressionAttributeValues:           update.ExpressionAttributeValues,
			ReturnValuesOnConditionCheckFailure: allOld,
		}}}, actions...),
	}
	var date time.Time
	outcome, err := dynamo.Transact(ctx, s.client, completing, engine.ErrTryAgain, in, dynamo.LastDate(&date))
	switch {
	case err != nil && awserror.IsRefusal(err) && !errors.Is(err, engine.ErrTryAgain):
		return engine.Answer{}, &engine.RefusedError{Reason: err} // for example, a table is missing, or a permission
	case err != nil:
		return engine.Answer{}, err
	case len(outcome.Refused) > 0:
		return engine.Answer{}, &engine.RefusedError{Reason: refusedBy(outcome.Refused, actions)}
	case outcome.Own != nil:
		return s.answer(completing, engine.Answer{Date: date}, outcome.Own.Item)
	}
	return s.answer(completing, engine.Answer{Done: true, Date: date}, nil)
}

// requestToken returns a ClientRequestToken: up to 36 characters, the same for all tries of an execution. DynamoDB
// answers a repeat within ten minutes without doing it again. That saves work, and proves nothing: the condition of the
// record decides.
func requestToken(key engine.Key, token string) string {
	sum := sha256.Sum256([]byte(key.Digest() + "#" + token))
	return hex.EncodeToString(sum[:16])
}

func refusedBy(refused []dynamo.Refusal, actions []types.TransactWriteItem) *RefusedError {
	all := make([]RefusedAction, len(refused))
	for i, r := range refused {
		all[i] = RefusedAction{Index: r.Action, Invalid: r.Invalid, Old: r.Old}
		if r.Action >= 0 {
			all[i].Action = actions[r.Action]
		}
	}
	return &RefusedError{all}
}
