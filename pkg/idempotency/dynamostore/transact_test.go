package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

func updateIn(table, id string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &table, Key: row{"id": text(id)}, UpdateExpression: aws.String("REMOVE n"),
	}}
}

func completeWith(ctx context.Context, s *dynamostore.Store, actions ...types.TransactWriteItem) (engine.Answer, error) {
	return s.CompleteWith(ctx, key, "t", engine.Completion{}, dynamostore.Effects(actions...))
}

// refusal returns why effects are refused, or nil.
func refusal(err error) error {
	if refused, ok := errors.AsType[*engine.RefusedError](err); ok {
		return refused.Reason
	}
	return nil
}

// TestReasons: the reason of the record decides first. While an item is busy, nothing is decided about the effects. Each
// refused action is named.
func TestReasons(t *testing.T) {
	t.Parallel()
	const none, failed, conflict, throttled, invalid = "None", "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError", "ValidationError"
	for _, test := range []struct {
		codes []string
		want  string
	}{
		{[]string{failed, none, none}, "row"},
		{[]string{failed, failed, failed}, "row"},
		{[]string{failed, conflict, invalid}, "row"},
		{[]string{conflict, failed, none}, "again"},
		{[]string{throttled, failed, none}, "again"},
		{[]string{none, failed, conflict}, "again"},
		{[]string{none, invalid, throttled}, "again"},
		{[]string{none, none, none}, "again"},
		{[]string{none, none, failed}, "dynamodb: nothing was written: action 1 (Update in the table y): its condition failed"},
		{[]string{none, failed, invalid}, "dynamodb: nothing was written: action 0 (Update in the table x): its condition failed; " +
			"action 1 (Update in the table y): it is invalid"},
		{[]string{none, "ItemCollectionSizeLimitExceeded", none}, "dynamodb: nothing was written: action 0 (Update in the table x): it is invalid"},
		{[]string{none, "AccessDenied", none}, "refused"},
		{[]string{none, failed}, "refused"}, // reasons for another number of actions
	} {
		s := scripted(func(w http.ResponseWriter) {
			reasons := make([]string, len(test.codes))
			for i, code := range test.codes {
				reasons[i] = fmt.Sprintf(`{"Code": %q, "Item": {"layout": {"N": "1"}, "id": {"S": "old"}}}`, code)
			}
			replyError(w, 400, "TransactionCanceledException", `, "CancellationReasons": [`+strings.Join(reasons, ", ")+`]`)
		}).store(t)
		a, err := completeWith(t.Context(), s, updateIn("x", "a"), updateIn("y", "b"))
		got := "done"
		switch {
		case errors.Is(err, engine.ErrTryAgain):
			got = "again"
		case refusal(err) != nil:
			got = "refused"
			if refused, ok := errors.AsType[*dynamostore.RefusedError](err); ok {
				got = refusal(err).Error()
				if refused.Actions[0].Old["id"] == nil || refused.Actions[0].Action.Update == nil {
					t.Errorf("%v: got %+v", test.codes, refused)
				}
			}
		case err != nil:
			got = "error"
		case a.Row != nil:
			got = "row"
		}
		if got != test.want || a.Done || err == nil && a.Date.IsZero() {
			t.Errorf("%v: got %s (%+v, %v), want %s", test.codes, got, a, err, test.want)
		}
	}
}

// TestFailedTransactions: DynamoDB's answer refuses the effects, unless a later try may succeed. Of other failures the
// outcome is unknown.
func TestFailedTransactions(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]string{
		"ValidationException":                    "refused",
		"TransactionInProgressException":         "again",
		"ThrottlingException":                    "again",
		"ProvisionedThroughputExceededException": "again",
		"IdempotentParameterMismatchException":   "refused",
		"AccessDeniedException":                  "refused",
		"ResourceNotFoundException":              "refused",
		"":                                       "error",
	} {
		s := scripted(func(w http.ResponseWriter) {
			if code == "" {
				w.Header()["Date"] = nil // so that the answer cannot be used
				_, _ = fmt.Fprint(w, "{}")
				return
			}
			replyError(w, 400, code, "")
		}).store(t)
		a, err := completeWith(t.Context(), s, updateIn("x", "a"))
		got := "done"
		switch {
		case errors.Is(err, engine.ErrTryAgain):
			got = "again"
		case refusal(err) != nil:
			got = "refused"
		case err != nil:
			got = "error"
		}
		if got != want {
			t.Errorf("%s: got %s (%+v, %v), want %s", code, got, a, err, want)
		}
	}
}

// TestRequestTokens: all tries of an execution have one token of up to 36 characters, and no other execution has it. The
// action on the record comes first, because its reason does.
func TestRequestTokens(t *testing.T) {
	t.Parallel()
	var sent []dynamodb.TransactWriteItemsInput
	s := dynamostore.New(recording{sent: &sent}, table)
	other := engine.Key{Namespace: "n", Name: "k2"}
	for _, one := range []struct {
		key   engine.Key
		token string
	}{{key, "t"}, {key, "t"}, {key, "u"}, {other, "t"}} {
		_, _ = s.CompleteWith(t.Context(), one.key, one.token, engine.Completion{}, dynamostore.Effects(updateIn("x", "a")))
	}
	first := sent[0]
	if len(*first.ClientRequestToken) > 36 || *first.ClientRequestToken != *sent[1].ClientRequestToken ||
		*first.ClientRequestToken == *sent[2].ClientRequestToken || *first.ClientRequestToken == *sent[3].ClientRequestToken {
		t.Errorf("%+v", sent)
	}
	if len(first.TransactItems) != 2 || first.TransactItems[0].Update.Key["sk"].(*types.AttributeValueMemberS).Value != "record" {
		t.Errorf("%+v", first.TransactItems)
	}
}

