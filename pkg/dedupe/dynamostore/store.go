// Package dynamostore is the engine of package dedupe on DynamoDB, for production.
//
// An entry is one conditional put. It costs one write unit if it has at most 1 KB. The entries of one call are put
// concurrently, up to a limit (WithConcurrency): DynamoDB has no batch of conditional writes except transactions, which
// cost twice as much.
package dynamostore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DefaultConcurrency is how many requests a call sends at the same time, each on its own connection. With 32, and 2 ms
// for each request, a busy machine puts 7,000 entries a second. A shard brings at most 1,000 records a second (Kinesis
// Developer Guide, "Quotas and limits"). With 16, a batch of 10,000 new records took 1.6 times as long. With 64 it took
// 0.8 times as long, but 64 needs twice the TLS handshakes at a cold start. 128 was not faster than 64
// (docs/benchmarks.md).
const DefaultConcurrency = 32

// Client is the part of *dynamodb.Client that the store calls.
type Client interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	UpdateItem(
		context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options),
	) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(
		context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options),
	) (*dynamodb.TransactWriteItemsOutput, error)
}

// Store is a ledger, with acks, consumers and runs, on DynamoDB. It is safe for concurrent use.
type Store struct {
	client      Client
	table       string
	concurrency int
	ledger      string
}

var _ dedupe.Store = (*Store)(nil)

// Option changes a Store from its defaults.
type Option func(*Store)

// WithConcurrency sets how many requests a call sends at the same time, at least one.
func WithConcurrency(n int) Option { return func(s *Store) { s.concurrency = max(1, n) } }

// OwnLedger is the name of a Store's own ledger, which has one row for each key.
const OwnLedger = "keys"

// WithLedger says that functions use this Store together with another kind of ledger, and names that kind. In a
// scope, a stream is read with one kind of ledger: ClaimConsumer refuses others.
func WithLedger(kind string) Option { return func(s *Store) { s.ledger = kind } }

// New makes a Store on an existing table, which may be the table of claims.
func New(client Client, table string, options ...Option) *Store {
	s := &Store{client, table, DefaultConcurrency, OwnLedger}
	for _, o := range options {
		o(s)
	}
	return s
}

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

func failed(doing string, err error) error {
	return dynamo.Translate(doing, err, dedupe.ErrTryAgain)
}

// Enter enters records with one row for each key: see dedupe.EnterByKey.
func (s *Store) Enter(ctx context.Context, q dedupe.Question) ([]dedupe.Answer, error) {
	return dedupe.EnterByKey(ctx, s, q), nil
}

// PutIfAbsent puts each entry IF its key is absent OR its purge time is before the entry's arrival. The purge time is
// part of the condition because DynamoDB deletes rows days after their TTL. The owner is not: otherwise a redelivered
// record would look like a new one.
func (s *Store) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	s.each(len(entries), func(i int, notSent error) error {
		if results[i].Err = notSent; notSent == nil {
			results[i] = s.put(ctx, &entries[i])
		}
		return results[i].Err
	})
	return results, nil
}

func (s *Store) put(ctx context.Context, e *dedupe.Entry) dedupe.PutResult {
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.table, Item: entryItem(e),
		ConditionExpression:                 aws.String(ifFree),
		ExpressionAttributeValues:           map[string]types.AttributeValue{":a": seconds(e.Arrival)},
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	old, there := dynamo.ConditionFailure(err)
	if !there || len(old) == 0 { // without the old row, the record that has the key is unknown
		return dedupe.PutResult{Err: failed("put entry", err)}
	}
	existing, err := existingOf(old)
	return dedupe.PutResult{Existing: existing, Err: err}
}

// ifFree is the condition of a put.
const ifFree = "attribute_not_exists(pk) OR purge_at < :a"

func existingOf(old map[string]types.AttributeValue) (*dedupe.Existing, error) {
	var row entryRow
	if err := dynamo.Decode(old, &row); err != nil {
		return nil, err
	}
	return row.existing()
}

// RaisePurge raises the purge time of each entry IF the owner still holds the entry.
func (s *Store) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results := make([]dedupe.RaiseResult, len(raises))
	s.each(len(raises), func(i int, notSent error) error {
		if results[i].Err = notSent; notSent == nil {
			results[i] = s.raise(ctx, raises[i])
		}
		return results[i].Err
	})
	return results, nil
}

func (s *Store) raise(ctx context.Context, r dedupe.RaiseRequest) dedupe.RaiseResult {
	in := &dynamodb.UpdateItemInput{
		TableName: aws.String(s.table), Key: dynamo.Encode(entryKey(r.Scope, r.Key)),
		ExpressionAttributeValues:           map[string]types.AttributeValue{":owner": binary(r.Owner[:])},
		ReturnValuesOnConditionCheckFailure: allOld,
	}
	if r.PurgeAt == dedupe.Never {
		in.UpdateExpression = aws.String("REMOVE purge_at")
		in.ConditionExpression = aws.String("o = :owner")
	} else {
		in.UpdateExpression = aws.String("SET purge_at = :purge")
		in.ConditionExpression = aws.String("o = :owner AND purge_at < :purge")
		in.ExpressionAttributeValues[":purge"] = number(r.PurgeAt)
	}
	_, err := s.client.UpdateItem(ctx, in)
	old, stays := dynamo.ConditionFailure(err)
	if !stays {
		return dedupe.RaiseResult{Raised: err == nil, Err: failed("raise purge time", err)}
	}
	if len(old) == 0 { // the entry no longer exists
		return dedupe.RaiseResult{}
	}
	var row entryRow
	if err := dynamo.Decode(old, &row); err != nil {
		return dedupe.RaiseResult{Err: err}
	}
	return dedupe.RaiseResult{Raised: bytes.Equal(row.Owner, r.Owner[:])} // if it is the owner's, its purge time is late enough
}

// errNotSent is the result of entries that were not sent to DynamoDB.
var errNotSent = fmt.Errorf("dynamodb: %w: not sent, because most requests before it failed", dedupe.ErrTryAgain)

// each runs work for 0 to n-1, s.concurrency at a time. While most requests fail, it passes notSent, and work then only
// sets its result: if a table is down, every entry would otherwise cost several attempts. Few failures, for example by
// throttling, stop no other request.
func (s *Store) each(n int, work func(i int, notSent error) error) {
	var begun, failed atomic.Int64
	var workers sync.WaitGroup
	for range min(s.concurrency, n) {
		workers.Go(func() {
			for i := begun.Add(1) - 1; i < int64(n); i = begun.Add(1) - 1 {
				var notSent error
				if f := failed.Load(); f >= int64(s.concurrency) && 2*f > i {
					notSent = errNotSent
				}
				if work(int(i), notSent) != nil {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait() // work stores its errors in the results
}

// ReadRun reads an offline run consistently.
func (s *Store) ReadRun(ctx context.Context, scope, digest string) (*dedupe.Run, error) {
	var row runRow
	found, err := s.get(ctx, "read run", runKey(scope, digest), &row)
	if err != nil || !found {
		return nil, err
	}
	return row.run(digest), nil
}

// SaveRun puts an offline run, or replaces it.
func (s *Store) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	_, err := s.client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String(s.table), Item: dynamo.Encode(newRunRow(scope, r)),
	})
	return failed("save run", err)
}

func (s *Store) get(ctx context.Context, doing string, k key, row any) (found bool, err error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(s.table), Key: dynamo.Encode(k), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return false, failed(doing, err)
	}
	if out.Item == nil {
		return false, nil
	}
	return true, dynamo.Decode(out.Item, row)
}
