// Package dynamostore is the engine of package dedupe on DynamoDB, for production.
//
// An entry is one write if its key is absent. It costs one write unit if it has at most 1 KB. From 25 entries on, a
// call sends them as INSERT statements of PartiQL, 25 in a request, each of which DynamoDB does or refuses by itself.
// The rows of all refused keys are read together. Other entries are a conditional put each, and so are all if the caller
// may not send statements: see OneByOne. The requests of one call are sent concurrently, up to a limit
// (WithConcurrency).
package dynamostore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/aws/dynamo"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// DefaultConcurrency is how many requests a call sends at the same time, each on its own connection. With 32, and 2 ms
// for each request, a busy machine puts 7,000 entries a second by requests of their own, and 40,000 by statements. A
// shard brings at most 1,000 records a second (Kinesis Developer Guide, "Quotas and limits"). With 16, a batch of 10,000
// new records took 1.2 times as long. 64 and 128 were not faster, and need more TLS handshakes at a cold start
// (docs/benchmarks.md).
const DefaultConcurrency = 32

// Client is the part of *dynamodb.Client that the store calls.
type Client interface {
	BatchExecuteStatement(
		context.Context, *dynamodb.BatchExecuteStatementInput, ...func(*dynamodb.Options),
	) (*dynamodb.BatchExecuteStatementOutput, error)
	BatchGetItem(
		context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options),
	) (*dynamodb.BatchGetItemOutput, error)
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
	dedupe.Ledger // of the entries in the table, by dedupe.ByKey

	client      Client
	table       string
	concurrency int
	statements  dynamo.Statements
	ledger      string
	watch       dedupe.RunWatch

	toldInsert, toldRead sync.Once // see OneByOne
}

var _ dedupe.Store = (*Store)(nil)

// Option changes a Store from its defaults.
type Option func(*Store)

// WithConcurrency sets how many requests a call sends at the same time, at least one.
func WithConcurrency(n int) Option { return func(s *Store) { s.concurrency = max(1, n) } }

// WithStatements is for the tests of this module: no other Store puts fewer than FullRequest entries by statements.
func WithStatements(by dynamo.Statements) Option { return func(s *Store) { s.statements = by } }

// OwnLedger is the name of a Store's own ledger, which has one row for each key.
const OwnLedger = "keys"

// WithLedger says that functions use this Store together with another kind of ledger, and names that kind. In a
// scope, a stream is read with one kind of ledger: ClaimConsumer refuses others.
func WithLedger(kind string) Option { return func(s *Store) { s.ledger = kind } }

// New makes a Store on an existing table, which may be the table of claims.
func New(client Client, table string, options ...Option) *Store {
	s := &Store{
		client: client, table: table, concurrency: DefaultConcurrency, statements: dynamo.Statements{From: FullRequest},
		ledger: OwnLedger,
	}
	for _, o := range options {
		o(s)
	}
	s.Ledger = dedupe.ByKey(s)
	return s
}

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

func failed(doing string, err error) error {
	return dynamo.Translate(doing, err, dedupe.ErrTryAgain)
}

// PutIfAbsent puts each entry IF its key is absent OR its purge time is before the entry's arrival. The purge time is
// part of the condition because DynamoDB deletes rows days after their TTL. The owner is not: otherwise a redelivered
// record would look like a new one. A void entry is replaced by a second put, IF it has the owner that was read.
func (s *Store) PutIfAbsent(ctx context.Context, entries []dedupe.Entry) ([]dedupe.PutResult, error) {
	results := make([]dedupe.PutResult, len(entries))
	alone := make([]int, len(entries))
	for i := range alone {
		alone[i] = i
	}
	if s.inStatements(entries) {
		alone = s.insert(ctx, entries, results, alone)
	}
	s.each(len(alone), func(i int) *error { return &results[alone[i]].Err }, func(i int) {
		results[alone[i]] = s.put(ctx, &entries[alone[i]])
	})
	return results, nil
}

