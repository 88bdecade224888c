package dynamosink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/sink/sinktest"
)

func TestConformance(t *testing.T) { conformance(t, testengine.Dynoxide(t)) }

func TestConformanceOnDynamoDBLocal(t *testing.T) {
	testengine.CheckOnly(t)
	conformance(t, testengine.DynamoDBLocal(t))
}

func conformance(t *testing.T, endpoint string) {
	for name, open := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDB(t, endpoint)
			for _, c := range sinktest.TransactionalCases() {
				if strings.HasPrefix(c.Name, "versions/") != (name == "versions") {
					continue
				}
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					c.Run(t, open(t, d, d.client))
				})
			}
		})
	}
}

// requests is a client whose transactions a mutant changes.
type requests struct {
	dynamostore.Client
	change func(*dynamodb.TransactWriteItemsInput)
	answer func(*types.TransactionCanceledException)
}

func (r requests) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	if r.change != nil {
		r.change(in)
	}
	out, err := r.Client.TransactWriteItems(ctx, in, options...)
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok && r.answer != nil {
		r.answer(cancelled)
	}
	return out, err
}

// mutants each break one rule, in the requests or in a part of the sink.
var mutants = []struct {
	name     string
	requests requests
	sink     func(*Sink)
	catches  map[string]string // cases by mode
}{
	{
		name: "token-of-the-record",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			sum := sha256.Sum256(fmt.Append(nil, textOf(entryOf(in)["pk"]), ownerIn(in)))
			in.ClientRequestToken = aws.String(hex.EncodeToString(sum[:16]))
		}},
		catches: map[string]string{
			"insert": "entry-that-comes-again-after-its-purge", "upsert": "entry-that-comes-again-after-its-purge",
			"own": "entry-that-comes-again-after-its-purge",
		},
	},
	{
		name: "reason-of-the-effect-read-first",
		requests: requests{answer: func(cancelled *types.TransactionCanceledException) {
			reasons := cancelled.CancellationReasons
			if slices.ContainsFunc(reasons[1:], func(r types.CancellationReason) bool {
				return aws.ToString(r.Code) == "ConditionalCheckFailed"
			}) {
				reasons[0] = types.CancellationReason{Code: aws.String("None")}
			}
		}},
		catches: map[string]string{"insert": "found-entry"},
	},
	{
		name: "owner-in-the-condition",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			if put := in.TransactItems[0].Put; put != nil {
				put.ConditionExpression = aws.String(*put.ConditionExpression + " OR o = :owner")
				put.ExpressionAttributeValues[":owner"] = put.Item["o"]
			}
		}},
		catches: map[string]string{"own": "found-entry"},
	},
	{
		name: "done-not-in-the-row",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			if put := in.TransactItems[0].Put; put != nil {
				delete(put.Item, "d")
			}
		}},
		catches: map[string]string{"own": "found-entry", "upsert": "entry-and-effect", "insert": "entry-and-effect"},
	},
	{
		name: "finished-by-everybody",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			if update := in.TransactItems[0].Update; update != nil {
				update.ConditionExpression = aws.String("attribute_not_exists(d)")
				delete(update.ExpressionAttributeValues, ":owner")
			}
		}},
		catches: map[string]string{"own": "entry-of-a-stream-sink"},
	},
	{
		name: "finished-again-and-again",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			if update := in.TransactItems[0].Update; update != nil {
				update.ConditionExpression = aws.String("o = :owner")
			}
		}},
		catches: map[string]string{"own": "race-for-a-finish"},
	},
	{
		name: "superseded-without-proof",
		sink: func(s *Sink) {
			s.judge = func(dedupe.Output, []dynamostore.FailedCondition) (bool, error) { return true, nil }
		},
		catches: map[string]string{"versions": "versions/not-comparable", "insert": "refused-effect"},
	},
	{
		name: "versions-compared-as-texts",
		sink: func(s *Sink) {
			inner := s.judge
			s.judge = func(o dedupe.Output, failed []dynamostore.FailedCondition) (bool, error) {
				old := item(failed[0].Old)
				mine, err := decode(o.Data)
				if err != nil || old == nil {
					return inner(o, failed)
				}
				return textOf(old["v"]) >= textOf(mine["v"]), nil
			}
		},
		catches: map[string]string{"versions": "versions/not-comparable"},
	},
	{
		name: "texts-of-every-length-compared",
		requests: requests{change: changePut(func(put *types.Put) {
			put.ConditionExpression = aws.String(strings.ReplaceAll(*put.ConditionExpression, "size(#v) =", "size(#v) <>"))
			if put.ExpressionAttributeValues[":length"] != nil {
				put.ExpressionAttributeValues[":length"] = &types.AttributeValueMemberN{Value: "0"}
			}
		})},
		catches: map[string]string{"versions": "versions/histories"},
	},
	{
		name:     "texts-of-every-form-compared",
		requests: requests{change: without(onSeparators, ":s")},
		catches:  map[string]string{"versions": "versions/not-comparable"},
	},
	{
		name:     "texts-of-both-cases-compared",
		requests: requests{change: without(onLetters, ":c")},
		catches:  map[string]string{"versions": "versions/not-comparable"},
	},
	{
		name: "first-of-equal-versions-stays",
		requests: requests{change: changePut(func(put *types.Put) {
			put.ConditionExpression = aws.String("attribute_not_exists(#k) OR #v < :v")
			delete(put.ExpressionAttributeNames, "#r")
			delete(put.ExpressionAttributeValues, ":r")
		})},
		catches: map[string]string{"versions": "versions/equal"},
	},
	{
		name: "delete-without-a-version",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			for i, a := range in.TransactItems {
				if put := a.Put; i > 0 && put != nil && put.Item[DeletedAttribute] != nil {
					in.TransactItems[i] = types.TransactWriteItem{Delete: &types.Delete{
						TableName: put.TableName, Key: item{"key": put.Item["key"]}, ConditionExpression: put.ConditionExpression,
						ExpressionAttributeNames: put.ExpressionAttributeNames, ExpressionAttributeValues: put.ExpressionAttributeValues,
						ReturnValuesOnConditionCheckFailure: put.ReturnValuesOnConditionCheckFailure,
					}}
				}
			}
		}},
		catches: map[string]string{"versions": "versions/delete"},
	},
	{
		name: "entry-without-the-effect",
		requests: requests{change: func(in *dynamodb.TransactWriteItemsInput) {
			in.TransactItems = in.TransactItems[:1]
		}},
		catches: map[string]string{"insert": "entry-and-effect", "own": "refused-effect"},
	},
}

