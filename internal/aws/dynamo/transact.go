package dynamo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Transactor is the part of *dynamodb.Client that Transact calls.
type Transactor interface {
	TransactWriteItems(
		context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options),
	) (*dynamodb.TransactWriteItemsOutput, error)
}

// Outcome is what became of a transaction of an engine's own action and actions of a caller. If no field is set, it was
// done. Otherwise nothing was written.
type Outcome struct {
	// Own is set if the condition of the engine's own action failed. Then the other actions do not matter: a repeat of a
	// transaction that was done fails their conditions, too.
	Own *Cancellation
	// Refused are the caller's actions that DynamoDB refuses, in order. The condition of the own action held.
	Refused []Refusal
}

// Refusal is an action of a caller that DynamoDB refuses.
type Refusal struct {
	Action  int  // the index in the actions of the caller; -1: DynamoDB does not say which action is invalid
	Invalid bool // the action can never be done; otherwise its condition failed
	// Old is the item as it was, if the action asks for it and the item existed.
	Old map[string]types.AttributeValue
}

// Transact sends a transaction whose first action is the engine's own. While an item is busy or throttled, nothing is
// decided about the caller's actions: the error belongs to the family tryAgain.
func Transact(
	ctx context.Context, client Transactor, doing string, tryAgain error, in *dynamodb.TransactWriteItemsInput,
	options ...func(*dynamodb.Options),
) (Outcome, error) {
	_, err := client.TransactWriteItems(ctx, in, options...)
	if err == nil {
		return Outcome{}, nil
	}
	if IsInvalid(err) {
		return Outcome{Refused: []Refusal{{Action: -1, Invalid: true}}}, nil
	}
	reasons, cancelled := allCancellations(err, len(in.TransactItems))
	if !cancelled {
		return Outcome{}, Translate(doing, err, tryAgain)
	}
	outcome := outcomeOf(reasons)
	if outcome.Own == nil && len(outcome.Refused) == 0 { // busy, or cancelled without a reason
		return Outcome{}, fmt.Errorf("dynamodb: %s: %w: %w", doing, tryAgain, err)
	}
	return outcome, nil
}

// outcomeOf reads the reasons of a cancelled transaction. It returns the zero Outcome if nothing is decided.
func outcomeOf(reasons []Cancellation) (o Outcome) {
	if own := reasons[0]; own.Reason == ConditionFailed {
		return Outcome{Own: &own}
	}
	for i, r := range reasons {
		switch r.Reason {
		case Conflict, Throttled:
			return Outcome{}
		case ConditionFailed, Invalid:
			o.Refused = append(o.Refused, Refusal{i - 1, r.Reason == Invalid, r.Item})
		}
	}
	return o
}

// Fault is why DynamoDB can never do an action of a caller.
type Fault int

// The faults that can be seen before the request.
const (
	NoFault   Fault = iota
	NoAction        // it is not exactly one of Put, Update, Delete and ConditionCheck
	SameItem        // an action before it is on the same item
	OnOwnItem       // it is on the item of the engine's own action
)

// FaultOf returns the first fault of the actions that a caller adds to an action on an engine's own item, and the index
// of the action. DynamoDB would refuse them only with a text. The item of a Put is identified by its key if another
// action names the key attributes of that table. If none does, DynamoDB finds a second action on the item.
func FaultOf(table string, key map[string]types.AttributeValue, actions []types.TransactWriteItem) (Fault, int) {
	own := target{tableName(table), key, false}
	targets := make([]target, len(actions))
	names := map[string][]string{own.table: keyNames(key)} // names of the key attributes by table
	for i, a := range actions {
		var ok bool
		if targets[i], ok = targetOf(a); !ok {
			return NoAction, i
		}
		if t := targets[i]; !t.whole && names[t.table] == nil {
			names[t.table] = keyNames(t.key)
		}
	}
	seen := map[string]bool{}
	for i, t := range targets {
		switch name := t.name(names); {
		case name == "":
		case name == own.name(names):
			return OnOwnItem, i
		case seen[name]:
			return SameItem, i
		default:
			seen[name] = true
		}
	}
	return NoFault, 0
}

func keyNames(key map[string]types.AttributeValue) []string { return slices.Sorted(maps.Keys(key)) }

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
