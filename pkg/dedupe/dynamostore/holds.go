package dynamostore

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// noRun is the id of a run that does not exist.
const noRun = "-"

// errNoDate says that a reply cannot be used.
var errNoDate = errors.New("dynamodb: the reply has no Date, which a queue needs: a proxy must pass it on, and a Client of " +
	"your own must pass the options of requests on")

// ServerTime reads a row that does not exist, at half a read unit, and returns the Date of the reply.
func (s *Store) ServerTime(ctx context.Context, scope string) (time.Time, error) {
	var date time.Time
	_, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.table, Key: dynamo.Encode(runKey(scope, noRun)), ConsistentRead: aws.Bool(false),
	}, dynamo.LastDate(&date))
	switch {
	case err != nil:
		return time.Time{}, failed("read the time", err)
	case date.IsZero():
		return time.Time{}, errNoDate
	}
	return date, nil
}

// TakeOver puts each entry IF the old one is unchanged: owner, content, purge time, token and end of the lease, and not
// done.
func (s *Store) TakeOver(
	ctx context.Context, requests []dedupe.TakeOverRequest,
) ([]dedupe.TakeOverResult, error) {
	results := make([]dedupe.TakeOverResult, len(requests))
	s.each(len(requests), func(i int) *error { return &results[i].Err }, func(i int) {
		results[i] = s.takeHoldOver(ctx, &requests[i])
	})
	return results, nil
}

func (s *Store) takeHoldOver(ctx context.Context, r *dedupe.TakeOverRequest) dedupe.TakeOverResult {
	condition, values := unchanged(r.Old)
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table, Item: entryItem(&r.Entry),
		ConditionExpression: &condition, ExpressionAttributeValues: values,
	})
	if _, changed := dynamo.ConditionFailure(err); changed {
		return dedupe.TakeOverResult{}
	}
	return dedupe.TakeOverResult{Taken: err == nil, Err: failed("take entry over", err)}
}

// unchanged returns the condition that an entry is as it was read.
func unchanged(e dedupe.Existing) (condition string, values map[string]types.AttributeValue) {
	condition = "o = :owner AND c = :content"
	values = map[string]types.AttributeValue{":owner": binary(e.Owner[:]), ":content": binary(e.Content[:])}
	equal := func(name, value string, is types.AttributeValue, absent bool) {
		if absent {
			condition += " AND attribute_not_exists(" + name + ")"
			return
		}
		condition, values[value] = condition+" AND "+name+" = "+value, is
	}
	held := e.Hold != (dedupe.Hold{})
	equal("t", ":token", binary(e.Hold.Token[:]), !held)
	equal("l", ":ends", number(e.Hold.Ends), !held)
	equal("purge_at", ":purge", number(e.PurgeAt), e.PurgeAt == dedupe.Never)
	equal("d", ":done", yes, !e.Done)
	return condition, values
}

// Finish marks each entry as done IF it has the owner and the token. It makes no row.
func (s *Store) Finish(ctx context.Context, requests []dedupe.FinishRequest) ([]dedupe.FinishResult, error) {
	results := make([]dedupe.FinishResult, len(requests))
	s.each(len(requests), func(i int) *error { return &results[i].Err }, func(i int) {
		results[i] = s.finish(ctx, requests[i])
	})
	return results, nil
}

func (s *Store) finish(ctx context.Context, r dedupe.FinishRequest) dedupe.FinishResult {
	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: dynamo.Encode(entryKey(r.Scope, r.Key)),
		UpdateExpression: aws.String("SET d = :done"), ConditionExpression: aws.String("o = :owner AND t = :token"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":owner": binary(r.Owner[:]), ":token": binary(r.Token[:]), ":done": yes,
		},
	})
	if _, lost := dynamo.ConditionFailure(err); lost {
		return dedupe.FinishResult{}
	}
	return dedupe.FinishResult{Finished: err == nil, Err: failed("mark entry as done", err)}
}