// recording is a client that does nothing.
type recording struct {
	dynamostore.Client
	sent *[]dynamodb.TransactWriteItemsInput
}

func (r recording) TransactWriteItems(
	_ context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	*r.sent = append(*r.sent, *in)
	return &dynamodb.TransactWriteItemsOutput{}, nil
}

// TestActions: actions that DynamoDB can never do are refused before the request.
func TestActions(t *testing.T) {
	t.Parallel()
	s := dynamostore.New(nil, table)
	own := types.TransactWriteItem{Put: &types.Put{TableName: aws.String("arn:aws:dynamodb:us-east-1:123456789012:table/" + table), Item: row{
		"pk": text("once#n#" + key.Digest()), "sk": text("record"), "more": text("x"),
	}}}
	many := make([]types.TransactWriteItem, dynamostore.MaxActions+1)
	for i := range many {
		many[i] = updateIn("x", fmt.Sprint(i))
	}
	for want, actions := range map[string][]types.TransactWriteItem{
		"": many[:99],
		"there are 100 actions; a transaction has up to 99":                         many,
		"action 1: it is on the record of the key":                                  {updateIn("x", "a"), own},
		"action 2: an action before it is on the same item":                         {updateIn("x", "a"), updateIn("x", "b"), updateIn("x", "a")},
		"action 0: it is not exactly one of Put, Update, Delete and ConditionCheck": {{}, updateIn("x", "a")},
	} {
		err := s.CheckEffects(key, dynamostore.Effects(actions...))
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("want %q, got %q", want, got)
		}
	}
	if err := s.CheckEffects(key, many); err == nil || !strings.Contains(err.Error(), "dynamostore.Effects") {
		t.Error(err)
	}
}

// TestRefusedAction: a call whose effects are refused names the action and its item, and frees the key.
func TestRefusedAction(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	runner, err := idempotency.New(dynamostore.New(client, table), "refused", idempotency.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	runs := 0
	pay := func(_ context.Context, e idempotency.Execution, cents int) (string, error) {
		runs++
		debit := add("account")
		debit.Update.UpdateExpression = aws.String("ADD n :one SET cents = :cents")
		debit.Update.ConditionExpression = aws.String("attribute_not_exists(pk)")
		debit.Update.ExpressionAttributeValues[":cents"] = &types.AttributeValueMemberN{Value: fmt.Sprint(cents)}
		debit.Update.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
		e.Commit(dynamostore.Effects(add("payments"), debit))
		return "paid", nil
	}
	for n, cents := range []int{1990, 2990, 2990} {
		_, err := idempotency.Do(t.Context(), runner, fmt.Sprint("order-", cents), cents, pay)
		if n == 0 {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		refused, ok := errors.AsType[*dynamostore.RefusedError](err)
		if !ok || len(refused.Actions) != 1 || refused.Actions[0].Index != 1 || refused.Actions[0].Invalid ||
			refused.Actions[0].Action.Update == nil || refused.Actions[0].Old["cents"] == nil {
			t.Errorf("%d cents: got %v", cents, err)
		}
	}
	if n := (counters{client}).Count(t, "payments"); n != 1 || runs != 3 {
		t.Errorf("%d payments after %d runs", n, runs)
	}
}

// TestInvalidAction: an item that is too large is refused, and an action that lacks a name.
func TestInvalidAction(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	s := dynamostore.New(client, table)
	k := engine.Key{Namespace: "invalid", Name: "k"}
	if a, err := s.Put(t.Context(), k, record); err != nil || !a.Done {
		t.Fatal(a, err)
	}
	large := counter("large")
	large["text"] = text(strings.Repeat("x", 410_000))
	a, err := s.CompleteWith(t.Context(), k, "t", engine.Completion{}, dynamostore.Effects(add("invalid"),
		types.TransactWriteItem{Put: &types.Put{TableName: aws.String(table), Item: large}}))
	if refused, ok := errors.AsType[*dynamostore.RefusedError](err); !ok || !refused.Actions[0].Invalid {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = s.CompleteWith(t.Context(), k, "t", engine.Completion{}, dynamostore.Effects(add("invalid"),
		types.TransactWriteItem{Delete: &types.Delete{Key: counter("no-table")}})) // the SDK refuses it
	if refused, ok := errors.AsType[*dynamostore.RefusedError](err); !ok || !refused.Actions[0].Invalid {
		t.Errorf("%+v, %v", a, err)
	}
	if n := (counters{client}).Count(t, "invalid"); n != 0 {
		t.Errorf("%d effects", n)
	}
}
