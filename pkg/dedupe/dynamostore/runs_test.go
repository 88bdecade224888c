package dynamostore

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/internal/testkit/mutanttest"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// racing is a client on which another record takes a void entry over in the moment before a take-over. If blind is set,
// the take-over has no condition, which breaks the rule.
type racing struct {
	Client
	other func()
	blind bool
}

func (r *racing) race(condition **string) {
	if !strings.Contains(aws.ToString(*condition), ":void") || r.other == nil {
		return
	}
	other := r.other
	r.other = nil
	other()
	if r.blind {
		*condition = aws.String(strings.ReplaceAll(**condition, "r = :void", "attribute_exists(pk) OR r = :void"))
	}
}

func (r *racing) PutItem(
	ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options),
) (*dynamodb.PutItemOutput, error) {
	r.race(&in.ConditionExpression)
	return r.Client.PutItem(ctx, in, options...)
}

func (r *racing) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, options ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	if put := in.TransactItems[0].Put; put != nil {
		r.race(&put.ConditionExpression)
	}
	return r.Client.TransactWriteItems(ctx, in, options...)
}

// TestTakeOverRace: of two records that have read one void entry, one takes it over. The other one finds its entry.
func TestTakeOverRace(t *testing.T) {
	t.Parallel()
	client := newClient(t, testengine.Dynoxide(t))
	for _, way := range []string{"put", "transaction", "the same owner"} {
		t.Run(way, func(t *testing.T) { takeOverRace(t, client, way, false) })
		t.Run("take-over-whatever-the-owner/"+way, func(t *testing.T) {
			mutanttest.MustFail(t, func(tb testing.TB) { takeOverRace(tb, client, way, true) })
		})
	}
}

func takeOverRace(t testing.TB, client Client, way string, blind bool) {
	all := entries(3)
	scope := "race " + t.Name()
	run := dedupe.Run{ID: "run-1", Digest: "d", OutputID: "o", Beat: 1, Rests: true}
	plain := New(client, table)
	over := dedupe.Run{ID: "run-2", Digest: "d", OutputID: "p", Beat: 1, Finished: true, File: 1, Line: 1}
	for _, r := range []dedupe.Run{run, over} {
		if err := plain.SaveRun(t.Context(), scope, r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range all {
		all[i].Scope, all[i].Key, all[i].Owner.Sequence = scope, all[0].Key, fmt.Sprint("record ", i)
	}
	all[0].Owner = dedupe.Owner{Source: dedupe.RunSource(run.ID, 1), Sequence: "1", Sub: dedupe.Plain}
	if way == "the same owner" { // two runs read one record
		for i, r := range []dedupe.Run{run, over} {
			all[i].Owner = dedupe.Owner{Sequence: "sending", Sub: dedupe.Plain, Place: dedupe.RunSource(r.ID, 1) + "/1"}
		}
	}
	put := func(s *Store, e dedupe.Entry) *dedupe.Existing {
		results, err := s.PutIfAbsent(t.Context(), []dedupe.Entry{e})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		return results[0].Existing
	}
	if put(plain, all[0]) != nil {
		t.Fatal("the scope is not empty")
	}
	var answers []*dedupe.Existing
	s := New(&racing{Client: client, blind: blind, other: func() { answers = append(answers, put(plain, all[1])) }}, table)
	if way != "transaction" {
		answers = append(answers, put(s, all[2]))
	} else {
		result, err := s.Transact(t.Context(), dedupe.Transaction{Entry: all[2]}, nil)
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, result.Existing)
	}
	if want := all[1].Existing(); len(answers) != 2 || answers[0] != nil || answers[1] == nil || *answers[1] != want {
		t.Errorf("want one record to take the entry over, and the other one to find %+v: got %+v", want, answers)
	}
	if row, err := plain.RunByID(t.Context(), scope, run.ID); err != nil || row == nil || !row.Closed {
		t.Errorf("the run that rests is not closed: %+v, %v", row, err)
	}
}