var (
	onSeparators = regexp.MustCompile(` AND (NOT )?contains\(#v, :s\d+\)`)
	onLetters    = regexp.MustCompile(` AND NOT contains\(#v, :c\d+\)`)
)

// without takes parts out of the condition of a put, and the values that they name.
func without(parts *regexp.Regexp, values string) func(*dynamodb.TransactWriteItemsInput) {
	return changePut(func(put *types.Put) {
		put.ConditionExpression = aws.String(parts.ReplaceAllString(*put.ConditionExpression, ""))
		maps.DeleteFunc(put.ExpressionAttributeValues, func(name string, _ types.AttributeValue) bool {
			return strings.HasPrefix(name, values)
		})
	})
}

func changePut(change func(*types.Put)) func(*dynamodb.TransactWriteItemsInput) {
	return func(in *dynamodb.TransactWriteItemsInput) {
		if len(in.TransactItems) > 1 {
			change(in.TransactItems[1].Put)
		}
	}
}

// entryOf returns the key of the entry in a transaction.
func entryOf(in *dynamodb.TransactWriteItemsInput) item {
	if a := in.TransactItems[0]; a.Put != nil {
		return a.Put.Item
	}
	return in.TransactItems[0].Update.Key
}

func ownerIn(in *dynamodb.TransactWriteItemsInput) []byte {
	if a := in.TransactItems[0]; a.Put != nil {
		return a.Put.Item["o"].(*types.AttributeValueMemberB).Value
	}
	return in.TransactItems[0].Update.ExpressionAttributeValues[":owner"].(*types.AttributeValueMemberB).Value
}

// TestMutants: the suite finds each mutant, in the modes and by the cases that the mutant names.
func TestMutants(t *testing.T) {
	t.Parallel()
	d := newDB(t, testengine.Dynoxide(t))
	cases := sinktest.TransactionalCases()
	for _, m := range mutants {
		m.requests.Client = d.client
		for name, caughtBy := range m.catches {
			t.Run(strings.Join([]string{m.name, name, caughtBy}, "/"), func(t *testing.T) {
				t.Parallel()
				i := slices.IndexFunc(cases, func(c sinktest.TxCase) bool { return c.Name == caughtBy })
				target := modes[name](t, d, m.requests)
				if m.sink != nil {
					m.sink(target.Sink.(*Sink))
				}
				mutanttest.MustFail(t, func(tb testing.TB) { cases[i].Run(tb, target) })
			})
		}
	}
}
