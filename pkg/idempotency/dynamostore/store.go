// Package dynamostore is the engine of package idempotency on DynamoDB, for production.
//
//	store := dynamostore.New(client, "oncebox-dedupe") // a *dynamodb.Client
//	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
//
// The table has the string keys pk and sk, and purge_at as its TTL attribute. It can be the dedupe table of records and
// claims. docs/adr/0002-data-model.md describes the row of a key.
//
// A new call is a put and an update, and costs two write units if its row has at most 1 KB. A replay is one eventually
// consistent read of half a read unit for each 4 KB, or, where replays are rare, a put that is refused: one write unit.
// Where replays are frequent, a new call makes that read, too.
//
// Use a client with explicit time-outs, such as the client of package awsclient. The SDK's default client waits for a
// reply without a limit.
//
// The table may be a strongly consistent global table. It must not be an eventually consistent one: two regions would
// then run the function for one key.
package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// Client is the part of *dynamodb.Client that a Store calls. A Client that calls another must pass the options on: a
// Store reads DynamoDB's time through them.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(
		context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options),
	) (*dynamodb.TransactWriteItemsOutput, error)
}

// Store implements engine.Transactor on DynamoDB. It is safe for concurrent use.
type Store struct {
	client Client
	table  string
}

var _ engine.Transactor = (*Store)(nil)

// New makes a Store on an existing table, which may be the table of claims and records.
func New(client Client, table string) *Store { return &Store{client, table} }

// MaxResult implements engine.Store.
func (*Store) MaxResult() int { return maxItem - restOfRow }

const (
	ifAbsent = "attribute_not_exists(pk)"
	ifSame   = "#status = :status AND #token = :token AND #number = :number AND lease_end = :lease_end AND expiry = :expiry"
	ifMine   = "#token = :token AND #status = :in_progress"
)

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// Put implements engine.Store.
func (s *Store) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	return s.put(ctx, "put record", &dynamodb.PutItemInput{
		TableName: &s.table, Item: itemOf(key, record), ConditionExpression: aws.String(ifAbsent),
		ReturnValuesOnConditionCheckFailure: allOld,
	})
}

// Replace implements engine.Store.
func (s *Store) Replace(
	ctx context.Context, key engine.Key, old engine.Version, record engine.Record,
) (engine.Answer, error) {
	return s.put(ctx, "replace record", &dynamodb.PutItemInput{
		TableName: &s.table, Item: itemOf(key, record),
		ConditionExpression:      aws.String(ifAbsent + " OR (" + ifSame + ")"),
		ExpressionAttributeNames: map[string]string{"#status": "status", "#token": "token", "#number": "number"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":status": text(string(old.Status)), ":token": text(old.Token), ":number": number(old.Number),
			":lease_end": millis(old.LeaseEnd), ":expiry": millis(old.Expiry),
		},
		ReturnValuesOnConditionCheckFailure: allOld,
	})
}

// errNoOldRow says that the key has a row, but not which: it may be of this call, by an attempt whose reply was lost.
var errNoOldRow = errors.New("the key has a row, and the reply does not show it")

func (s *Store) put(ctx context.Context, doing string, in *dynamodb.PutItemInput) (engine.Answer, error) {
	a, err := ask(doing, func(dated func(*dynamodb.Options)) (row, error) {
		_, err := s.client.PutItem(ctx, in, dated)
		return nil, err
	})
	if err == nil && !a.Done && a.Row == nil {
		return engine.Answer{}, fmt.Errorf("dynamodb: %s: %w: %w", doing, engine.ErrTryAgain, errNoOldRow)
	}
	return a, err
}

// Prolong implements engine.Store.
func (s *Store) Prolong(ctx context.Context, key engine.Key, token string, ends engine.Ends) (engine.Answer, error) {
	return s.update(ctx, "prolong lease", key, token, change{
		set: "lease_end = :lease_end, expiry = :expiry, purge_at = :purge_at", more: " AND lease_end < :lease_end",
		values: row{
			":lease_end": millis(ends.LeaseEnd), ":expiry": millis(ends.Expiry), ":purge_at": number(ends.PurgeAt.Unix()),
		},
	})
}

