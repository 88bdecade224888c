package dynamostore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

type attributes = map[string]types.AttributeValue

func putIn(table string, i attributes) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: &table, Item: i}}
}

func updateIn(table string, key attributes) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{TableName: &table, Key: key}}
}

func deleteIn(table string, key attributes) types.TransactWriteItem {
	return types.TransactWriteItem{Delete: &types.Delete{TableName: &table, Key: key}}
}

// TestActions: actions that DynamoDB can never do are poison. The reason says which rule they break. Nothing is sent.
func TestActions(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:dynamodb:us-east-1:123456789012:table/"
	e := entries(1)[0]
	own := dynamo.Encode(entryKey(e.Scope, e.Key))
	a, b := attributes{"id": text("a")}, attributes{"id": text("b")}
	many := make([]types.TransactWriteItem, MaxActions+1)
	for i := range many {
		many[i] = updateIn("x", attributes{"id": number(int64(i))})
	}
	check := types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: aws.String("x"), Key: a}}
	withMore := attributes{"id": text("a"), "n": number(1)}
	for name, test := range map[string]struct {
		actions []types.TransactWriteItem
		reason  string
	}{
		"none":                    {nil, ""},
		"as many as there may be": {many[:MaxActions], ""},
		"one more":                {many, reasonTooMany},
		"different items":         {[]types.TransactWriteItem{updateIn("x", a), updateIn("x", b), deleteIn("y", a)}, ""},
		"another type of key":     {[]types.TransactWriteItem{updateIn("x", a), deleteIn("x", attributes{"id": binary([]byte("a"))})}, ""},
		"update and delete":       {[]types.TransactWriteItem{updateIn("x", a), deleteIn("x", a)}, reasonSameItem},
		"check and put":           {[]types.TransactWriteItem{check, putIn("x", withMore)}, reasonSameItem},
		"put and check":           {[]types.TransactWriteItem{putIn("x", withMore), check}, reasonSameItem},
		"a table by its ARN":      {[]types.TransactWriteItem{putIn(arn+"x", withMore), check}, reasonSameItem},
		"own entry":               {[]types.TransactWriteItem{updateIn(table, own)}, reasonEntry},
		"own entry by ARN":        {[]types.TransactWriteItem{putIn(arn+table, own)}, reasonEntry},
		"another row":             {[]types.TransactWriteItem{putIn(table, attributes{"pk": text("x"), "sk": text("entry")})}, ""},
		"no action":               {[]types.TransactWriteItem{{}}, reasonNoAction},
		"two in one":              {[]types.TransactWriteItem{{Put: putIn("x", a).Put, Delete: deleteIn("x", b).Delete}}, reasonNoAction},
	} {
		client := &scripted{}
		_, err := New(client, table).Transact(t.Context(), dedupe.Transaction{Entry: e}, test.actions)
		poison, _ := errors.AsType[*dedupe.PoisonError](err)
		if test.reason == "" && (err != nil || client.calls.Load() != 1) ||
			test.reason != "" && (poison == nil || poison.Reason != test.reason || client.calls.Load() != 0) {
			t.Errorf("%s: got %v after %d requests", name, err, client.calls.Load())
		}
	}
}

// TestReasons: the reason of the entry decides first. While an item is busy, nothing is decided about the effect.
func TestReasons(t *testing.T) {
	t.Parallel()
	const none, failed, conflict, throttled, invalid = "None", "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError", "ValidationError"
	e := entries(1)[0]
	row := entryItem(&e)
	for _, test := range []struct {
		codes []string
		want  string
	}{
		{[]string{failed, none, none}, "existing"},
		{[]string{failed, failed, failed}, "existing"},
		{[]string{failed, conflict, invalid}, "existing"},
		{[]string{conflict, failed, none}, "again"},
		{[]string{throttled, failed, none}, "again"},
		{[]string{none, failed, conflict}, "again"},
		{[]string{none, invalid, throttled}, "again"},
		{[]string{none, none, none}, "again"},
		{[]string{none, invalid, failed}, reasonInvalid},
		{[]string{none, "ItemCollectionSizeLimitExceeded", none}, reasonInvalid},
		{[]string{none, none, failed}, "failed 1"},
		{[]string{none, failed, failed}, "failed 0"},
		{[]string{none, "AccessDenied", none}, "error"},
		{[]string{none, failed}, "error"}, // reasons for another number of actions
	} {
		cancelled := &types.TransactionCanceledException{}
		for _, code := range test.codes {
			cancelled.CancellationReasons = append(cancelled.CancellationReasons, types.CancellationReason{Code: aws.String(code), Item: row})
		}
		store := New(failing(cancelled), table)
		actions := []types.TransactWriteItem{updateIn("x", attributes{"id": text("a")}), updateIn("x", attributes{"id": text("b")})}
		result, err := store.Transact(t.Context(), dedupe.Transaction{Entry: e}, actions)
		poison, _ := errors.AsType[*dedupe.PoisonError](err)
		got := "done"
		switch {
		case poison != nil:
			got = poison.Reason
		case errors.Is(err, dedupe.ErrTryAgain):
			got = "again"
		case err != nil:
			got = "error"
		case result.Existing != nil:
			got = "existing"
		case len(result.Failed) > 0:
			got = fmt.Sprint("failed ", result.Failed[0].Action)
		}
		if got != test.want {
			t.Errorf("%v: got %s (%v), want %s", test.codes, got, err, test.want)
		}
	}
	wrong := failing(&smithy.GenericAPIError{Code: "ValidationException", Message: "?"})
	if _, err := New(wrong, table).Transact(t.Context(), dedupe.Transaction{Entry: e}, nil); err == nil || err.Error() != (&dedupe.PoisonError{Reason: reasonInvalid}).Error() {
		t.Errorf("a request that is not valid: %v", err)
	}
}

// TestEntriesWithoutDone: a row without the attribute is not done.
func TestEntriesWithoutDone(t *testing.T) {
	t.Parallel()
	e := entries(1)[0]
	for _, done := range []bool{false, true} {
		e.Done = done
		row := entryItem(&e)
		if _, there := row["d"]; there != done {
			t.Errorf("done %t: %v", done, row)
		}
		if existing, _, err := existingOf(row); err != nil || existing.Done != done {
			t.Errorf("done %t: %+v, %v", done, existing, err)
		}
	}
}
