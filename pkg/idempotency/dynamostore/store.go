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
// The table may be a strongly consistent global table, with what docs/handlers.md#in-two-regions says. It must not be an
// eventually consistent one: two regions would then run the function for one key.
package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	rows   format
}

var _ engine.Transactor = (*Store)(nil)

// New makes a Store on an existing table, which may be the table of claims and records.
func New(client Client, table string) *Store { return &Store{client, table, native{}} }

// MaxResult implements engine.Store.
func (s *Store) MaxResult() int { return s.rows.maxResult() }

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// Put implements engine.Store.
func (s *Store) Put(ctx context.Context, key engine.Key, record engine.Record) (engine.Answer, error) {
	return s.put(ctx, "put record", key, record, func(_ *expression, ifAbsent string) string { return ifAbsent })
}

// Replace implements engine.Store.
func (s *Store) Replace(
	ctx context.Context, key engine.Key, old engine.Version, record engine.Record,
) (engine.Answer, error) {
	return s.put(ctx, "replace record", key, record, func(e *expression, ifAbsent string) string {
		return ifAbsent + " OR (" + s.rows.ifSame(e, old) + ")"
	})
}

// errNoOldRow says that the key has a row, but not which: it may be of this call, by an attempt whose reply was lost.
var errNoOldRow = errors.New("the key has a row, and the reply does not show it")

func (s *Store) put(
	ctx context.Context, doing string, key engine.Key, record engine.Record, condition func(*expression, string) string,
) (engine.Answer, error) {
	item, err := s.rows.key(key)
	if err != nil {
		return engine.Answer{}, err
	}
	var e expression
	in := &dynamodb.PutItemInput{
		TableName: &s.table, ReturnValuesOnConditionCheckFailure: allOld,
		ConditionExpression: aws.String(condition(&e, "attribute_not_exists("+e.name(anyName(item))+")")),
	}
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = e.names, e.values
	maps.Copy(item, s.rows.record(record))
	in.Item = item
	a, err := s.ask(doing, func(dated func(*dynamodb.Options)) (row, error) {
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
	lease, end := s.rows.leaseEnd(ends.LeaseEnd)
	set := s.rows.ends(ends.Expiry, ends.PurgeAt)
	set[lease] = end
	return s.update(ctx, "prolong lease", key, token, set, func(e *expression) string {
		return " AND " + e.name(lease) + " < " + e.value(end)
	})
}

// Complete implements engine.Store.
func (s *Store) Complete(
	ctx context.Context, key engine.Key, token string, c engine.Completion,
) (engine.Answer, error) {
	return s.update(ctx, "complete record", key, token, s.completion(token, c), nil)
}

// Release implements engine.Store.
func (s *Store) Release(ctx context.Context, key engine.Key, token, next string) (engine.Answer, error) {
	lease, zero := s.rows.leaseEnd(time.UnixMilli(0))
	return s.update(ctx, "release key", key, token, row{lease: zero, s.rows.token(): text(next)}, nil)
}

// completion returns what a completion sets.
func (s *Store) completion(token string, c engine.Completion) row {
	set := s.rows.result(token, c.Result)
	maps.Copy(set, s.rows.ends(c.Expiry, c.PurgeAt))
	return set
}

// update sets attributes of a row in progress with the token, and leaves the others.
func (s *Store) update(
	ctx context.Context, doing string, key engine.Key, token string, set row, more func(*expression) string,
) (engine.Answer, error) {
	in, err := s.updateOf(key, token, set, more)
	if err != nil {
		return engine.Answer{}, err
	}
	return s.ask(doing, func(dated func(*dynamodb.Options)) (row, error) {
		_, err := s.client.UpdateItem(ctx, in, dated)
		return nil, err
	})
}

func (s *Store) updateOf(
	key engine.Key, token string, set row, more func(*expression) string,
) (*dynamodb.UpdateItemInput, error) {
	item, err := s.rows.key(key)
	if err != nil {
		return nil, err
	}
	var e expression
	change := "SET " + e.equal(set, ", ")
	condition := e.equal(s.rows.held(token), " AND ")
	if more != nil {
		condition += more(&e)
	}
	return &dynamodb.UpdateItemInput{
		TableName: &s.table, Key: item, UpdateExpression: &change, ConditionExpression: &condition,
		ExpressionAttributeNames: e.names, ExpressionAttributeValues: e.values,
		ReturnValuesOnConditionCheckFailure: allOld,
	}, nil
}

// Read implements engine.Store.
func (s *Store) Read(ctx context.Context, key engine.Key, c engine.Consistency) (engine.Answer, error) {
	item, err := s.rows.key(key)
	if err != nil {
		return engine.Answer{}, err
	}
	in := &dynamodb.GetItemInput{TableName: &s.table, Key: item, ConsistentRead: aws.Bool(bool(c))}
	return s.ask("read record", func(dated func(*dynamodb.Options)) (row, error) {
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
func (s *Store) ask(doing string, send func(dated func(*dynamodb.Options)) (row, error)) (engine.Answer, error) {
	var date time.Time
	item, err := send(dynamo.LastDate(&date))
	old, refused := dynamo.ConditionFailure(err)
	switch {
	case refused:
		item = old
	case err != nil:
		return engine.Answer{}, failed(doing, err)
	}
	return s.answer(doing, engine.Answer{Done: !refused, Date: date}, item)
}

// answer returns an answer with the record of a row, or with none.
func (s *Store) answer(doing string, a engine.Answer, item row) (engine.Answer, error) {
	if a.Date.IsZero() {
		return engine.Answer{}, fmt.Errorf("dynamodb: %s: %w", doing, errNoDate)
	}
	var err error
	if a.Row, err = s.rows.read(item, a.Date); err != nil {
		return engine.Answer{}, err
	}
	return a, nil
}

func failed(doing string, err error) error { return dynamo.Translate(doing, err, engine.ErrTryAgain) }
