package dynamostore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
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

// checkActions refuses actions that DynamoDB would refuse only with a text. The item of a Put is identified by its
// key if another action names the key attributes of that table. If none does, DynamoDB finds a second action on the
// item.
func (s *Store) checkActions(e dedupe.Entry, actions []types.TransactWriteItem) error {
	if len(actions) > MaxActions {
		return &dedupe.PoisonError{Reason: reasonTooMany}
	}
	entry := target{tableName(s.table), dynamo.Encode(entryKey(e.Scope, e.Key)), false}
	targets := make([]target, len(actions))
	keys := map[string][]string{tableName(s.table): {"pk", "sk"}} // names of the key attributes by table
	for i, a := range actions {
		var ok bool
		if targets[i], ok = targetOf(a); !ok {
			return &dedupe.PoisonError{Reason: reasonNoAction}
		}
		if t := targets[i]; !t.whole && keys[t.table] == nil {
			keys[t.table] = slices.Sorted(maps.Keys(t.key))
		}
	}
	seen := map[string]bool{entry.name(keys): true}
	for _, t := range targets {
		switch name := t.name(keys); {
		case name == "":
		case name == entry.name(keys):
			return &dedupe.PoisonError{Reason: reasonEntry}
		case seen[name]:
			return &dedupe.PoisonError{Reason: reasonSameItem}
		default:
			seen[name] = true
		}
	}
	return nil
}

// target is the item of an action.
type target struct {
	table string
	key   map[string]types.AttributeValue
	whole bool // key has all attributes of the item
}

func targetOf(a types.TransactWriteItem) (t target, ok bool) {
	actions := 0
	set := func(table *string, key map[string]types.AttributeValue, whole bool) {
		actions++
		t = target{tableName(aws.ToString(table)), key, whole}
	}
	if a.Put != nil {
		set(a.Put.TableName, a.Put.Item, true)
	}
	if a.Update != nil {
		set(a.Update.TableName, a.Update.Key, false)
	}
	if a.Delete != nil {
		set(a.Delete.TableName, a.Delete.Key, false)
	}
	if a.ConditionCheck != nil {
		set(a.ConditionCheck.TableName, a.ConditionCheck.Key, false)
	}
	return t, actions == 1
}

// tableName returns the name of a table from its name or its ARN.
func tableName(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// name returns a text that only this item has, or "" if the key of a Put is not known.
func (t target) name(keys map[string][]string) string {
	names := keys[t.table]
	if names == nil {
		return ""
	}
	text := t.table
	for _, name := range names {
		text += fmt.Sprintf("|%q=", name)
		switch v := t.key[name].(type) {
		case *types.AttributeValueMemberS:
			text += fmt.Sprintf("S%q", v.Value)
		case *types.AttributeValueMemberN:
			text += fmt.Sprintf("N%q", v.Value)
		case *types.AttributeValueMemberB:
			text += fmt.Sprintf("B%q", v.Value)
		}
	}
	return text
}