func (s *Store) put(ctx context.Context, e *dedupe.Entry) (result dedupe.PutResult) {
	var date time.Time
	var dated []func(*dynamodb.Options)
	if e.Hold != (dedupe.Hold{}) { // otherwise nobody asks for the time
		dated = append(dated, dynamo.LastDate(&date))
	}
	err := s.takeOver(ctx, e, func(is free) (old *entryRow, err error) {
		result = dedupe.PutResult{}
		_, err = s.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.table, Item: entryItem(e),
			ConditionExpression: &is.condition, ExpressionAttributeValues: is.values,
			ReturnValuesOnConditionCheckFailure: allOld,
		}, dated...)
		item, there := dynamo.ConditionFailure(err)
		if !there || len(item) == 0 { // without the old row, the record that has the key is unknown
			return nil, failed("put entry", err)
		}
		old, result.Existing, err = existingOf(item)
		return old, err
	})
	if err != nil {
		return dedupe.PutResult{Err: err}
	}
	result.Date = date
	return result
}

// ifFree is the condition of a put.
const ifFree = "attribute_not_exists(pk) OR purge_at < :a"

// free is the condition under which a key is free for an entry, and its values.
type free struct {
	condition string
	values    map[string]types.AttributeValue
}

// mostTakeOvers limits how often a put follows other records that take a void entry before it.
const mostTakeOvers = 5

// takeOver calls put with the condition that the key of an entry is free, and again if put finds a void entry. put
// returns the row that it has found, or nil.
func (s *Store) takeOver(ctx context.Context, e *dedupe.Entry, put func(free) (old *entryRow, err error)) error {
	is := free{ifFree, map[string]types.AttributeValue{":a": seconds(e.Arrival)}}
	for range mostTakeOvers {
		old, err := put(is)
		if old == nil || err != nil {
			return err
		}
		void, err := s.watch.Void(ctx, s, e.Scope, old.OwnerText, e.Owner)
		if !void || err != nil {
			return err
		}
		is = free{ifFree + " OR r = :void", map[string]types.AttributeValue{
			":a": seconds(e.Arrival), ":void": text(old.OwnerText), // o is the same if another run reads the same record
		}}
	}
	return fmt.Errorf("dynamodb: %w: other records took a void entry over, %d times",
		dedupe.ErrTryAgain, mostTakeOvers)
}

func existingOf(item map[string]types.AttributeValue) (*entryRow, *dedupe.Existing, error) {
	var row entryRow
	if err := dynamo.Decode(item, &row); err != nil {
		return nil, nil, err
	}
	existing, err := row.existing()
	return &row, existing, err
}

