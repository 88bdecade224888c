// Package dynamosink does the effects of records in DynamoDB, each in one transaction with the entry of its record.
// It is a transactional sink (a level of package sinktest). The effect of a record happens once, whatever crashes,
// and however often the record comes.
//
// New writes records as items of a table:
//
//	ledger := dynamostore.New(client, "oncebox-dedupe")
//	table := dynamosink.Table{Name: "orders", Key: []dynamosink.Attribute{{"order_id", "order_id"}}}
//	sink, err := dynamosink.New(ledger, table)
//	...
//	processor, err := dedupe.NewProcessor(dedupe.Parts{Tx: sink, Format: format, DeadLetters: store}, settings)
//
// NewEffect runs a function of the caller for each record. The function returns up to 98 actions of a transaction, on
// any tables of the account and region.
//
// # Insert, upsert, delete
//
// Without a version, an item is put if no item has its key. A record whose key is taken is a dead letter.
//
// With a version, an item is put if there is none or an older one. If the existing version is not older, the record
// is superseded: its effect is not needed, and it counts as delivered. The old item, which comes back with the
// refused transaction, must prove that: its version must be a number as well, or a string of the same length, form and
// case. Otherwise the record is a dead letter. Strings are times as 2027-03-01T09:00:00Z or 2027-03-01T09:00:00.250Z,
// dates, or digits with letters of one case. Numbers are better, for example milliseconds since 1970. Of two records
// with the same version, the one with the higher ledger key (format.KeyOf of its id) stays, in whichever order they
// come.
//
// A delete replaces the old item by an item with the key, the version and the attribute oncebox_deleted. If the item
// were removed, an older version that comes late would bring it back. Readers skip items that have the attribute.
//
// # Items
//
// A record is a JSON object. Its members become attributes: strings, booleans, null, lists, maps, and numbers with up
// to 38 significant digits, exactly. With a version, an item also has the attribute oncebox_key (16 bytes), which
// decides between equal versions. A record that cannot be an item is a dead letter: for example a number that does
// not fit, a name that occurs twice, or more than 400 KB.
//
// # Cost
//
// A write in a transaction costs two write units for each KB of an item (DynamoDB Developer Guide, "Amazon DynamoDB
// Transactions: How it works"). So a record with an item of up to 1 KB costs four: two for the entry, two for the item.
// A copy that is dropped is a refused transaction, and a failed condition is billed too.
package dynamosink

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
)

// Store is the part of *dynamostore.Store that a Sink calls: the entries.
type Store interface {
	Transact(
		ctx context.Context, t dedupe.Transaction, actions []types.TransactWriteItem,
	) (dynamostore.TransactResult, error)
	RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error)
}

// Effect returns the actions that are the effect of an output: up to dynamostore.MaxActions, each on its own item,
// and none on the entry of the record. Without actions the record is done. DynamoDB makes all of them and puts the
// entry, or does nothing. If the function is called again for a record, it must return actions with the same effect.
//
// An error that is a *dedupe.PoisonError makes the record a dead letter. Every other error fails the batch, which comes
// again: return an error of the family dedupe.ErrTryAgain if a later attempt may succeed, so that it is soon
// repeated.
type Effect func(ctx context.Context, o dedupe.Output) ([]types.TransactWriteItem, error)

// Judge decides what failed conditions of an effect mean. Nothing was written. superseded says that the effect is not
// needed now and will not be needed later: the record is then done. Otherwise the record is a dead letter, unless the
// error decides otherwise, as for an Effect.
type Judge func(o dedupe.Output, failed []dynamostore.FailedCondition) (superseded bool, err error)

// Sink does the effects of records. It is safe for concurrent use.
type Sink struct {
	store  Store
	effect Effect
	judge  Judge
	check  func(dedupe.Output) error
}

var _ dedupe.TxSink = (*Sink)(nil)

// NewEffect makes a Sink from an Effect. Without a judge each failed condition makes the record a dead letter.
func NewEffect(store Store, effect Effect, judge Judge) *Sink {
	return &Sink{store, effect, judge, func(dedupe.Output) error { return nil }}
}

// Check returns a *dedupe.PoisonError for a record that cannot be an item. A Sink of NewEffect accepts every record.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error { return s.check(o) }

// Transact implements dedupe.TxSink, in one request, or in two for a superseded record.
func (s *Sink) Transact(ctx context.Context, t dedupe.Transaction) (dedupe.TxResult, error) {
	actions, err := s.effect(ctx, t.Output)
	if err != nil {
		return dedupe.TxResult{}, err
	}
	result, err := s.store.Transact(ctx, t, actions)
	if err != nil || len(result.Failed) == 0 {
		return dedupe.TxResult{Existing: result.Existing}, err
	}
	if err := s.judgeFailed(t.Output, result.Failed); err != nil {
		return dedupe.TxResult{}, err
	}
	result, err = s.store.Transact(ctx, t, nil)
	return dedupe.TxResult{Existing: result.Existing, Superseded: err == nil && result.Existing == nil}, err
}

// judgeFailed returns nil if the effect is superseded.
func (s *Sink) judgeFailed(o dedupe.Output, failed []dynamostore.FailedCondition) error {
	if s.judge != nil {
		if superseded, err := s.judge(o, failed); superseded || err != nil {
			return err
		}
	}
	return &dedupe.PoisonError{Reason: fmt.Sprintf("the condition of action %d of its effect failed", failed[0].Action)}
}

// RaisePurge implements dedupe.TxSink.
func (s *Sink) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return s.store.RaisePurge(ctx, raises)
}
