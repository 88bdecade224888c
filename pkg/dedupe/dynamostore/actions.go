package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// MaxActions is how many actions an effect may have. A transaction has at most 100 (API reference, TransactWriteItems).
// One is for the entry, and one is reserved for later versions.
const MaxActions = 98

// The reasons why an effect can never be done.
const (
	reasonTooMany  = "its effect has more than 98 actions"
	reasonNoAction = "an action of its effect is not exactly one of Put, Update, Delete and ConditionCheck"
	reasonSameItem = "its effect has two actions on one item"
	reasonEntry    = "its effect has an action on its own entry in the dedupe table"
	reasonInvalid  = "DynamoDB refuses its effect as invalid: an item may be too large, or a key of another type than the table's"
)

var reasons = map[dynamo.Fault]string{
	dynamo.NoAction: reasonNoAction, dynamo.SameItem: reasonSameItem, dynamo.OnOwnItem: reasonEntry,
}

// checkActions refuses actions that DynamoDB can never do.
func (s *Store) checkActions(e dedupe.Entry, actions []types.TransactWriteItem) error {
	if len(actions) > MaxActions {
		return &dedupe.PoisonError{Reason: reasonTooMany}
	}
	fault, _ := dynamo.FaultOf(s.table, dynamo.Encode(entryKey(e.Scope, e.Key)), actions)
	if fault != dynamo.NoFault {
		return &dedupe.PoisonError{Reason: reasons[fault]}
	}
	return nil
}
