// Package sqlitesink does the effects of records in a SQLite file, each in one transaction with the entry of its
// record. It is a transactional sink (a level of package sinktest) for a single node, without a server. The effect of
// a record happens once, whatever crashes, and however often the record comes.
//
// The effect is the caller's SQL, on the caller's tables in the file of the store:
//
//	store, err := sqlitestore.Create(ctx, "orders.db")
//	...
//	sink := sqlitesink.New(store, func(ctx context.Context, tx sqlitestore.Tx, o dedupe.Output) (bool, error) {
//		_, err := tx.ExecContext(ctx, `UPDATE account SET balance = balance - ? WHERE id = ?`, amount, id)
//		return false, err
//	})
//	processor, err := dedupe.NewProcessor(dedupe.Parts{Tx: sink, Format: format, DeadLetters: letters}, settings)
//
// NewTable stores the records themselves, each as a row.
package sqlitesink

import (
	"context"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
)

// Store is the part of *sqlitestore.Store that a Sink calls.
type Store interface {
	Transact(
		ctx context.Context, t dedupe.Transaction, effect func(ctx context.Context, tx sqlitestore.Tx) error,
	) (*dedupe.Existing, error)
	RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error)
}

// Effect is the effect of an output. superseded says that the effect was not needed, because the store has a version
// of the same thing that is not older. The record is then done.
//
// An error undoes the effect. A *dedupe.PoisonError makes the record a dead letter, and so does a panic. Every other
// error fails the batch, which comes again.
type Effect func(ctx context.Context, tx sqlitestore.Tx, o dedupe.Output) (superseded bool, err error)

// Sink does the effects of records, one at a time. It is safe for concurrent use.
type Sink struct {
	store  Store
	effect Effect
	check  func(dedupe.Output) error
}

var _ dedupe.TxSink = (*Sink)(nil)

// New makes a Sink from an Effect.
func New(store Store, effect Effect) *Sink {
	return &Sink{store, effect, func(dedupe.Output) error { return nil }}
}

// Check returns a *dedupe.PoisonError for a record that cannot be a row. A Sink of New accepts every record.
func (s *Sink) Check(_ context.Context, o dedupe.Output) error { return s.check(o) }

// Transact implements dedupe.TxSink.
func (s *Sink) Transact(ctx context.Context, t dedupe.Transaction) (result dedupe.TxResult, err error) {
	superseded := false
	result.Existing, err = s.store.Transact(ctx, t, func(ctx context.Context, tx sqlitestore.Tx) (err error) {
		superseded, err = s.effect(ctx, tx, t.Output)
		return err
	})
	if err != nil {
		return dedupe.TxResult{}, err
	}
	result.Superseded = superseded
	return result, nil
}

// RaisePurge implements dedupe.TxSink.
func (s *Sink) RaisePurge(ctx context.Context, raises []dedupe.RaiseRequest) ([]dedupe.RaiseResult, error) {
	return s.store.RaisePurge(ctx, raises)
}

// tableName is a name that needs no quotes. A prefix distinguishes the table from the tables of the store.
var tableName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// IsTable reports whether a text is the name of a table for NewTable.
func IsTable(name string) bool { return tableName.MatchString(name) }

const (
	reasonNotText = "it is not UTF-8, which a row of the sink's table has to be"
	reasonThere   = "the table has a row with its id already"
)

// NewTable makes a Sink that inserts each record as a row (id TEXT, record TEXT). It makes the table records_NAME in
// the file of the store if it does not exist. A record whose id already has a row is a dead letter.
func NewTable(ctx context.Context, store *sqlitestore.Store, name string) (*Sink, error) {
	if !IsTable(name) {
		return nil, fmt.Errorf("%q is not the name of a table: use 1 to 63 of a-z, 0-9 and _, beginning with a letter", name)
	}
	table := "records_" + name
	create := `CREATE TABLE IF NOT EXISTS ` + table + ` (id TEXT NOT NULL PRIMARY KEY, record TEXT NOT NULL) STRICT`
	err := store.Do(ctx, "make table "+table, func(ctx context.Context, tx sqlitestore.Tx) error {
		_, err := tx.ExecContext(ctx, create)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Sink{store, insertInto(table), checkText}, nil
}

func checkText(o dedupe.Output) error {
	if !utf8.Valid(o.Data) {
		return &dedupe.PoisonError{Reason: reasonNotText}
	}
	return nil
}

func insertInto(table string) Effect {
	insert := `INSERT INTO ` + table + ` (id, record) VALUES (?, ?) ON CONFLICT (id) DO NOTHING`
	return func(ctx context.Context, tx sqlitestore.Tx, o dedupe.Output) (bool, error) {
		result, err := tx.ExecContext(ctx, insert, o.ID, string(o.Data))
		if err != nil {
			return false, err
		}
		n, err := result.RowsAffected()
		if err == nil && n == 0 {
			err = &dedupe.PoisonError{Reason: reasonThere}
		}
		return false, err
	}
}