// RaisePurge raises the purge time of each entry IF the owner still holds the entry.
func (s *Store) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	results := make([]dedupe.RaiseResult, len(raises))
	s.each(len(raises), func(i int) *error { return &results[i].Err }, func(i int) {
		results[i] = s.raise(ctx, raises[i])
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

// each runs send for 0 to n-1, s.concurrency at a time. send stores its error where errOf says. While most requests
// fail, each does not call send and stores errNotSent: if a table is down, every entry would otherwise cost several
// attempts. Few failures, for example by throttling, stop no other request.
func (s *Store) each(n int, errOf func(i int) *error, send func(i int)) {
	var begun, failed atomic.Int64
	var workers sync.WaitGroup
	for range min(s.concurrency, n) {
		workers.Go(func() {
			for i := begun.Add(1) - 1; i < int64(n); i = begun.Add(1) - 1 {
				if f := failed.Load(); f >= int64(s.concurrency) && 2*f > i {
					*errOf(int(i)) = errNotSent
				} else {
					send(int(i))
				}
				if *errOf(int(i)) != nil {
					failed.Add(1)
				}
			}
		})
	}
	workers.Wait()
}

// ReadRun reads all runs of the scope, consistently.
func (s *Store) ReadRun(ctx context.Context, scope, digest string) (*dedupe.Run, error) {
	runs, err := s.queryRuns(ctx, scope, "digest = :d", map[string]types.AttributeValue{":d": text(digest)})
	if err != nil || len(runs) == 0 {
		return nil, err
	}
	return &runs[len(runs)-1], nil
}

// RunByID reads a run consistently, at one read unit.
func (s *Store) RunByID(ctx context.Context, scope, id string) (*dedupe.Run, error) {
	var row runRow
	found, err := s.get(ctx, "read run", runKey(scope, id), &row)
	if err != nil || !found {
		return nil, err
	}
	return row.run(), nil
}

// OpenRuns reads all runs of the scope, consistently.
func (s *Store) OpenRuns(ctx context.Context, scope string) ([]dedupe.Run, error) {
	return s.queryRuns(ctx, scope, "finished = :no AND closed = :no AND attribute_exists(output_id)",
		map[string]types.AttributeValue{":no": no})
}

// queryRuns returns the runs of a scope that fulfil a condition, in the order of their ids. It reads the rows of all.
func (s *Store) queryRuns(
	ctx context.Context, scope, condition string, values map[string]types.AttributeValue,
) (runs []dedupe.Run, err error) {
	values[":pk"] = text(runKey(scope, "").PK)
	in := &dynamodb.QueryInput{
		TableName: aws.String(s.table), ConsistentRead: aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk"), FilterExpression: aws.String(condition),
		ExpressionAttributeValues: values,
	}
	for {
		out, err := s.client.Query(ctx, in)
		if err != nil {
			return nil, failed("read runs", err)
		}
		for _, item := range out.Items {
			var row runRow
			if err := dynamo.Decode(item, &row); err != nil {
				return nil, err
			}
			runs = append(runs, *row.run())
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return runs, nil
		}
	}
}

// SaveRun puts a run IF the row is absent OR r follows it: see dedupe.Run.Follows.
func (s *Store) SaveRun(ctx context.Context, scope string, r dedupe.Run) error {
	in := &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: dynamo.Encode(newRunRow(scope, r))}
	if r.OutputID != "" {
		in.ConditionExpression = aws.String("attribute_not_exists(pk) OR (closed = :no AND beat < :beat)")
		in.ExpressionAttributeValues = map[string]types.AttributeValue{":no": no, ":beat": number(r.Beat)}
		in.ReturnValuesOnConditionCheckFailure = allOld
	}
	_, err := s.client.PutItem(ctx, in)
	stored, over := dynamo.ConditionFailure(err)
	if !over || len(stored) == 0 { // without the stored row, it is unknown whether the run was saved
		return failed("save run", err)
	}
	var row runRow
	if err := dynamo.Decode(stored, &row); err != nil {
		return err
	}
	if *row.run() == r { // this save, whose reply was lost
		return nil
	}
	return fmt.Errorf("%w: run %s", dedupe.ErrReplaced, r.ID)
}

// CloseRun puts a run as closed IF its row is open and was not saved since r was read. It is an update, so that a
// function needs no right to put rows of runs.
func (s *Store) CloseRun(ctx context.Context, scope string, r dedupe.Run) (closed bool, err error) {
	_, err = s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(s.table), Key: dynamo.Encode(runKey(scope, r.ID)),
		UpdateExpression: aws.String("SET closed = :yes, finished = :no, #input = :input, #lines = :lines, " +
			"#file = :file, #line = :line, #output = :size, dead_letters = :letters, tally = :tally"),
		ConditionExpression: aws.String("closed = :no AND beat = :beat"),
		ExpressionAttributeNames: map[string]string{
			"#input": "input", "#lines": "lines", "#file": "file", "#line": "line", "#output": "output",
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":yes": yes, ":no": no, ":beat": number(r.Beat),
			":input": number(r.Input), ":lines": number(r.Lines), ":file": number(int64(r.File)), ":line": number(r.Line),
			":size": number(r.Output), ":letters": number(r.DeadLetters),
			":tally": dynamo.Encode(newRunRow(scope, r))["tally"],
		},
		ReturnValuesOnConditionCheckFailure: allOld,
	})
	if _, changed := dynamo.ConditionFailure(err); changed {
		return false, nil
	}
	return err == nil, failed("close run", err)
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
