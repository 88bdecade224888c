package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/internal/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/dynamo"
	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/dedupe"
	ledgerdynamo "github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	ledgersqlite "github.com/oncebox/oncebox/pkg/dedupe/sqlitestore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// The forms of --store.
const (
	sqlitePrefix  = "sqlite:"
	dynamodbStore = "dynamodb:"
)

// sqlitePath returns the file of a --store; ok is false for DynamoDB.
func (g globals) sqlitePath() (path string, ok bool, err error) {
	path, ok = strings.CutPrefix(g.Store, sqlitePrefix)
	switch {
	case ok && path == "", !ok && g.Store != dynamodbStore:
		return "", false, &usageError{fmt.Errorf("--store %q: must be %sPATH or %s", g.Store, sqlitePrefix, dynamodbStore), ""}
	}
	return path, ok, nil
}

// open opens the store, which must exist. Call closeStore after use.
func (g globals) open(ctx context.Context) (store engine.Store, closeStore func(), err error) {
	path, ok, err := g.sqlitePath()
	if err != nil {
		return nil, nil, err
	}
	if ok {
		store, err := sqlitestore.Open(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		return store, func() { _ = store.Close() }, nil // every write is on the disk by now
	}
	client, err := awsclient.NewDynamoDB(ctx, sdkconfig.Load)
	if err != nil {
		return nil, nil, err
	}
	return dynamostore.New(client, g.BankTable, g.DedupeTable), func() {}, nil
}

// withBank runs a command on a Bank over the store.
func (g globals) withBank(ctx context.Context, run func(*itembank.Bank) error) error {
	store, closeStore, err := g.open(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	return run(itembank.New(store))
}

// openLedger opens the store of record entries, which must exist. Call
// closeLedger after use.
func (g globals) openLedger(ctx context.Context, concurrency int) (ledger dedupe.Store, closeLedger func(), err error) {
	path, ok, err := g.sqlitePath()
	if err != nil {
		return nil, nil, err
	}
	if ok {
		store, err := ledgersqlite.Open(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		return store, func() { _ = store.Close() }, nil // every write is on the disk by now
	}
	client, err := awsclient.NewDynamoDB(ctx, sdkconfig.Load)
	if err != nil {
		return nil, nil, err
	}
	return ledgerdynamo.New(client, g.DedupeTable, ledgerdynamo.WithConcurrency(concurrency)), func() {}, nil
}

type initCommand struct {
	Yes bool `help:"Make tables in an AWS account, where they cost money; not asked for a local endpoint."`
}

func (initCommand) Help() string {
	return `Safe to repeat: what is there already is left as it is.

Examples:
  oncebox init                                   # ./oncebox.db
  oncebox --store sqlite:/var/lib/codes.db init
  AWS_ENDPOINT_URL_DYNAMODB=http://localhost:8000 oncebox --store dynamodb: init`
}

func (c initCommand) Run(ctx context.Context, a *app) error {
	if err := a.create(ctx, c.Yes); err != nil {
		return err
	}
	return a.print(map[string]string{"store": a.Store}, "store ready: "+a.Store)
}

// create makes the store. In an AWS account it wants to be told to.
func (g globals) create(ctx context.Context, yes bool) error {
	path, ok, err := g.sqlitePath()
	if err != nil {
		return err
	}
	if ok {
		return createFile(ctx, path)
	}
	client, err := awsclient.NewDynamoDB(ctx, sdkconfig.Load)
	if err != nil {
		return err
	}
	if !dynamo.Local(client) && !yes {
		return &usageError{errors.New("this would make tables in an AWS account; say --yes if that is meant, " +
			"or set AWS_ENDPOINT_URL_DYNAMODB to a local engine"), ""}
	}
	return dynamostore.CreateTables(ctx, client, g.BankTable, g.DedupeTable)
}

// createFile makes the tables of both jobs in one file.
func createFile(ctx context.Context, path string) error {
	bank, err := sqlitestore.Create(ctx, path)
	if err != nil {
		return err
	}
	ledger, err := ledgersqlite.Create(ctx, path)
	if err == nil {
		err = ledger.Close()
	}
	return errors.Join(err, bank.Close())
}