// Complete implements engine.Store.
func (s *Store) Complete(
	ctx context.Context, key engine.Key, token string, c engine.Completion,
) (engine.Answer, error) {
	return s.update(ctx, "complete record", key, token, completion(c))
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, key engine.Key, token, next string) (engine.Answer, error) {
	return s.update(ctx, "release key", key, token, change{
		set: "lease_end = :zero, #token = :next", values: row{":zero": number(0), ":next": text(next)},
	})
}

// change is what an update of a row in progress sets.
type change struct {
	set, more string // expressions; more is added to the condition ifMine
	values    row    // of both, without those of ifMine
}

func completion(c engine.Completion) change {
	return change{
		set: "#status = :completed, completed_by = :token, kind = :kind, content_type = :type, body = :body, " +
			"expiry = :expiry, purge_at = :purge_at",
		values: row{
			":completed": text(string(engine.Completed)), ":kind": text(string(c.Result.Kind)),
			":type": text(c.Result.ContentType), ":body": binary(c.Result.Body),
			":expiry": millis(c.Expiry), ":purge_at": number(c.PurgeAt.Unix()),
		},
	}
}

func (s *Store) update(ctx context.Context, doing string, key engine.Key, token string, c change) (engine.Answer, error) {
	in := s.updateOf(key, token, c)
	return ask(doing, func(dated func(*dynamodb.Options)) (row, error) {
		_, err := s.client.UpdateItem(ctx, in, dated)
		return nil, err
	})
}

func (s *Store) updateOf(key engine.Key, token string, c change) *dynamodb.UpdateItemInput {
	c.values[":token"], c.values[":in_progress"] = text(token), text(string(engine.InProgress))
	return &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: keyOf(key),
		UpdateExpression: aws.String("SET " + c.set), ConditionExpression: aws.String(ifMine + c.more),
		ExpressionAttributeNames: reserved, ExpressionAttributeValues: c.values,
		ReturnValuesOnConditionCheckFailure: allOld,
	}
}

// Read implements engine.Store.
func (s *Store) Read(ctx context.Context, key engine.Key, c engine.Consistency) (engine.Answer, error) {
	in := &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(key), ConsistentRead: aws.Bool(bool(c))}
	return ask("read record", func(dated func(*dynamodb.Options)) (row, error) {
		out, err := s.client.GetItem(ctx, in, dated)
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	})
}

// errNoDate says that a reply cannot be used.
var errNoDate = errors.New("the reply has no Date; it comes from DynamoDB's clock, so a proxy must pass it on, and a " +
	"Client of your own must pass the options of requests on")

// ask sends a request that returns a row or none. A condition that failed is an answer with the old row.
func ask(doing string, send func(dated func(*dynamodb.Options)) (row, error)) (engine.Answer, error) {
	var date time.Time
	item, err := send(dynamo.LastDate(&date))
	old, refused := dynamo.ConditionFailure(err)
	switch {
	case refused:
		item = old
	case err != nil:
		return engine.Answer{}, failed(doing, err)
	}
	return answer(doing, engine.Answer{Done: !refused, Date: date}, item)
}

// answer returns an answer with the record of a row, or with none.
func answer(doing string, a engine.Answer, item row) (engine.Answer, error) {
	if a.Date.IsZero() {
		return engine.Answer{}, fmt.Errorf("dynamodb: %s: %w", doing, errNoDate)
	}
	var err error
	if a.Row, err = recordOf(item); err != nil {
		return engine.Answer{}, err
	}
	return a, nil
}

func failed(doing string, err error) error { return dynamo.Translate(doing, err, engine.ErrTryAgain) }
